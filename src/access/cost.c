/*
 * cost.c
 *		What a lookup costs, for the planner.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "nodes/pathnodes.h"
#include "utils/index_selfuncs.h"
#include "utils/selfuncs.h"

#include "lazyhash.h"

/*
 * The server's generic estimate fits: there is no tree to descend, and the
 * pages that hold the matching entries are what is read.  It takes entries to
 * lie evenly on the index's pages; a lookup reads one page at the least.
 */
void
lazy_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup,
				   Cost *total, Selectivity *selectivity, double *correlation, double *pages)
{
	GenericCosts costs;

	MemSet(&costs, 0, sizeof(costs));
	genericcostestimate(root, path, loop_count, &costs);

	*startup = costs.indexStartupCost;
	*total = costs.indexTotalCost;
	*selectivity = costs.indexSelectivity;
	*correlation = costs.indexCorrelation;
	*pages = costs.numIndexPages;
}

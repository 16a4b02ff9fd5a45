/*
 * build.c
 *		CREATE INDEX: from the table to the pages, in linear time.
 *
 * The table is scanned once, each row's value hashed, and the entries, which
 * are 10 bytes each, collected in memory or, if they outgrow
 * maintenance_work_mem, in a temporary file (collect.c, spill.c), by several
 * processes if need be (parallel.c).  Then their number is known, hence that of
 * the buckets, and each page is made of the entries of its bucket and written
 * once (load.c, writer.c).
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/tableam.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "pgstat.h"
#include "utils/memutils.h"

#include "../access/lazyhash.h"
#include "build.h"
#include "collect.h"
#include "load.h"
#include "parallel.h"

double
lazy_build_estimate(Relation heap)
{
	BlockNumber pages;
	double		tuples;
	double		allvisible;

	estimate_rel_size(heap, NULL, &pages, &tuples, &allvisible);
	return tuples;
}

Size
lazy_build_memory(void)
{
	return (Size) maintenance_work_mem * 1024;
}

static void
build_serially(Relation heap, Relation index, IndexInfo *info, uint32 ffactor,
			   IndexBuildResult *result)
{
	double		estimate = lazy_build_estimate(heap);
	Size		capacity = lazy_collect_capacity(lazy_build_memory());
	LazyRadix	partitions;
	LazyCollector collector;

	lazy_collect_plan(&partitions, estimate, ffactor, capacity);
	lazy_collect_start(&collector, index, capacity, estimate, &partitions, NULL);
	result->heap_tuples = table_index_build_scan(heap, index, info, true, true,
												 lazy_collect, &collector, NULL);
	result->index_tuples = collector.nentries;

	if (collector.spill == NULL)
	{
		lazy_load_memory(index, ffactor, collector.entries, collector.n);
		lazy_collect_end(&collector);
	}
	else
	{
		lazy_collect_spill(&collector);
		lazy_collect_end(&collector);
		lazy_load_spills(index, ffactor, collector.spill, 1, capacity);
		lazy_spill_close(collector.spill);
	}
}

/* Returns false, with nothing done, if no worker is to be had. */
static bool
build_in_parallel(Relation heap, Relation index, IndexInfo *info, uint32 ffactor,
				  int nworkers, IndexBuildResult *result)
{
	LazyParallel *parallel = lazy_parallel_scan(heap, index, info, ffactor, nworkers);

	if (parallel == NULL)
		return false;
	result->heap_tuples = parallel->heap_tuples;
	result->index_tuples =
		lazy_load_spills(index, ffactor, parallel->spills, parallel->nspills,
						 lazy_collect_capacity(lazy_build_memory()));
	lazy_parallel_end(parallel);
	return true;
}

IndexBuildResult *
lazy_build(Relation heap, Relation index, IndexInfo *info)
{
	IndexBuildResult *result = palloc0(sizeof(IndexBuildResult));
	uint32		ffactor = lazy_ffactor(lazy_fillfactor(index));
	int			nworkers = lazy_parallel_workers(heap, index, info);
	MemoryContext context;
	MemoryContext caller;

	if (RelationGetNumberOfBlocks(index) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" already contains data", RelationGetRelationName(index))));

	/* built anew within a transaction, it may have been another index before */
	lazy_cache_reset(index);

	context = AllocSetContextCreate(CurrentMemoryContext, "lazyhash build",
									ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, LAZY_BUILD_PHASE_SCAN);
	if (nworkers == 0 ||
		!build_in_parallel(heap, index, info, ffactor, nworkers, result))
		build_serially(heap, index, info, ffactor, result);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	return result;
}

/* The init fork, out of which an unlogged index is made empty after a crash. */
void
lazy_build_empty(Relation index)
{
	lazy_load_empty(index, INIT_FORKNUM, lazy_ffactor(lazy_fillfactor(index)));
}

char *
lazy_build_phase_name(int64 phase)
{
	switch (phase)
	{
		case PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE:
			return "initializing";
		case LAZY_BUILD_PHASE_SCAN:
			return "scanning table";
		case LAZY_BUILD_PHASE_BUCKETS:
			return "writing buckets";
		case LAZY_BUILD_PHASE_OVERFLOW:
			return "writing overflow pages";
		default:
			return NULL;
	}
}

/*
 * handler.c
 *		The access method's description of itself, and the library's start.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/amapi.h"
#include "catalog/pg_type.h"
#include "commands/vacuum.h"
#include "fmgr.h"
#include "utils/guc.h"

#include "../stats/stats.h"
#include "lazyhash.h"
#include "testpoint.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	lazy_options_init();
	lazy_wal_init();
	lazy_stats_init();
#ifdef LAZY_TEST_POINTS
	lazy_test_points_init();
#endif
	MarkGUCPrefixReserved("lazyhash");
}

PG_FUNCTION_INFO_V1(lazyhash_handler);

static void
describe(IndexAmRoutine *am)
{
	am->amstrategies = LAZY_NSTRATEGIES;
	am->amsupport = LAZY_NPROCS;
	am->amoptsprocnum = LAZY_OPTIONS_PROC;
	am->amcanorder = false;
	am->amcanorderbyop = false;
	am->amcanbackward = false;

	/*
	 * Not unique, on every version: before 18 one unique index of another kind
	 * than btree makes each INSERT ... ON CONFLICT on its table fail.
	 */
	am->amcanunique = false;
	am->amcanmulticol = false;
	am->amoptionalkey = false;
	am->amsearcharray = false;
	am->amsearchnulls = false;
	am->amstorage = false;
	am->amclusterable = false;
	am->ampredlocks = true;
	am->amcanparallel = false;
	am->amcaninclude = false;
	am->amusemaintenanceworkmem = false;
	am->amparallelvacuumoptions = VACUUM_OPTION_PARALLEL_BULKDEL;
	am->amkeytype = INT4OID;

	am->ambuild = lazy_build;
	am->ambuildempty = lazy_build_empty;
	am->aminsert = lazy_insert;
	am->ambulkdelete = lazy_bulk_delete;
	am->amvacuumcleanup = lazy_vacuum_cleanup;
	am->amcostestimate = lazy_cost_estimate;
	am->amoptions = lazy_options;
	am->ambuildphasename = lazy_build_phase_name;
	am->amvalidate = lazy_validate;
	am->amadjustmembers = lazy_adjust_members;
	am->ambeginscan = lazy_begin_scan;
	am->amrescan = lazy_rescan;
	am->amgettuple = lazy_get_tuple;
	am->amgetbitmap = lazy_get_bitmap;
	am->amendscan = lazy_end_scan;
	/* the rest stays NULL: no index-only scans, no parallel scans, no marks */
}

Datum
lazyhash_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *am = lazy_am_routine();

	describe(am);
	lazy_am_describe_newer(am);
	PG_RETURN_POINTER(am);
}

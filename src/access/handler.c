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

#include "lazyhash.h"
#include "testpoint.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	lazy_options_init();
	lazy_wal_init();
#ifdef LAZY_TEST_POINTS
	lazy_test_points_init();
#endif
	MarkGUCPrefixReserved("lazyhash");
}

PG_FUNCTION_INFO_V1(lazyhash_handler);

/* What the server copies, or uses as it is, by version. */
static void
describe(IndexAmRoutine *am)
{
	am->amstrategies = LAZY_NSTRATEGIES;
	am->amsupport = LAZY_NPROCS;
	am->amoptsprocnum = LAZY_OPTIONS_PROC;
	am->amcanorder = false;
	am->amcanorderbyop = false;
#if PG_VERSION_NUM >= 180000
	am->amcanhash = true;
	am->amconsistentequality = true;
	am->amconsistentordering = false;
#endif
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
#if PG_VERSION_NUM >= 170000
	am->amcanbuildparallel = true;
#endif
	am->amcaninclude = false;
	am->amusemaintenanceworkmem = false;
#if PG_VERSION_NUM >= 160000
	am->amsummarizing = false;
#endif
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

/*
 * Before 19 the server frees what it gets; since, it keeps the pointer for good.
 */
Datum
lazyhash_handler(PG_FUNCTION_ARGS)
{
#if PG_VERSION_NUM < 190000
	IndexAmRoutine *am = makeNode(IndexAmRoutine);

	describe(am);
	PG_RETURN_POINTER(am);
#else
	static IndexAmRoutine am = {.type = T_IndexAmRoutine};

	if (am.ambuild == NULL)
		describe(&am);
	PG_RETURN_POINTER(&am);
#endif
}

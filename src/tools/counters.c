/*
 * counters.c
 *		SQL functions over what has been counted for each index: what
 *		pg_stat_lazyhash reads, and setting it to zero.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "storage/lmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "../access/lazyhash.h"
#include "../stats/stats.h"
#include "tools.h"

PG_FUNCTION_INFO_V1(lazyhash_stat_counters);
PG_FUNCTION_INFO_V1(lazyhash_stat_reset);

/* Sees to it that the statistics can be had, and that our own are in them. */
static void
require_statistics(void)
{
	if (!lazy_stats_attach())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("statistics of lazyhash indexes are not being collected"),
				 errhint("Add lazyhash to shared_preload_libraries and restart the server.")));
	lazy_stats_flush();
}

/*
 * Is there no index of this OID in this database, nor will there be?  Whoever
 * makes or drops it holds a lock on it until the outcome is certain.
 */
static bool
index_is_gone(Oid index)
{
	bool		gone;

	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(index)) ||
		!ConditionalLockRelationOid(index, AccessShareLock))
		return false;
	gone = !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(index));
	UnlockRelationOid(index, AccessShareLock);
	return gone;
}

/*
 * Gives up the slot of an index that was dropped, alone or with its database.
 * Which indexes another database has cannot be seen from here.
 */
static bool
forgotten_if_dropped(const LazyStatsRow *row)
{
	bool		gone;

	if (row->database == MyDatabaseId)
		gone = index_is_gone(row->index);
	else
		gone = !SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(row->database));
	if (gone)
		lazy_stats_forget(row->database, row->index);
	return gone;
}

#define COUNTER_COLUMNS		(LAZY_NCOUNTERS + 3)

static void
put_counters(ReturnSetInfo *result, const LazyStatsRow *row)
{
	Datum		values[COUNTER_COLUMNS];
	bool		nulls[COUNTER_COLUMNS] = {false};

	values[0] = ObjectIdGetDatum(row->database);
	values[1] = ObjectIdGetDatum(row->index);
	for (int c = 0; c < LAZY_NCOUNTERS; c++)
		values[c + 2] = Int64GetDatum((int64) row->count[c]);
	values[LAZY_NCOUNTERS + 2] = TimestampTzGetDatum(row->since);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum
lazyhash_stat_counters(PG_FUNCTION_ARGS)
{
	LazyStatsRow *rows;
	int			n;

	require_statistics();
	InitMaterializedSRF(fcinfo, 0);
	n = lazy_stats_copy(&rows);
	for (int i = 0; i < n; i++)
	{
		if (!forgotten_if_dropped(&rows[i]))
			put_counters((ReturnSetInfo *) fcinfo->resultinfo, &rows[i]);
	}
	pfree(rows);
	PG_RETURN_NULL();
}

Datum
lazyhash_stat_reset(PG_FUNCTION_ARGS)
{
	Oid			indexoid = PG_ARGISNULL(0) ? InvalidOid : PG_GETARG_OID(0);

	require_statistics();
	if (!PG_ARGISNULL(0))
	{
		Relation	index = lazy_tool_open(indexoid, AccessShareLock);

		lazy_stats_reset(indexoid);
		lazy_tool_close(index, AccessShareLock);
	}
	else
		lazy_stats_reset(InvalidOid);
	PG_RETURN_VOID();
}

/*
 * parallel.c
 *		Scan of the table by several processes.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "optimizer/plancat.h"
#include "pgstat.h"
#include "storage/sharedfileset.h"
#include "storage/spin.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/snapmgr.h"

#include "../compat.h"
#include "build.h"
#include "collect.h"
#include "parallel.h"

/* Keys of the shared memory's table of contents. */
#define KEY_SHARED			UINT64CONST(0x1A2F000000000001)
#define KEY_SCAN			UINT64CONST(0x1A2F000000000002)
#define KEY_PARTITIONS		UINT64CONST(0x1A2F000000000003)
#define KEY_QUERY_TEXT		UINT64CONST(0x1A2F000000000004)
#define KEY_BUFFER_USAGE	UINT64CONST(0x1A2F000000000005)
#define KEY_WAL_USAGE		UINT64CONST(0x1A2F000000000006)

struct LazyParallelShared
{
	/* as the leader has set it */
	Oid			heap_oid;
	Oid			index_oid;
	bool		concurrent;
	int64		query_id;
	double		estimate;		/* of each participant's entries */
	Size		capacity;		/* each participant's */
	LazyRadix	partitions;		/* of each spill */
	SharedFileSet fileset;

	/* sums of what the participants have found */
	slock_t		mutex;
	double		heap_tuples;
	bool		broken_hot_chain;
};

extern PGDLLEXPORT void lazy_build_worker(dsm_segment *seg, shm_toc *toc);

int
lazy_parallel_workers(Relation heap, Relation index, IndexInfo *info)
{
	return lazy_planned_workers(heap, index, info);
}

/* ---- every participant ---- */

static void
spill_name(char *name, Size size, int participant)
{
	snprintf(name, size, "lazyhash.%d", participant);
}

/*
 * Scans a share of the table into a spill.  Participant 0 is the leader, who
 * shows the progress of the scan.
 */
static void
participate(LazyParallelShared *shared, ParallelTableScanDesc pscan,
			LazySpillPartition *partitions, Relation heap, Relation index, IndexInfo *info,
			int participant, LazySpill *spill)
{
	LazyCollector collector;
	TableScanDesc scan;
	char		name[MAXPGPATH];
	double		heap_tuples;

	spill_name(name, sizeof(name), participant);
	lazy_spill_init(spill, BufFileCreateFileSet(&shared->fileset.fs, name), &shared->partitions,
					partitions + (Size) participant * shared->partitions.nslots);
	lazy_collect_start(&collector, index, shared->capacity, shared->estimate,
					   &shared->partitions, spill);

	scan = lazy_beginscan_parallel(heap, pscan);
	heap_tuples = table_index_build_scan(heap, index, info, true, participant == 0,
										 lazy_collect, &collector, scan);
	lazy_collect_spill(&collector);
	lazy_collect_end(&collector);

	SpinLockAcquire(&shared->mutex);
	shared->heap_tuples += heap_tuples;
	shared->broken_hot_chain |= info->ii_BrokenHotChain;
	SpinLockRelease(&shared->mutex);
}

/* ---- the worker ---- */

void
lazy_build_worker(dsm_segment *seg, shm_toc *toc)
{
	LazyParallelShared *shared = shm_toc_lookup(toc, KEY_SHARED, false);
	BufferUsage *buffer_usage = shm_toc_lookup(toc, KEY_BUFFER_USAGE, false);
	WalUsage   *wal_usage = shm_toc_lookup(toc, KEY_WAL_USAGE, false);
	LOCKMODE	heap_lock = shared->concurrent ? ShareUpdateExclusiveLock : ShareLock;
	LOCKMODE	index_lock = shared->concurrent ? RowExclusiveLock : AccessExclusiveLock;
	Relation	heap;
	Relation	index;
	IndexInfo  *info;
	LazySpill	spill;

	debug_query_string = shm_toc_lookup(toc, KEY_QUERY_TEXT, true);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);
	pgstat_report_query_id(shared->query_id, false);

	/* the leader's locks, which do not conflict within its group */
	heap = table_open(shared->heap_oid, heap_lock);
	index = index_open(shared->index_oid, index_lock);
	info = BuildIndexInfo(index);
	info->ii_Concurrent = shared->concurrent;

	SharedFileSetAttach(&shared->fileset, seg);
	InstrStartParallelQuery();
	participate(shared, shm_toc_lookup(toc, KEY_SCAN, false),
				shm_toc_lookup(toc, KEY_PARTITIONS, false), heap, index, info,
				ParallelWorkerNumber + 1, &spill);
	BufFileExportFileSet(spill.file);
	BufFileClose(spill.file);
	InstrEndParallelQuery(&buffer_usage[ParallelWorkerNumber],
						  &wal_usage[ParallelWorkerNumber]);

	index_close(index, index_lock);
	table_close(heap, heap_lock);
}

/* ---- the leader ---- */

/* What all participants are to know. */
static void
make_plan(LazyParallelShared *shared, Relation heap, Relation index, IndexInfo *info,
		  uint32 ffactor, int nparticipants)
{
	double		estimate = lazy_build_estimate(heap);

	memset(shared, 0, sizeof(LazyParallelShared));
	shared->heap_oid = RelationGetRelid(heap);
	shared->index_oid = RelationGetRelid(index);
	shared->concurrent = info->ii_Concurrent;
	shared->query_id = pgstat_get_my_query_id();
	shared->estimate = estimate / nparticipants;
	shared->capacity = lazy_collect_capacity(lazy_build_memory() / nparticipants);
	lazy_collect_plan(&shared->partitions, estimate, ffactor, shared->capacity);
}

/*
 * Sets the shared memory up.  False if the server has none left.
 */
static bool
make_shared(LazyParallel *parallel, Relation heap, Relation index, IndexInfo *info,
			uint32 ffactor)
{
	ParallelContext *context = parallel->context;
	int			nparticipants = context->nworkers + 1;
	Size		scan_size = table_parallelscan_estimate(heap, parallel->snapshot);
	Size		text_size = debug_query_string ? strlen(debug_query_string) + 1 : 0;
	Size		partitions_size;
	Size		buffer_size = mul_size(sizeof(BufferUsage), context->nworkers);
	Size		wal_size = mul_size(sizeof(WalUsage), context->nworkers);
	LazyParallelShared plan;
	void	   *chunk;

	make_plan(&plan, heap, index, info, ffactor, nparticipants);
	partitions_size = mul_size(mul_size(sizeof(LazySpillPartition), plan.partitions.nslots),
							   nparticipants);

	shm_toc_estimate_chunk(&context->estimator, sizeof(LazyParallelShared));
	shm_toc_estimate_chunk(&context->estimator, scan_size);
	shm_toc_estimate_chunk(&context->estimator, partitions_size);
	shm_toc_estimate_chunk(&context->estimator, text_size);
	shm_toc_estimate_chunk(&context->estimator, buffer_size);
	shm_toc_estimate_chunk(&context->estimator, wal_size);
	shm_toc_estimate_keys(&context->estimator, 6);
	InitializeParallelDSM(context);
	if (context->seg == NULL)
		return false;

	parallel->shared = shm_toc_allocate(context->toc, sizeof(LazyParallelShared));
	*parallel->shared = plan;
	SpinLockInit(&parallel->shared->mutex);
	SharedFileSetInit(&parallel->shared->fileset, context->seg);
	shm_toc_insert(context->toc, KEY_SHARED, parallel->shared);

	chunk = shm_toc_allocate(context->toc, scan_size);
	table_parallelscan_initialize(heap, chunk, parallel->snapshot);
	shm_toc_insert(context->toc, KEY_SCAN, chunk);

	shm_toc_insert(context->toc, KEY_PARTITIONS,
				   shm_toc_allocate(context->toc, partitions_size));

	if (debug_query_string)
	{
		chunk = shm_toc_allocate(context->toc, text_size);
		memcpy(chunk, debug_query_string, text_size);
		shm_toc_insert(context->toc, KEY_QUERY_TEXT, chunk);
	}

	parallel->buffer_usage = shm_toc_allocate(context->toc, buffer_size);
	shm_toc_insert(context->toc, KEY_BUFFER_USAGE, parallel->buffer_usage);
	parallel->wal_usage = shm_toc_allocate(context->toc, wal_size);
	shm_toc_insert(context->toc, KEY_WAL_USAGE, parallel->wal_usage);
	return true;
}

/* The workers' spills, once they have ended; the leader's own is the first. */
static void
open_spills(LazyParallel *parallel, LazySpillPartition *partitions)
{
	LazyParallelShared *shared = parallel->shared;
	char		name[MAXPGPATH];

	for (int i = 1; i < parallel->nspills; i++)
	{
		LazySpill  *spill = &parallel->spills[i];

		spill_name(name, sizeof(name), i);
		spill->file = BufFileOpenFileSet(&shared->fileset.fs, name, O_RDONLY, false);
		spill->radix = shared->partitions;
		spill->partition = partitions + (Size) i * shared->partitions.nslots;
	}
}

/* Leaves parallel mode, whatever of it has been entered. */
static void
leave_parallel_mode(LazyParallel *parallel)
{
	if (IsMVCCSnapshot(parallel->snapshot))
		UnregisterSnapshot(parallel->snapshot);
	DestroyParallelContext(parallel->context);
	ExitParallelMode();
	pfree(parallel);
}

LazyParallel *
lazy_parallel_scan(Relation heap, Relation index, IndexInfo *info, uint32 ffactor, int nworkers)
{
	LazyParallel *parallel = palloc0(sizeof(LazyParallel));
	ParallelContext *context;
	LazySpillPartition *partitions;

	EnterParallelMode();
	context = CreateParallelContext("lazyhash", "lazy_build_worker", nworkers);
	parallel->context = context;

	/* a plain build looks at all versions of rows, a concurrent one at the visible */
	parallel->snapshot = info->ii_Concurrent ?
		RegisterSnapshot(GetTransactionSnapshot()) : SnapshotAny;
	if (!make_shared(parallel, heap, index, info, ffactor))
	{
		leave_parallel_mode(parallel);
		return NULL;
	}
	LaunchParallelWorkers(context);
	if (context->nworkers_launched == 0)
	{
		leave_parallel_mode(parallel);
		return NULL;
	}

	parallel->nspills = context->nworkers_launched + 1;
	parallel->spills = palloc_array(LazySpill, parallel->nspills);
	partitions = shm_toc_lookup(context->toc, KEY_PARTITIONS, false);
	participate(parallel->shared, shm_toc_lookup(context->toc, KEY_SCAN, false), partitions,
				heap, index, info, 0, &parallel->spills[0]);

	/* raises whatever error a worker has met, failing to start included */
	WaitForParallelWorkersToFinish(context);
	for (int i = 0; i < context->nworkers_launched; i++)
		InstrAccumParallelQuery(&parallel->buffer_usage[i], &parallel->wal_usage[i]);
	open_spills(parallel, partitions);
	parallel->heap_tuples = parallel->shared->heap_tuples;
	info->ii_BrokenHotChain |= parallel->shared->broken_hot_chain;
	return parallel;
}

void
lazy_parallel_end(LazyParallel *parallel)
{
	for (int i = 0; i < parallel->nspills; i++)
		BufFileClose(parallel->spills[i].file);
	pfree(parallel->spills);
	leave_parallel_mode(parallel);
}

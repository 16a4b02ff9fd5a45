/*
 * parallel.h
 *		Scan of the table by several processes.
 *
 * Each participant, the leader among them, collects the entries of the rows
 * that fall to it into a spill of its own; the leader makes pages of them all.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_BUILD_PARALLEL_H
#define LAZY_BUILD_PARALLEL_H

#include "postgres.h"

#include "access/parallel.h"
#include "nodes/execnodes.h"
#include "utils/snapshot.h"

#include "spill.h"

typedef struct LazyParallelShared LazyParallelShared;

typedef struct LazyParallel
{
	ParallelContext *context;
	LazyParallelShared *shared;
	Snapshot	snapshot;
	BufferUsage *buffer_usage;
	WalUsage   *wal_usage;

	/* results */
	double		heap_tuples;
	int			nspills;
	LazySpill  *spills;			/* all partitioned alike */
} LazyParallel;

/*
 * How many workers the server thinks should help.
 */
extern int	lazy_parallel_workers(Relation heap, Relation index, IndexInfo *info);

/*
 * Scans with so many workers, or fewer.  Returns NULL, with nothing done, when
 * not one is to be had.  Otherwise the backend is in parallel mode until
 * lazy_parallel_end().
 */
extern LazyParallel *lazy_parallel_scan(Relation heap, Relation index, IndexInfo *info,
										uint32 ffactor, int nworkers);

/* Ends parallel mode; the spills are gone. */
extern void lazy_parallel_end(LazyParallel *parallel);

#endif							/* LAZY_BUILD_PARALLEL_H */

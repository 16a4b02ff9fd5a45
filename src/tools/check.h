/*
 * check.h
 *		What the parts of lazyhash_check() share.
 *
 *		check.c			locks, passes over the index, and what only the index as a
 *						whole can show
 *		check_bucket.c	one bucket and its chain
 *		check_heap.c	the index against its table
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_TOOLS_CHECK_H
#define LAZY_TOOLS_CHECK_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "utils/rel.h"

#include "../format/meta.h"
#include "tools.h"

/*
 * Entries collected, so that they can be sorted and gone through in that order;
 * at most as many as maintenance_work_mem holds.
 */
typedef struct LazyBatchItem
{
	LazyEntry	entry;
	bool		found;
} LazyBatchItem;

typedef struct LazyBatch
{
	LazyBatchItem *items;
	int64		n;
	int64		size;			/* allocated */
	int64		limit;			/* most that may be allocated */
} LazyBatch;

typedef struct LazyCheck
{
	Relation	heap;
	Relation	index;
	BufferAccessStrategy strategy;

	/*
	 * Either nobody can change the index, as we hold a lock against writers, or
	 * we run on a standby, beside replay.
	 */
	bool		writers_locked_out;
	bool		heap_is_standard;	/* the table's access method is heap */
	BlockNumber heap_blocks;
	LazyMetaData meta;			/* a copy; on a standby possibly old */
	LazyBatch	batch;
	MemoryContext scratch;		/* for one key at a time */

	/* of the pass under way: */
	XLogRecPtr	pass_start;		/* replay position, on a standby */
	uint64	   *reached;		/* a bit for each block that a chain has led to */
	BlockNumber nblocks;		/* length of the index */
	int64		posted;			/* sum over the pages seen */
	int64		entries;
	int64		dead;
	BlockNumber overflow_pages;
	BlockNumber free_pages;
	BlockNumber orphans;		/* pages of zeroes outside phases */
} LazyCheck;

/*
 * May the index have changed since the pass began?  Then what a page says and
 * what another one says need not go together.
 */
extern bool lazy_check_moved(const LazyCheck *check);

/* Reads the metapage again. */
extern void lazy_check_reload(LazyCheck *check);

static inline uint32
lazy_check_bucket_of(const LazyCheck *check, uint32 hash)
{
	return lazy_bucket_of(hash, check->meta.maxbucket, check->meta.highmask, check->meta.lowmask);
}

/* Sees to it that the copy of the metapage is as new as the bucket that is walked. */
extern void lazy_check_stamp(LazyCheck *check, LazyWalk *walk);

/* Checks one bucket, adding what it holds to the sums. */
extern void lazy_check_bucket(LazyCheck *check, uint32 bucket);

/* Checks the index against the table, both ways. */
extern void lazy_check_heap(LazyCheck *check);

/* ---- batches (check_heap.c) ---- */

extern void lazy_batch_init(LazyBatch *batch);

static inline bool
lazy_batch_is_full(const LazyBatch *batch)
{
	return batch->n >= batch->limit;
}

/* Adds an entry, with its dead bit.  The batch must not be full. */
extern void lazy_batch_add(LazyBatch *batch, const LazyEntry *entry);

#endif							/* LAZY_TOOLS_CHECK_H */

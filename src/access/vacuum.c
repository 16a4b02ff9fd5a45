/*
 * vacuum.c
 *		Removing the entries of dead rows, finding lost pages.
 *
 * VACUUM goes through the buckets in order, up to a highest bucket that it
 * looks up again at the end: splits only move entries to buckets still ahead of
 * it.  It holds a bucket for one page at a time, and waits for no scan.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "commands/vacuum.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/indexfsm.h"
#include "storage/lmgr.h"

#include "../stats/stats.h"
#include "lazyhash.h"

typedef struct Vacuum
{
	Relation	index;
	BufferAccessStrategy strategy;
	IndexBulkDeleteCallback callback;
	void	   *callback_state;
	IndexBulkDeleteResult *stats;
	uint8	   *reached;		/* a bit a block: seen in a chain */
	BlockNumber nblocks;		/* bits in it */
} Vacuum;

/* Remembers that a block is an overflow page of some chain. */
static void
mark_reached(Vacuum *vacuum, BlockNumber block)
{
	if (block >= vacuum->nblocks)
	{
		Size		old_size = (vacuum->nblocks + 7) / 8;
		Size		new_size;

		vacuum->nblocks = Max(block + 1, RelationGetNumberOfBlocks(vacuum->index));
		new_size = (vacuum->nblocks + 7) / 8;
		if (vacuum->reached == NULL)
			vacuum->reached = palloc_extended(new_size, MCXT_ALLOC_HUGE);
		else
			vacuum->reached = repalloc_huge(vacuum->reached, new_size);
		memset(vacuum->reached + old_size, 0, new_size - old_size);
	}
	vacuum->reached[block / 8] |= (uint8) 1 << (block % 8);
}

static bool
was_reached(const Vacuum *vacuum, BlockNumber block)
{
	return block < vacuum->nblocks &&
		(vacuum->reached[block / 8] & ((uint8) 1 << (block % 8))) != 0;
}

/* Positions of entries whose rows are gone. */
static int
find_gone(Vacuum *vacuum, Buffer buffer, uint16 *positions, bool *dead_stay)
{
	Page		page = BufferGetPage(buffer);
	LazyEntry  *entries = lazy_entries(page);
	int			count = lazy_page_count(page);
	int			n = 0;

	*dead_stay = false;
	for (int i = 0; i < count; i++)
	{
		ItemPointerData tid = lazy_entry_tid(&entries[i]);

		/* the server is not to be asked about what is no TID */
		if (ItemPointerGetOffsetNumberNoCheck(&tid) == InvalidOffsetNumber)
			lazy_wrong_tid(vacuum->index, BufferGetBlockNumber(buffer), page, i);
		if (vacuum->callback(&tid, vacuum->callback_state))
			positions[n++] = i;
		else if (lazy_entry_is_dead(&entries[i]))
			*dead_stay = true;
	}
	return n;
}

/*
 * Removes the entries of gone rows from one page of a bucket whose primary page
 * is locked, as this page is.  Returns the number of entries left.
 */
static int
vacuum_page(Vacuum *vacuum, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	uint16		positions[LAZY_PAGE_CAPACITY];
	bool		dead_stay;
	int			n = find_gone(vacuum, buffer, positions, &dead_stay);
	int			pending = lazy_page_pending(page) - n;
	Buffer		metabuf = InvalidBuffer;
	LazyChange	change;
	LazyOps    *ops;

	if (n == 0)
		return lazy_page_count(page);

	lazy_change_start(&change, vacuum->index, LAZY_WAL_REMOVE);
	ops = lazy_change_page(&change, buffer, false);
	lazy_op_remove(ops, positions, n);
	if (lazy_page_has(page, LAZY_HAS_DEAD) && !dead_stay)
		lazy_op_set_flags(ops, 0, LAZY_HAS_DEAD);
	if (abs(pending) >= lazy_batch(vacuum->index))
	{
		lazy_op_post(ops, pending);
		metabuf = lazy_meta_lock(vacuum->index, BUFFER_LOCK_EXCLUSIVE);
		lazy_op_meta_add(lazy_change_page(&change, metabuf, false), pending);
	}
	lazy_change_finish(&change);
	if (BufferIsValid(metabuf))
		UnlockReleaseBuffer(metabuf);
	vacuum->stats->tuples_removed += n;
	lazy_count(vacuum->index, LAZY_VACUUM_REMOVED, n);
	return lazy_page_count(page);
}

/*
 * Locks the primary page; a split that the bucket takes part in is finished
 * first.
 */
static Buffer
lock_whole_bucket(Vacuum *vacuum, uint32 bucket)
{
	for (;;)
	{
		Buffer		primary = lazy_primary_lock(vacuum->index, bucket, BUFFER_LOCK_EXCLUSIVE,
												vacuum->strategy);

		if (!lazy_page_has(BufferGetPage(primary), LAZY_BEING_SPLIT | LAZY_BEING_POPULATED))
			return primary;
		UnlockReleaseBuffer(primary);
		lazy_split_complete(vacuum->index, bucket);
	}
}

/*
 * One pass over the chain, the primary page let go between pages.  False if
 * somebody changed the chain meanwhile.  *left is the number of entries left,
 * *pages that of pages.
 */
static bool
vacuum_chain(Vacuum *vacuum, uint32 bucket, int64 *left, BlockNumber *pages)
{
	Buffer		primary = lock_whole_bucket(vacuum, bucket);
	LazyPageSpecial special = lazy_special(BufferGetPage(primary));
	uint32		version = special->version;
	BlockNumber next = special->next;
	LazyCircle	circle = {InvalidBlockNumber, 0};

	*left = vacuum_page(vacuum, primary);
	*pages = 1;
	UnlockReleaseBuffer(primary);

	while (next != InvalidBlockNumber)
	{
		Buffer		buffer;
		bool		changed;

		lazy_vacuum_delay_point();
		primary = lock_whole_bucket(vacuum, bucket);
		changed = lazy_special(BufferGetPage(primary))->version != version;
		if (!changed)
		{
			buffer = lazy_chain_lock(vacuum->index, next, bucket, BUFFER_LOCK_EXCLUSIVE,
									 vacuum->strategy);
			*left += vacuum_page(vacuum, buffer);
			*pages += 1;
			mark_reached(vacuum, next);
			next = lazy_special(BufferGetPage(buffer))->next;
			if (lazy_circle_closes(&circle, BufferGetBlockNumber(buffer), next))
				lazy_circle(vacuum->index, next, bucket);
			UnlockReleaseBuffer(buffer);
		}
		UnlockReleaseBuffer(primary);
		if (changed)
			return false;
	}
	return true;
}

static void
vacuum_bucket(Vacuum *vacuum, uint32 bucket)
{
	int64		left;
	BlockNumber pages;

	while (!vacuum_chain(vacuum, bucket, &left, &pages))
		lazy_vacuum_delay_point();
	vacuum->stats->num_index_tuples += left;
	if (pages > 1)
		vacuum->stats->pages_newly_deleted += lazy_squeeze(vacuum->index, bucket,
														   vacuum->strategy);
}

/* Buckets whose primary pages a read stream is to read, and the phases they lie in. */
typedef struct BucketRange
{
	Relation	index;
	uint32		next;
	uint32		last;
	uint32		nphases;
	BlockNumber *phase_start;
} BucketRange;

static BlockNumber
next_primary(ReadStream *stream, void *state, void *unused)
{
	BucketRange *range = state;
	BlockNumber block;

	if (range->next > range->last)
		return InvalidBlockNumber;
	block = lazy_bucket_block(range->next++, range->phase_start, range->nphases);
	lazy_require_block(range->index, block);
	return block;
}

/*
 * Vacuums the buckets [first, last].  The stream sees to it that the primary
 * pages have been read when we come to them; who needs one still locks it by
 * the usual way, in which it may turn out that the bucket is being split.
 */
static void
vacuum_buckets(Vacuum *vacuum, uint32 first, uint32 last)
{
	const LazyCache *cache = lazy_cache_load(vacuum->index);
	BucketRange range = {
		.index = vacuum->index,
		.next = first,
		.last = last,
		.nphases = cache->nphases
	};
	LazyHint	hint = {vacuum->index, ERRCODE_DATA_CORRUPTED};
	ErrorContextCallback context = {error_context_stack, lazy_hint_reindex, &hint};
	ReadStream *stream;

	range.phase_start = palloc(cache->nphases * sizeof(BlockNumber));
	memcpy(range.phase_start, cache->phase_start, cache->nphases * sizeof(BlockNumber));
	stream = read_stream_begin_relation(READ_STREAM_MAINTENANCE | READ_STREAM_USE_BATCHING,
										vacuum->strategy, vacuum->index, MAIN_FORKNUM,
										next_primary, &range, 0);
	for (uint32 bucket = first; bucket <= last; bucket++)
	{
		Buffer		primary;

		error_context_stack = &context;
		primary = read_stream_next_buffer(stream, NULL);
		error_context_stack = context.previous;
		lazy_vacuum_delay_point();
		vacuum_bucket(vacuum, bucket);
		if (BufferIsValid(primary))
			ReleaseBuffer(primary);
	}
	read_stream_end(stream);
	pfree(range.phase_start);
}

/*
 * A scan whose snapshot is not an MVCC one may still hold TIDs that are removed
 * here, and would believe a new row in their place.  It holds this lock while
 * it does; wait for those that were there.
 */
static void
wait_for_scans(Relation index)
{
	LockPage(index, LAZY_METAPAGE, ExclusiveLock);
	UnlockPage(index, LAZY_METAPAGE, ExclusiveLock);
}

/*
 * Looks at the blocks [from, to), which lie in no phase: those that are in no
 * chain become free pages, or are already and the map is told.
 */
static void
reclaim_range(Vacuum *vacuum, BlockNumber from, BlockNumber to)
{
	for (BlockNumber block = from; block < to; block++)
	{
		if (was_reached(vacuum, block))
			continue;
		lazy_vacuum_delay_point();
		if (lazy_space_make_free(vacuum->index, block, vacuum->strategy))
		{
			RecordFreeIndexPage(vacuum->index, block);
			vacuum->stats->pages_free++;
		}
	}
}

/*
 * Finds pages that nothing leads to: freed ones that the map has forgotten,
 * blocks that a crash left behind between the extension of the file and their
 * use.  Length and phases are read together, under the extension lock: a block
 * below that length that is in none of these phases will be in none to come.
 */
static void
reclaim(Vacuum *vacuum)
{
	Relation	index = vacuum->index;
	bool		lock = !RELATION_IS_LOCAL(index);
	BlockNumber nblocks;
	const LazyCache *cache;
	BlockNumber *start;
	uint32		nphases;
	BlockNumber from = LAZY_METAPAGE + 1;

	if (lock)
		LockRelationForExtension(index, ExclusiveLock);
	nblocks = RelationGetNumberOfBlocks(index);
	cache = lazy_cache_load(index);
	if (lock)
		UnlockRelationForExtension(index, ExclusiveLock);

	nphases = cache->nphases;
	start = palloc(nphases * sizeof(BlockNumber));
	memcpy(start, cache->phase_start, nphases * sizeof(BlockNumber));

	/* phases are made at the end of the file: their blocks ascend */
	for (uint32 phase = 0; phase < nphases; phase++)
	{
		reclaim_range(vacuum, from, Min(start[phase], nblocks));
		from = start[phase] + lazy_phase_length(phase);
	}
	reclaim_range(vacuum, from, nblocks);
	pfree(start);
}

IndexBulkDeleteResult *
lazy_bulk_delete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
				 IndexBulkDeleteCallback callback, void *state)
{
	Vacuum		vacuum = {
		.index = info->index,
		.strategy = info->strategy,
		.callback = callback,
		.callback_state = state,
	};
	uint32		highest = lazy_cache_load(info->index)->maxbucket;
	uint32		at_start = highest;
	uint32		next = 0;

	if (stats == NULL)
		stats = palloc0(sizeof(IndexBulkDeleteResult));
	vacuum.stats = stats;
	stats->num_index_tuples = 0;
	stats->pages_free = 0;

	while (next <= highest)
	{
		vacuum_buckets(&vacuum, next, highest);
		next = highest + 1;
		highest = lazy_cache_load(info->index)->maxbucket;
	}
	stats->estimated_count = highest != at_start;

	wait_for_scans(info->index);
	reclaim(&vacuum);
	if (vacuum.reached != NULL)
		pfree(vacuum.reached);
	return stats;
}

IndexBulkDeleteResult *
lazy_vacuum_cleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	if (info->analyze_only)
		return stats;

	/* nothing was removed: the metapage's count, short of what is pending */
	if (stats == NULL)
	{
		Buffer		metabuf = lazy_meta_lock(info->index, BUFFER_LOCK_SHARE);

		stats = palloc0(sizeof(IndexBulkDeleteResult));
		stats->num_index_tuples = lazy_meta(BufferGetPage(metabuf))->ntuples;
		stats->estimated_count = true;
		UnlockReleaseBuffer(metabuf);
	}
	IndexFreeSpaceMapVacuum(info->index);
	stats->num_pages = RelationGetNumberOfBlocks(info->index);
	stats->pages_deleted = stats->pages_free;
	return stats;
}

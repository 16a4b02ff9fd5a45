/*
 * split.c
 *		Growing the index by a bucket.
 *
 * The bucket that comes next takes its entries from one bucket, the source.
 * Nearly always the source is one page, or two of which what stays and what
 * moves fit one page each: then the whole split is one atomic change and there
 * is no state in between.  A longer chain is split in many small changes:
 *
 *		begin	source: being split; target: being populated; metapage
 *		move	entries of one page of the source to the target's last page
 *		...
 *		finish	both flags are cleared, both buckets post
 *
 * Locks are let go between steps of some pages each; split_next on the source
 * tells where to go on.  Pages before it hold no entries of the target, and none
 * can arrive there: inserts look for their bucket by the new maxbucket.  So
 * anybody can carry on: the splitter itself, the next insert into either
 * bucket, VACUUM, after a crash, or on a promoted standby.
 *
 * A split under way is named by the source and its stamp, which is the number
 * of the target.  Nobody squeezes or splits a bucket that takes part in one.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"

#include "../stats/stats.h"
#include "lazyhash.h"
#include "testpoint.h"

/* Pages of the source that one step goes through. */
#define PAGES_PER_STEP		8

/* A split about to be made: both primary pages are exclusively locked. */
typedef struct Split
{
	Relation	index;
	uint32		source;
	uint32		target;
	uint32		mask;			/* an entry belongs to the target if (hash & mask) == target */
	Buffer		source_buf;
	Buffer		target_buf;
} Split;

/* ---- the split in one change ---- */

/* Copies the entries of a page that belong to the target, or those that do not. */
static int
collect(const Split *split, Page page, bool moving, LazyEntry *to)
{
	LazyEntry  *entries = lazy_entries(page);
	int			count = lazy_page_count(page);
	int			n = 0;

	for (int i = 0; i < count; i++)
	{
		if (((lazy_entry_hash(&entries[i]) & split->mask) == split->target) == moving)
			lazy_entries_copy(&to[n++], &entries[i], 1);
	}
	return n;
}

/*
 * Splits a bucket of one page, or of two (overflow is valid), if what stays and
 * what moves fit one page each.  Both buckets post all that they hold in the
 * end.  False, and nothing done, if it does not fit.
 */
static bool
split_at_once(const Split *split, Buffer overflow)
{
	Page		source = BufferGetPage(split->source_buf);
	Page		second = BufferIsValid(overflow) ? BufferGetPage(overflow) : NULL;
	int			total = lazy_page_count(source) + (second ? lazy_page_count(second) : 0);
	int			pending = lazy_page_pending(source) + (second ? lazy_page_pending(second) : 0);
	int			moving = lazy_page_matching(source, split->mask, split->target, NULL) +
		(second ? lazy_page_matching(second, split->mask, split->target, NULL) : 0);
	int			staying = total - moving;
	BlockNumber source_block = BufferGetBlockNumber(split->source_buf);
	LazyEntry  *buf;
	LazyChange	change;
	LazyOps    *ops;
	Buffer		metabuf;
	int			n;

	if (moving > LAZY_PAGE_CAPACITY || staying > LAZY_PAGE_CAPACITY)
		return false;
	buf = palloc(LAZY_PAGE_CAPACITY * sizeof(LazyEntry));

	lazy_change_start(&change, split->index, LAZY_WAL_SPLIT);
	ops = lazy_change_page(&change, split->source_buf, false);
	lazy_op_remove_matching(ops, split->mask, split->target);
	if (second)
	{
		n = collect(split, second, false, buf);
		lazy_op_append(ops, buf, n);
		lazy_op_set_next(ops, InvalidBlockNumber);
		lazy_op_set_tail(ops, source_block);
	}
	lazy_op_merge(ops);
	lazy_op_post(ops, staying - lazy_special(source)->posted);
	lazy_op_set_stamp(ops, split->target);
	lazy_op_bump_version(ops);

	n = collect(split, source, true, buf);
	if (second)
		n += collect(split, second, true, buf + n);
	Assert(n == moving);
	lazy_entries_sort(buf, n);
	ops = lazy_change_page(&change, split->target_buf, true);
	lazy_op_init(ops, LAZY_KIND_PRIMARY, split->target, BufferGetBlockNumber(split->target_buf),
				 split->target, 0, 0);
	lazy_op_append_sorted(ops, buf, n);
	lazy_op_post(ops, n);
	pfree(buf);

	if (second)
		lazy_op_free(lazy_change_page(&change, overflow, false));

	metabuf = lazy_meta_lock(split->index, BUFFER_LOCK_EXCLUSIVE);
	ops = lazy_change_page(&change, metabuf, false);
	lazy_op_meta_maxbucket(ops, split->target);
	lazy_op_meta_add(ops, pending);

	PredicateLockPageSplit(split->index, source_block, BufferGetBlockNumber(split->target_buf));
	lazy_change_finish(&change);
	UnlockReleaseBuffer(metabuf);
	return true;
}

/* ---- the split in steps ---- */

static void
split_begin(const Split *split)
{
	BlockNumber source_block = BufferGetBlockNumber(split->source_buf);
	BlockNumber target_block = BufferGetBlockNumber(split->target_buf);
	Buffer		metabuf;
	LazyChange	change;
	LazyOps    *ops;

	lazy_change_start(&change, split->index, LAZY_WAL_SPLIT_BEGIN);
	ops = lazy_change_page(&change, split->source_buf, false);
	lazy_op_set_flags(ops, LAZY_BEING_SPLIT, 0);
	lazy_op_set_stamp(ops, split->target);
	lazy_op_set_split_next(ops, source_block);
	lazy_op_bump_version(ops);

	ops = lazy_change_page(&change, split->target_buf, true);
	lazy_op_init(ops, LAZY_KIND_PRIMARY | LAZY_BEING_POPULATED, split->target, target_block,
				 split->target, 0, 0);

	metabuf = lazy_meta_lock(split->index, BUFFER_LOCK_EXCLUSIVE);
	lazy_op_meta_maxbucket(lazy_change_page(&change, metabuf, false), split->target);

	PredicateLockPageSplit(split->index, source_block, target_block);
	lazy_change_finish(&change);
	UnlockReleaseBuffer(metabuf);
}

/* Adds an empty overflow page to the target's chain, which ends with tailbuf. */
static Buffer
extend_target(const Split *split, Buffer tailbuf)
{
	uint32		deletions;
	Buffer		newbuf = lazy_overflow_new(split->index, &deletions);
	BlockNumber newblock = BufferGetBlockNumber(newbuf);
	LazyChange	change;
	LazyOps    *ops;

	lazy_change_start(&change, split->index, LAZY_WAL_SPLIT_EXTEND);
	ops = lazy_change_page(&change, split->target_buf, false);
	lazy_op_set_tail(ops, newblock);
	if (tailbuf != split->target_buf)
		ops = lazy_change_page(&change, tailbuf, false);
	lazy_op_set_next(ops, newblock);
	lazy_op_init(lazy_change_page(&change, newbuf, true), LAZY_KIND_OVERFLOW, split->target,
				 InvalidBlockNumber, 0, 0, deletions);
	lazy_change_finish(&change);
	return newbuf;
}

/* The target's last page, locked; made anew if the present one is full. */
static Buffer
target_tail_with_room(const Split *split)
{
	LazyPageSpecial special = lazy_special(BufferGetPage(split->target_buf));
	Buffer		tailbuf = split->target_buf;
	Buffer		newbuf;

	if (special->tail != BufferGetBlockNumber(split->target_buf))
		tailbuf = lazy_chain_lock(split->index, special->tail, split->target,
								  BUFFER_LOCK_EXCLUSIVE, NULL);
	lazy_require_tail(split->index, split->target_buf, tailbuf);
	if (lazy_page_room(BufferGetPage(tailbuf)) > 0)
		return tailbuf;
	newbuf = extend_target(split, tailbuf);
	if (tailbuf != split->target_buf)
		UnlockReleaseBuffer(tailbuf);
	return newbuf;
}

/*
 * Moves all entries of the target away from one page of the source, which is
 * locked.  Their posting goes with them, so that what is pending on each page
 * stays what it was.
 *
 * Replay locks the pages in the order in which the change names them, and does
 * not hold the primary pages before as we do: so those come first, lest it and a
 * reader that goes through both chains under both primary pages' locks wait for
 * each other.
 */
static void
move_from_page(const Split *split, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	uint16		positions[LAZY_PAGE_CAPACITY];
	LazyEntry  *moved = NULL;
	int			n;

	while ((n = lazy_page_matching(page, split->mask, split->target, positions)) > 0)
	{
		Buffer		to = target_tail_with_room(split);
		LazyChange	change;
		LazyOps    *from_ops = NULL;
		LazyOps    *to_ops;

		n = Min(n, lazy_page_room(BufferGetPage(to)));
		if (moved == NULL)
			moved = palloc(LAZY_PAGE_CAPACITY * sizeof(LazyEntry));
		for (int i = 0; i < n; i++)
			lazy_entries_copy(&moved[i], &lazy_entries(page)[positions[i]], 1);

		lazy_change_start(&change, split->index, LAZY_WAL_SPLIT_MOVE);
		if (buffer == split->source_buf)
			from_ops = lazy_change_page(&change, buffer, false);
		to_ops = lazy_change_page(&change, to, false);
		if (buffer != split->source_buf)
			from_ops = lazy_change_page(&change, buffer, false);
		lazy_op_remove(from_ops, positions, n);
		lazy_op_post(from_ops, -n);
		lazy_op_append(to_ops, moved, n);
		lazy_op_merge(to_ops);
		lazy_op_post(to_ops, n);
		lazy_change_finish(&change);
		if (to != split->target_buf)
			UnlockReleaseBuffer(to);
	}
	if (moved != NULL)
		pfree(moved);
}

static void
split_progress(const Split *split, BlockNumber next)
{
	LazyChange	change;

	lazy_change_start(&change, split->index, LAZY_WAL_SPLIT_PROGRESS);
	lazy_op_set_split_next(lazy_change_page(&change, split->source_buf, false), next);
	lazy_change_finish(&change);
}

static void
split_finish(const Split *split)
{
	Buffer		buffers[2] = {split->source_buf, split->target_buf};
	uint16		flags[2] = {LAZY_BEING_SPLIT, LAZY_BEING_POPULATED};
	int64		posted = 0;
	Buffer		metabuf;
	LazyChange	change;

	lazy_change_start(&change, split->index, LAZY_WAL_SPLIT_FINISH);
	for (int i = 0; i < 2; i++)
	{
		int			pending = lazy_page_pending(BufferGetPage(buffers[i]));
		LazyOps    *ops = lazy_change_page(&change, buffers[i], false);

		lazy_op_set_flags(ops, 0, flags[i]);
		lazy_op_set_split_next(ops, InvalidBlockNumber);
		lazy_op_post(ops, pending);
		posted += pending;
	}
	metabuf = lazy_meta_lock(split->index, BUFFER_LOCK_EXCLUSIVE);
	lazy_op_meta_add(lazy_change_page(&change, metabuf, false), posted);
	lazy_change_finish(&change);
	UnlockReleaseBuffer(metabuf);
}

/* Goes through some pages of the source; true when there is more to do. */
static bool
split_some_pages(const Split *split)
{
	Page		source = BufferGetPage(split->source_buf);
	BlockNumber source_block = BufferGetBlockNumber(split->source_buf);
	BlockNumber block = lazy_special(source)->split_next;

	for (int i = 0; i < PAGES_PER_STEP && block != InvalidBlockNumber; i++)
	{
		bool		primary = block == source_block;
		Buffer		buffer = primary ? split->source_buf :
			lazy_chain_lock(split->index, block, split->source, BUFFER_LOCK_EXCLUSIVE, NULL);

		LAZY_TEST_POINT("split-move");
		move_from_page(split, buffer);
		block = lazy_special(BufferGetPage(buffer))->next;
		if (!primary)
			UnlockReleaseBuffer(buffer);
	}

	if (block != InvalidBlockNumber)
	{
		split_progress(split, block);
		return true;
	}
	LAZY_TEST_POINT("split-finish");
	split_finish(split);
	return false;
}

/*
 * Which bucket is the source of the split that "bucket" takes part in?  False
 * if it takes part in none.
 */
static bool
find_split(Relation index, uint32 bucket, uint32 *source)
{
	Buffer		buffer = lazy_primary_lock(index, bucket, BUFFER_LOCK_SHARE, NULL);
	Page		page = BufferGetPage(buffer);
	bool		found = true;

	if (lazy_page_has(page, LAZY_BEING_SPLIT))
		*source = bucket;
	else if (lazy_page_has(page, LAZY_BEING_POPULATED))
		*source = lazy_source_bucket(bucket);
	else
		found = false;
	UnlockReleaseBuffer(buffer);
	return found;
}

/*
 * The source is locked, so that no split of it can begin or end; it is not being
 * split into this bucket.  Then the bucket must not think so, or whoever waits
 * for the split to end would wait for ever.
 */
static void
require_not_populated(Relation index, uint32 bucket)
{
	Buffer		buffer = lazy_primary_lock(index, bucket, BUFFER_LOCK_SHARE, NULL);

	if (lazy_page_has(BufferGetPage(buffer), LAZY_BEING_POPULATED))
		lazy_corrupted(index, BufferGetBlockNumber(buffer),
					   "Bucket %u is being populated, but no bucket is being split into it.",
					   bucket);
	UnlockReleaseBuffer(buffer);
}

/*
 * Locks both buckets of the split that "bucket" takes part in; false if it is
 * over by now.
 */
static bool
lock_split(Relation index, uint32 bucket, uint32 source, Split *split)
{
	Page		page;

	split->index = index;
	split->source = source;
	split->source_buf = lazy_primary_lock(index, source, BUFFER_LOCK_EXCLUSIVE, NULL);
	page = BufferGetPage(split->source_buf);
	if (bucket != source &&
		!(lazy_page_has(page, LAZY_BEING_SPLIT) && lazy_special(page)->stamp == bucket))
		require_not_populated(index, bucket);
	if (!lazy_page_has(page, LAZY_BEING_SPLIT))
	{
		UnlockReleaseBuffer(split->source_buf);
		return false;
	}

	split->target = lazy_split_target(lazy_special(page)->stamp);
	split->mask = lazy_highmask(split->target);
	if (lazy_special(page)->split_next == InvalidBlockNumber)
		lazy_corrupted(index, BufferGetBlockNumber(split->source_buf),
					   "Bucket %u is being split, but nothing says where to go on.", source);
	if (split->target == 0 || lazy_source_bucket(split->target) != source)
		lazy_corrupted(index, BufferGetBlockNumber(split->source_buf),
					   "Bucket %u is being split, but its stamp %u names no target.",
					   source, split->target);
	split->target_buf = lazy_primary_lock(index, split->target, BUFFER_LOCK_EXCLUSIVE, NULL);
	if (!lazy_page_has(BufferGetPage(split->target_buf), LAZY_BEING_POPULATED))
		lazy_corrupted(index, BufferGetBlockNumber(split->target_buf),
					   "Bucket %u is not being populated, though bucket %u is being split into it.",
					   split->target, source);
	return true;
}

bool
lazy_split_step(Relation index, uint32 bucket)
{
	uint32		source;
	Split		split;
	bool		more;

	if (!find_split(index, bucket, &source) || !lock_split(index, bucket, source, &split))
		return false;
	more = split_some_pages(&split);
	UnlockReleaseBuffer(split.target_buf);
	UnlockReleaseBuffer(split.source_buf);
	lazy_space_flush(index);

	/* what the source is left with may be many pages nearly empty */
	if (!more)
		lazy_squeeze(index, source, NULL);
	return more;
}

void
lazy_split_complete(Relation index, uint32 bucket)
{
	BlockNumber steps = 0;

	LAZY_TEST_POINT("split-step");
	while (lazy_split_step(index, bucket))
	{
		LAZY_TEST_POINT("split-step");
		CHECK_FOR_INTERRUPTS();
		/* no chain is as long as that */
		if (++steps > RelationGetNumberOfBlocks(index) / PAGES_PER_STEP)
			lazy_corrupted(index, LAZY_METAPAGE,
						   "The split of bucket %u comes to no end: its chain runs in a circle.",
						   bucket);
	}
}

/* ---- deciding ---- */

/* Is the next bucket due?  *target is its number. */
static bool
next_is_due(Relation index, bool fullness, uint32 *target)
{
	Buffer		metabuf = lazy_meta_lock(index, BUFFER_LOCK_SHARE);
	LazyMetaData *meta = lazy_meta(BufferGetPage(metabuf));
	bool		due;

	lazy_meta_verify(index, BufferGetPage(metabuf));
	due = lazy_split_due(meta->ntuples, meta->maxbucket, meta->ffactor) ||
		(fullness && lazy_split_justified(meta->ntuples, meta->maxbucket));
	*target = meta->maxbucket + 1;
	UnlockReleaseBuffer(metabuf);
	return due && *target < LAZY_MAX_BUCKETS;
}

/*
 * Locks the source of the split that brings "target", ready to be split: if it
 * takes part in an unfinished one, that is finished first.  False if somebody
 * else has made the split, or, without "wait", is perhaps making it now.
 */
static bool
lock_source(Relation index, Split *split, bool wait)
{
	for (;;)
	{
		Page		page;

		split->source_buf = wait ?
			lazy_primary_lock(index, split->source, BUFFER_LOCK_EXCLUSIVE, NULL) :
			lazy_primary_trylock(index, split->source);
		if (!BufferIsValid(split->source_buf))
			return false;
		page = BufferGetPage(split->source_buf);
		if (lazy_special(page)->stamp >= split->target)
			break;
		if (!lazy_page_has(page, LAZY_BEING_SPLIT | LAZY_BEING_POPULATED))
			return true;
		UnlockReleaseBuffer(split->source_buf);
		lazy_split_complete(index, split->source);
	}
	UnlockReleaseBuffer(split->source_buf);
	return false;
}

/*
 * Locks the block in which the new bucket is to be.  It has never been anything
 * else; a block with something in it means that the metapage is wrong.
 */
static void
lock_target(Split *split)
{
	const LazyCache *cache = lazy_cache(split->index);
	BlockNumber block = lazy_bucket_block(split->target, cache->phase_start, cache->nphases);
	Page		page;

	if (block == InvalidBlockNumber)
		lazy_corrupted(split->index, LAZY_METAPAGE, "Bucket %u lies in no phase.",
					   split->target);
	split->target_buf = lazy_read(split->index, block, NULL);
	LockBuffer(split->target_buf, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(split->target_buf);
	if (!lazy_page_is_zeroes(page) &&
		(lazy_page_problem(page) != NULL || lazy_page_kind(page) != LAZY_KIND_RESERVED))
		lazy_corrupted(split->index, block,
					   "Bucket %u is to be made in it, but it is in use.", split->target);
}

/* The second and last page of the source, locked; invalid if there is none. */
static Buffer
lock_second_page(const Split *split, bool *longer)
{
	BlockNumber next = lazy_special(BufferGetPage(split->source_buf))->next;
	Buffer		buffer;

	*longer = false;
	if (next == InvalidBlockNumber)
		return InvalidBuffer;
	buffer = lazy_chain_lock(split->index, next, split->source, BUFFER_LOCK_EXCLUSIVE, NULL);
	*longer = lazy_special(BufferGetPage(buffer))->next != InvalidBlockNumber;
	return buffer;
}

typedef enum SplitOutcome
{
	SPLIT_NOT_DUE,
	SPLIT_BY_ANOTHER,			/* another backend was quicker */
	SPLIT_MADE,
} SplitOutcome;

/* Makes the next bucket if it is due. */
static SplitOutcome
split_next_bucket(Relation index, bool fullness)
{
	Split		split = {.index = index};
	Buffer		overflow;
	BlockNumber freed = InvalidBlockNumber;
	bool		longer;

	if (!next_is_due(index, fullness, &split.target) ||
		!lazy_phase_ensure(index, split.target))
		return SPLIT_NOT_DUE;
	split.source = lazy_source_bucket(split.target);
	split.mask = lazy_highmask(split.target);
	if (!lock_source(index, &split, fullness))
	{
		lazy_count(index, LAZY_SPLITS_SKIPPED, 1);
		return SPLIT_BY_ANOTHER;
	}
	lock_target(&split);
	overflow = lock_second_page(&split, &longer);

	LAZY_TEST_POINT("split-begin");
	if (!longer && split_at_once(&split, overflow))
	{
		if (BufferIsValid(overflow))
			freed = BufferGetBlockNumber(overflow);
	}
	else
	{
		longer = true;
		split_begin(&split);
	}

	if (BufferIsValid(overflow))
		UnlockReleaseBuffer(overflow);
	UnlockReleaseBuffer(split.target_buf);
	UnlockReleaseBuffer(split.source_buf);
	lazy_count(index, LAZY_SPLITS, 1);

	if (freed != InvalidBlockNumber)
		lazy_space_freed(index, freed);
	if (longer)
		lazy_split_complete(index, split.source);
	return SPLIT_MADE;
}

/*
 * Where the count asks for splits, and many backends come to know of it at the
 * same time, one makes them and the others go on with their work: if the count
 * still asks, the next posting will see.  A page gives its sign of fullness but
 * once, so there a backend waits for its turn, and tries the next bucket.
 */
bool
lazy_split_if_due(Relation index, bool fullness)
{
	SplitOutcome outcome = split_next_bucket(index, fullness);

	for (int tries = 1; outcome == SPLIT_BY_ANOTHER && fullness && tries < 8; tries++)
		outcome = split_next_bucket(index, fullness);
	return outcome == SPLIT_MADE;
}

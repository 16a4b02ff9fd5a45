/*
 * check_bucket.c
 *		lazyhash_check(): one bucket and its chain.
 *
 * Everything here holds beside replay as well: a walk that finds something wrong
 * looks whether the bucket was changed meanwhile, and starts over if it was.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"

#include "../access/lazyhash.h"
#include "check.h"

/* ---- entries ---- */

/* May the table have a row with this TID? */
static bool
tid_is_possible(LazyCheck *check, const ItemPointerData *tid)
{
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);
	BlockNumber block = ItemPointerGetBlockNumberNoCheck(tid);

	if (offset == InvalidOffsetNumber)
		return false;
	if (!check->heap_is_standard)
		return true;
	/* the table has grown, perhaps, if replay goes on */
	if (block >= check->heap_blocks)
		check->heap_blocks = RelationGetNumberOfBlocks(check->heap);
	return block < check->heap_blocks && offset <= MaxHeapTuplesPerPage;
}

/*
 * May an entry with this hash be on the page?  In the chain of a bucket that is
 * being split there are still entries of the target, from split_next on.
 */
static bool
entry_belongs(const LazyCheck *check, const LazyWalk *walk, bool before_split_next, uint32 hash)
{
	uint32		bucket = lazy_check_bucket_of(check, hash);

	if (bucket == walk->bucket)
		return true;
	return (walk->state.flags & LAZY_BEING_SPLIT) && !before_split_next &&
		bucket == lazy_split_target(walk->state.stamp);
}

static LazyWalkResult
check_entries(LazyCheck *check, LazyWalk *walk, bool before_split_next)
{
	Page		page = lazy_walk_page(walk);
	const LazyEntry *entries = lazy_entries(page);
	int			count = lazy_page_count(page);

	for (int i = 0; i < count; i++)
	{
		uint32		hash = lazy_entry_hash(&entries[i]);
		ItemPointerData tid = lazy_entry_tid(&entries[i]);

		if (!lazy_page_order_begins(page, i) &&
			lazy_entry_compare(&entries[i - 1], &entries[i]) >= 0)
			return lazy_walk_problem(walk, walk->block,
									 "Entry %d (hash %08x) does not sort after the entry before "
									 "it, though the first %d entries are to be sorted, and after "
									 "them %d runs of %d entries.",
									 i, hash, lazy_special(page)->nsorted,
									 lazy_special(page)->nruns, LAZY_RUN);
		if (!entry_belongs(check, walk, before_split_next, hash))
			return lazy_walk_problem(walk, walk->block,
									 "Entry %d (hash %08x) belongs to bucket %u, "
									 "but the page to bucket %u.",
									 i, hash, lazy_check_bucket_of(check, hash), walk->bucket);
		if (!tid_is_possible(check, &tid))
			return lazy_walk_problem(walk, walk->block,
									 "Entry %d (hash %08x) points to row (%u,%u), "
									 "which cannot be in the table.",
									 i, hash, ItemPointerGetBlockNumberNoCheck(&tid),
									 ItemPointerGetOffsetNumberNoCheck(&tid));
		check->dead += lazy_entry_is_dead(&entries[i]);
	}
	check->entries += count;
	check->posted += lazy_special(page)->posted;
	return LAZY_WALK_PAGE;
}

/* ---- splits ---- */

/*
 * The other bucket of the split that this one takes part in must know of it: it
 * bears the other flag and the same stamp.
 */
static LazyWalkResult
check_partner(LazyCheck *check, LazyWalk *walk, uint32 partner, uint16 flag)
{
	LazyWalk	other;

	lazy_walk_init(&other, check->index, check->strategy);
	lazy_walk_start(&other, &check->meta, partner);
	if (!(other.state.flags & flag) || other.state.stamp != walk->state.stamp)
		return lazy_walk_problem(walk, other.primary,
								 "Bucket %u (block %u) takes part in a split with stamp %u, "
								 "but its partner, bucket %u, does not.",
								 walk->bucket, walk->primary, walk->state.stamp, partner);
	return LAZY_WALK_PAGE;
}

static LazyWalkResult
check_split_state(LazyCheck *check, LazyWalk *walk)
{
	uint32		stamp = walk->state.stamp;

	if (!(walk->state.flags & LAZY_BEING_SPLIT) && walk->state.split_next != InvalidBlockNumber)
		return lazy_walk_problem(walk, walk->primary,
								 "Bucket %u is not being split, "
								 "but a split is to go on at block %u.",
								 walk->bucket, walk->state.split_next);
	if (walk->state.flags & LAZY_BEING_SPLIT)
	{
		if (stamp == 0 || lazy_source_bucket(stamp) != walk->bucket)
			return lazy_walk_problem(walk, walk->primary,
									 "Bucket %u is being split, but its stamp %u names no target.",
									 walk->bucket, stamp);
		return check_partner(check, walk, lazy_split_target(stamp), LAZY_BEING_POPULATED);
	}
	if (walk->state.flags & LAZY_BEING_POPULATED)
	{
		if (walk->bucket == 0 || stamp != walk->bucket)
			return lazy_walk_problem(walk, walk->primary,
									 "Bucket %u is being populated, but its stamp is %u.",
									 walk->bucket, stamp);
		return check_partner(check, walk, lazy_source_bucket(walk->bucket), LAZY_BEING_SPLIT);
	}
	return LAZY_WALK_PAGE;
}

/* ---- the chain ---- */

/*
 * Marks the block as reached.  No walk comes by a page twice unless the chain
 * runs in a circle; a page of another bucket was told by its number already.
 */
static LazyWalkResult
mark_reached(LazyCheck *check, LazyWalk *walk)
{
	uint64	   *word = &check->reached[walk->block / 64];
	uint64		bit = (uint64) 1 << (walk->block % 64);

	/* the index has grown: what is marked does not matter any more */
	if (walk->block >= check->nblocks)
		return LAZY_WALK_PAGE;
	if ((*word & bit) && !lazy_check_moved(check))
		return lazy_walk_problem(walk, walk->block,
								 "The chain of bucket %u comes by this page twice.", walk->bucket);
	*word |= bit;
	return LAZY_WALK_PAGE;
}

/* Walks the chain once, checking each page. */
static LazyWalkResult
check_chain(LazyCheck *check, LazyWalk *walk)
{
	LazyWalkResult result = lazy_walk_start(walk, &check->meta, walk->bucket);
	bool		before_split_next;

	lazy_check_stamp(check, walk);
	before_split_next = (walk->state.flags & LAZY_BEING_SPLIT) != 0;
	while (result == LAZY_WALK_PAGE)
	{
		if (walk->block == walk->state.split_next)
			before_split_next = false;
		result = mark_reached(check, walk);
		if (result == LAZY_WALK_PAGE)
			result = check_entries(check, walk, before_split_next);
		if (result == LAZY_WALK_PAGE)
			result = lazy_walk_next(walk);
	}
	if (result == LAZY_WALK_END && before_split_next)
		result = lazy_walk_problem(walk, walk->primary,
								   "The split of bucket %u is to go on at block %u, "
								   "which is not in its chain.",
								   walk->bucket, walk->state.split_next);
	if (result == LAZY_WALK_END)
	{
		/* not before the walk: this looks at the bucket as the walk found it */
		if (check_split_state(check, walk) == LAZY_WALK_DISTURBED)
			return LAZY_WALK_DISTURBED;
		check->overflow_pages += walk->pages - 1;
	}
	return result;
}

/* ---- doubles ---- */

#define ST_SORT sort_items
#define ST_ELEMENT_TYPE LazyBatchItem
#define ST_COMPARE(a, b) lazy_entry_compare(&(a)->entry, &(b)->entry)
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/*
 * Collects the entries of "bucket" out of the chain of "chain_of", as far as
 * they are of one class of table blocks out of nclasses.  False if there were
 * more than the batch holds.
 */
static bool
collect(LazyCheck *check, uint32 bucket, uint32 chain_of, uint32 class, uint32 nclasses)
{
	LazyWalk	walk;
	LazyWalkResult result;

	lazy_walk_init(&walk, check->index, check->strategy);
	for (result = lazy_walk_start(&walk, &check->meta, chain_of);
		 result == LAZY_WALK_PAGE;
		 result = lazy_walk_next(&walk))
	{
		const LazyEntry *entries = lazy_entries(lazy_walk_page(&walk));
		int			count = lazy_page_count(lazy_walk_page(&walk));

		for (int i = 0; i < count; i++)
		{
			if (lazy_check_bucket_of(check, lazy_entry_hash(&entries[i])) != bucket ||
				(lazy_entry_tid_key(&entries[i]) >> 16) % nclasses != class)
				continue;
			if (lazy_batch_is_full(&check->batch))
				return false;
			lazy_batch_add(&check->batch, &entries[i]);
		}
	}
	return true;
}

/* Where in the bucket's chain is this entry found last? */
static BlockNumber
block_of_entry(LazyCheck *check, uint32 bucket, const LazyEntry *entry)
{
	ItemPointerData tid = lazy_entry_tid(entry);
	BlockNumber found;
	LazyWalk	walk;
	LazyWalkResult result;

	lazy_walk_init(&walk, check->index, check->strategy);
	result = lazy_walk_start(&walk, &check->meta, bucket);
	found = walk.primary;
	for (; result == LAZY_WALK_PAGE; result = lazy_walk_next(&walk))
	{
		if (lazy_page_find_entry(lazy_walk_page(&walk), lazy_entry_hash(entry), &tid) >= 0)
			found = walk.block;
	}
	return found;
}

/* Looks for doubles among the entries of one class.  False if there were too many. */
static bool
check_class(LazyCheck *check, uint32 bucket, bool populated, uint32 class, uint32 nclasses)
{
	LazyBatch  *batch = &check->batch;
	bool		complete;

	batch->n = 0;
	complete = collect(check, bucket, bucket, class, nclasses) &&
		(!populated || collect(check, bucket, lazy_source_bucket(bucket), class, nclasses));
	if (complete)
	{
		sort_items(batch->items, batch->n);
		for (int64 i = 1; i < batch->n; i++)
		{
			LazyEntry  *entry = &batch->items[i].entry;
			ItemPointerData tid = lazy_entry_tid(entry);

			if (lazy_entry_compare(&batch->items[i - 1].entry, entry) == 0 &&
				!lazy_check_moved(check))
				lazy_corrupted(check->index, block_of_entry(check, bucket, entry),
							   "The entry with hash %08x for row (%u,%u) is there twice.",
							   lazy_entry_hash(entry), ItemPointerGetBlockNumberNoCheck(&tid),
							   ItemPointerGetOffsetNumberNoCheck(&tid));
		}
	}
	batch->n = 0;
	return complete;
}

/*
 * No two entries of the bucket are the same: a row has one entry, and VACUUM
 * takes that away before the table may use the TID again.  A bucket with more
 * entries than memory holds is gone through once for each class of table
 * blocks, as many as it takes.
 */
static void
check_doubles(LazyCheck *check, uint32 bucket, bool populated)
{
	for (uint32 nclasses = 1;; nclasses *= 2)
	{
		uint32		class = 0;

		while (class < nclasses && check_class(check, bucket, populated, class, nclasses))
			class++;
		/* beyond this, it is one table block that has too many: not in this life */
		if (class == nclasses || nclasses >= (1U << 30) || lazy_check_moved(check))
			return;
	}
}

void
lazy_check_bucket(LazyCheck *check, uint32 bucket)
{
	LazyWalk	walk;

	lazy_walk_init(&walk, check->index, check->strategy);
	walk.bucket = bucket;
	while (check_chain(check, &walk) != LAZY_WALK_END)
		CHECK_FOR_INTERRUPTS();
	if (!lazy_check_moved(check))
		check_doubles(check, bucket, (walk.state.flags & LAZY_BEING_POPULATED) != 0);
}

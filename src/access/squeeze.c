/*
 * squeeze.c
 *		Shortening a chain: a page that fits into the free space of the page
 *		before it is folded into that page and becomes free.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"

#include "lazyhash.h"
#include "testpoint.h"

/*
 * Folds "page" into "before", atomically.  Posting moves with the entries, so
 * the ledger does not notice.  The primary page is locked, and may be "before".
 */
static void
fold(Relation index, Buffer primary, Buffer before, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	int			count = lazy_page_count(page);
	BlockNumber next = lazy_special(page)->next;
	LazyEntry  *entries = palloc(Max(count, 1) * sizeof(LazyEntry));
	LazyChange	change;
	LazyOps    *ops;

	lazy_entries_copy(entries, lazy_entries(page), count);
	lazy_change_start(&change, index, LAZY_WAL_SQUEEZE);
	ops = lazy_change_page(&change, primary, false);
	lazy_op_bump_version(ops);
	if (next == InvalidBlockNumber)
		lazy_op_set_tail(ops, BufferGetBlockNumber(before));
	if (before != primary)
		ops = lazy_change_page(&change, before, false);
	if (count > 0)
	{
		lazy_op_append(ops, entries, count);
		lazy_op_merge(ops);
	}
	lazy_op_post(ops, lazy_special(page)->posted);
	lazy_op_set_next(ops, next);
	lazy_op_free(lazy_change_page(&change, buffer, false));
	lazy_change_finish(&change);
	pfree(entries);
}

/*
 * Looks at one link of the chain: the page "before" and the one after it, which
 * is folded if it fits.  *before moves on if it does not; it becomes invalid at
 * the end of the chain, or when there is nothing to squeeze any more (somebody
 * else changed the chain meanwhile, or began to split the bucket).  Returns the
 * block that became free, if any.
 */
static BlockNumber
squeeze_link(Relation index, uint32 bucket, BlockNumber *before, uint32 *version,
			 BufferAccessStrategy strategy)
{
	Buffer		primary = lazy_primary_lock(index, bucket, BUFFER_LOCK_EXCLUSIVE, strategy);
	LazyPageSpecial special = lazy_special(BufferGetPage(primary));
	Buffer		before_buf = primary;
	Buffer		buffer;
	BlockNumber freed = InvalidBlockNumber;
	BlockNumber next;

	if (*before == InvalidBlockNumber)
	{
		*before = BufferGetBlockNumber(primary);
		*version = special->version;
	}
	if (special->version != *version ||
		lazy_page_has(BufferGetPage(primary), LAZY_BEING_SPLIT | LAZY_BEING_POPULATED))
	{
		*before = InvalidBlockNumber;
		UnlockReleaseBuffer(primary);
		return InvalidBlockNumber;
	}

	if (*before != BufferGetBlockNumber(primary))
		before_buf = lazy_chain_lock(index, *before, bucket, BUFFER_LOCK_EXCLUSIVE, strategy);
	next = lazy_special(BufferGetPage(before_buf))->next;
	if (next == *before)
		lazy_corrupted(index, next, "Its link leads to itself.");
	if (next != InvalidBlockNumber)
	{
		buffer = lazy_chain_lock(index, next, bucket, BUFFER_LOCK_EXCLUSIVE, strategy);
		if (lazy_page_count(BufferGetPage(buffer)) <= lazy_page_room(BufferGetPage(before_buf)))
		{
			LAZY_TEST_POINT("squeeze");
			fold(index, primary, before_buf, buffer);
			freed = next;
			*version = special->version;
		}
		else
			*before = next;
		UnlockReleaseBuffer(buffer);
	}
	else
		*before = InvalidBlockNumber;

	if (before_buf != primary)
		UnlockReleaseBuffer(before_buf);
	UnlockReleaseBuffer(primary);
	return freed;
}

BlockNumber
lazy_squeeze(Relation index, uint32 bucket, BufferAccessStrategy strategy)
{
	BlockNumber before = InvalidBlockNumber;
	uint32		version = 0;
	BlockNumber pages_freed = 0;
	LazyCircle	circle = {InvalidBlockNumber, 0};

	do
	{
		BlockNumber from = before;
		BlockNumber freed = squeeze_link(index, bucket, &before, &version, strategy);

		if (freed != InvalidBlockNumber)
		{
			lazy_space_freed(index, freed);
			pages_freed++;
		}
		else if (before != InvalidBlockNumber && lazy_circle_closes(&circle, from, before))
			lazy_circle(index, before, bucket);
		CHECK_FOR_INTERRUPTS();
	} while (before != InvalidBlockNumber);
	return pages_freed;
}

/*
 * walk.c
 *		Reading an index from outside: opening it, copying pages, walking the
 *		chain of a bucket beside writers or replay.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"

#include "../access/lazyhash.h"
#include "tools.h"

/* ---- opening ---- */

static void
require_readable(Relation index)
{
	lazy_require_lazyhash(index);
	if (RELATION_IS_OTHER_TEMP(index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read index \"%s\"", RelationGetRelationName(index)),
				 errdetail("It belongs to a temporary table of another session, "
						   "whose pages only that session can read.")));
	if (RecoveryInProgress() && !RelationIsPermanent(index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read index \"%s\"", RelationGetRelationName(index)),
				 errdetail("It is not logged, and so has no contents during recovery.")));
}

Relation
lazy_tool_open(Oid indexoid, LOCKMODE lockmode)
{
	Relation	index = try_relation_open(indexoid, lockmode);

	if (index == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("index with OID %u does not exist", indexoid)));
	require_readable(index);
	return index;
}

void
lazy_tool_close(Relation index, LOCKMODE lockmode)
{
	relation_close(index, lockmode);
}

/* ---- copying ---- */

void
lazy_tool_copy(Relation index, BlockNumber block, BufferAccessStrategy strategy, Page copy)
{
	Buffer		buffer = lazy_read(index, block, strategy);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(copy, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
}

void
lazy_tool_meta(Relation index, LazyMetaData *meta)
{
	PGAlignedBlock copy;

	if (RelationGetNumberOfBlocks(index) <= LAZY_METAPAGE)
		lazy_corrupted(index, LAZY_METAPAGE, "The index has no metapage.");
	lazy_tool_copy(index, LAZY_METAPAGE, NULL, copy.data);
	lazy_meta_verify(index, copy.data);
	memcpy(meta, lazy_meta(copy.data), sizeof(LazyMetaData));
}

const char *
lazy_kind_name(uint16 kind)
{
	switch (kind)
	{
		case LAZY_KIND_META:
			return "meta";
		case LAZY_KIND_PRIMARY:
			return "primary";
		case LAZY_KIND_OVERFLOW:
			return "overflow";
		case LAZY_KIND_FREE:
			return "free";
		case LAZY_KIND_RESERVED:
			return "reserved";
	}
	return "unknown";
}

/* ---- walking ---- */

void
lazy_walk_init(LazyWalk *walk, Relation index, BufferAccessStrategy strategy)
{
	memset(walk, 0, offsetof(LazyWalk, copy));
	walk->index = index;
	walk->strategy = strategy;
	walk->nblocks = RelationGetNumberOfBlocks(index);
}

bool
lazy_walk_within(LazyWalk *walk, BlockNumber block)
{
	if (block == InvalidBlockNumber)
		return false;
	if (block >= walk->nblocks)
		walk->nblocks = RelationGetNumberOfBlocks(walk->index);
	return block < walk->nblocks;
}

static LazyBucketState
state_of(Page page)
{
	LazyPageSpecial special = lazy_special(page);
	LazyBucketState state;

	state.stamp = special->stamp;
	state.version = special->version;
	state.flags = special->flags & ~LAZY_HAS_DEAD;
	state.tail = special->tail;
	state.split_next = special->split_next;
	return state;
}

/*
 * The state of the bucket now.  A primary page stays one for ever, so anything
 * else in its place is an error at once.
 */
static LazyBucketState
current_state(LazyWalk *walk)
{
	PGAlignedBlock copy;
	const char *problem;

	lazy_tool_copy(walk->index, walk->primary, walk->strategy, copy.data);
	problem = lazy_page_problem(copy.data);
	if (problem != NULL)
		lazy_corrupted(walk->index, walk->primary, "%s", problem);
	return state_of(copy.data);
}

static bool
same_bucket_state(const LazyBucketState *a, const LazyBucketState *b)
{
	return a->stamp == b->stamp && a->version == b->version && a->flags == b->flags;
}

bool
lazy_walk_disturbed(LazyWalk *walk)
{
	LazyBucketState now = current_state(walk);

	return !same_bucket_state(&now, &walk->state);
}

LazyWalkResult
lazy_walk_problem_at(LazyWalk *walk, BlockNumber block, const char *detail)
{
	if (lazy_walk_disturbed(walk))
		return LAZY_WALK_DISTURBED;
	lazy_corrupted_at(walk->index, block, detail);
}

LazyWalkResult
lazy_walk_start(LazyWalk *walk, const LazyMetaData *meta, uint32 bucket)
{
	Page		page = lazy_walk_page(walk);
	const char *problem;

	CHECK_FOR_INTERRUPTS();
	walk->bucket = bucket;
	walk->primary = lazy_bucket_block(bucket, meta->phase_start, meta->nphases);
	walk->block = walk->primary;
	walk->pages = 1;
	if (!lazy_walk_within(walk, walk->primary))
		lazy_corrupted(walk->index, LAZY_METAPAGE,
					   "Bucket %u is to lie in block %u, but the index has %u blocks.",
					   bucket, walk->primary, walk->nblocks);

	lazy_tool_copy(walk->index, walk->primary, walk->strategy, page);
	problem = lazy_page_problem(page);
	if (problem != NULL)
		lazy_corrupted(walk->index, walk->primary, "%s", problem);
	if (lazy_page_kind(page) != LAZY_KIND_PRIMARY)
		lazy_corrupted(walk->index, walk->primary,
					   "The primary page of bucket %u is to be here, but the page is of kind %s.",
					   bucket, lazy_kind_name(lazy_page_kind(page)));
	if (lazy_special(page)->bucket != bucket)
		lazy_corrupted(walk->index, walk->primary,
					   "The primary page of bucket %u is to be here, "
					   "but the page is that of bucket %u.",
					   bucket, lazy_special(page)->bucket);
	walk->state = state_of(page);
	walk->tail_passed = walk->state.tail == walk->primary;
	return LAZY_WALK_PAGE;
}

/*
 * The chain has ended at walk->block: is that the tail?  The chain may have
 * grown since the walk started; then the walk has come by the former tail, and
 * the primary page names another one now.
 */
static LazyWalkResult
end_of_chain(LazyWalk *walk)
{
	LazyBucketState now;

	/* one page was copied in one go: nothing can have come between */
	if (walk->pages == 1)
	{
		if (walk->state.tail == walk->primary)
			return LAZY_WALK_END;
		lazy_corrupted(walk->index, walk->primary,
					   "Bucket %u has no page but its primary page, "
					   "but its tail link leads to block %u.",
					   walk->bucket, walk->state.tail);
	}

	now = current_state(walk);
	if (!same_bucket_state(&now, &walk->state))
		return LAZY_WALK_DISTURBED;
	if (walk->block == walk->state.tail || walk->block == now.tail ||
		(walk->tail_passed && now.tail != walk->state.tail))
		return LAZY_WALK_END;
	lazy_corrupted(walk->index, walk->primary,
				   "The chain of bucket %u ends at block %u, but its tail link leads to block %u.",
				   walk->bucket, walk->block, now.tail);
}

LazyWalkResult
lazy_walk_next(LazyWalk *walk)
{
	Page		page = lazy_walk_page(walk);
	BlockNumber before = walk->block;
	BlockNumber next = lazy_special(page)->next;
	const char *problem;

	CHECK_FOR_INTERRUPTS();
	if (next == InvalidBlockNumber)
		return end_of_chain(walk);
	if (next == LAZY_METAPAGE || !lazy_walk_within(walk, next))
		return lazy_walk_problem(walk, before,
								 "Its link to the next page of bucket %u leads to block %u; "
								 "the index has %u blocks.",
								 walk->bucket, next, walk->nblocks);
	if (walk->pages >= walk->nblocks)
		return lazy_walk_problem(walk, before,
								 "The chain of bucket %u has more pages than the index: "
								 "it runs in a circle.",
								 walk->bucket);

	lazy_tool_copy(walk->index, next, walk->strategy, page);
	walk->block = next;
	walk->pages++;
	walk->tail_passed |= next == walk->state.tail;
	problem = lazy_page_problem(page);
	if (problem != NULL)
		return lazy_walk_problem(walk, next, "%s", problem);
	if (lazy_page_kind(page) != LAZY_KIND_OVERFLOW || lazy_special(page)->bucket != walk->bucket)
		return lazy_walk_problem(walk, next,
								 "An overflow page of bucket %u is to be here, for block %u "
								 "leads to it, but the page is of kind %s, bucket %u.",
								 walk->bucket, before,
								 lazy_kind_name(lazy_page_kind(page)), lazy_special(page)->bucket);
	return LAZY_WALK_PAGE;
}

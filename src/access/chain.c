/*
 * chain.c
 *		Hashing a key, and finding and locking pages of buckets.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "storage/bufmgr.h"

#include "lazyhash.h"

uint32
lazy_hash_value(Relation index, Datum value)
{
	FmgrInfo   *proc = index_getprocinfo(index, 1, LAZY_HASH_PROC);

	return DatumGetUInt32(FunctionCall1Coll(proc, index->rd_indcollation[0], value));
}

void
lazy_corrupted_at(Relation index, BlockNumber block, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" is corrupted at block %u",
					RelationGetRelationName(index), block),
			 errdetail_internal("%s", detail),
			 errhint("Please REINDEX it.")));
}

void
lazy_circle(Relation index, BlockNumber block, uint32 bucket)
{
	lazy_corrupted(index, block, "The chain of bucket %u runs in a circle.", bucket);
}

void
lazy_wrong_tid(Relation index, BlockNumber block, Page page, int position)
{
	LazyEntry  *entry = &lazy_entries(page)[position];
	ItemPointerData tid = lazy_entry_tid(entry);

	lazy_corrupted(index, block,
				   "Entry %d (hash %08x) points to row (%u,%u), which cannot be in the table.",
				   position, lazy_entry_hash(entry),
				   ItemPointerGetBlockNumberNoCheck(&tid),
				   ItemPointerGetOffsetNumberNoCheck(&tid));
}

void
lazy_refuse_row(Relation index, const ItemPointerData *tid)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("lazyhash index \"%s\" cannot hold row offset number %u",
					RelationGetRelationName(index), tid->ip_posid)));
}

/* ---- reading ---- */

void
lazy_require_block_slowly(Relation index, BlockNumber block)
{
	LazyCache  *cache = index->rd_amcache;
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);

	if (cache != NULL)
		cache->index_blocks = nblocks;
	if (block >= nblocks)
		lazy_corrupted(index, block, "The index has only %u blocks.", nblocks);
}

void
lazy_hint_reindex(void *arg)
{
	const LazyHint *hint = arg;

	if (geterrcode() == hint->sqlerrcode)
		errhint("Please REINDEX index \"%s\".", RelationGetRelationName(hint->index));
}

Buffer
lazy_read(Relation index, BlockNumber block, BufferAccessStrategy strategy)
{
	LazyHint	hint = {index, ERRCODE_DATA_CORRUPTED};
	ErrorContextCallback context = {error_context_stack, lazy_hint_reindex, &hint};
	Buffer		buffer;

	lazy_require_block(index, block);
	error_context_stack = &context;
	buffer = ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	error_context_stack = context.previous;
	return buffer;
}

/* ---- locking pages ---- */

/* Raises an error unless the page, which is locked, is in good order. */
static inline void
require_page(Relation index, Buffer buffer)
{
	const char *problem = lazy_page_problem(BufferGetPage(buffer));

	if (unlikely(problem != NULL))
		lazy_corrupted(index, BufferGetBlockNumber(buffer), "%s", problem);
}

/* The same unless it is the primary page of the bucket. */
static inline void
require_primary(Relation index, Buffer buffer, uint32 bucket)
{
	Page		page = BufferGetPage(buffer);

	if (unlikely(lazy_page_kind(page) != LAZY_KIND_PRIMARY ||
				 lazy_special(page)->bucket != bucket))
		lazy_corrupted(index, BufferGetBlockNumber(buffer),
					   "It is not the primary page of bucket %u.", bucket);
	if (unlikely(bucket == 0 && lazy_page_has(page, LAZY_BEING_POPULATED)))
		lazy_corrupted(index, BufferGetBlockNumber(buffer),
					   "Bucket 0 is being populated, but comes out of no other.");
}

Buffer
lazy_page_lock(Relation index, BlockNumber block, int lockmode, BufferAccessStrategy strategy)
{
	Buffer		buffer = lazy_read(index, block, strategy);

	LockBuffer(buffer, lockmode);
	require_page(index, buffer);
	return buffer;
}

/* The primary page of a bucket that lies in this block, or an error. */
static Buffer
primary_lock(Relation index, uint32 bucket, BlockNumber block, int lockmode,
			 BufferAccessStrategy strategy)
{
	Buffer		buffer = lazy_page_lock(index, block, lockmode, strategy);

	require_primary(index, buffer, bucket);
	return buffer;
}

/* Where a bucket is by our copy of the metapage, or an error. */
static inline BlockNumber
block_by_cache(Relation index, const LazyCache *cache, uint32 bucket)
{
	BlockNumber block = lazy_bucket_block(bucket, cache->phase_start, cache->nphases);

	if (unlikely(block == InvalidBlockNumber))
		lazy_corrupted(index, LAZY_METAPAGE, "Bucket %u lies in no phase.", bucket);
	return block;
}

/* The same of a bucket that exists, though perhaps for less long than the copy. */
static BlockNumber
primary_block(Relation index, uint32 bucket)
{
	const LazyCache *cache = lazy_cache(index);

	if (bucket > cache->maxbucket)
		cache = lazy_cache_load(index);
	return block_by_cache(index, cache, bucket);
}

Buffer
lazy_primary_lock(Relation index, uint32 bucket, int lockmode, BufferAccessStrategy strategy)
{
	return primary_lock(index, bucket, primary_block(index, bucket), lockmode, strategy);
}

Buffer
lazy_primary_trylock(Relation index, uint32 bucket)
{
	Buffer		buffer = lazy_read(index, primary_block(index, bucket), NULL);

	if (!ConditionalLockBuffer(buffer))
	{
		ReleaseBuffer(buffer);
		return InvalidBuffer;
	}
	require_page(index, buffer);
	require_primary(index, buffer, bucket);
	return buffer;
}

/*
 * The stamp on the page proves or disproves the look-up: a bucket that was last
 * split or created no later than our copy of the metapage was taken is still
 * the right one for all hashes that the copy maps to it.
 */
Buffer
lazy_bucket_lock(Relation index, uint32 hash, int lockmode, uint32 *bucket)
{
	const LazyCache *cache = lazy_cache(index);

	for (;;)
	{
		uint32		maxbucket = cache->maxbucket;
		Buffer		buffer;
		uint32		stamp;

		*bucket = lazy_bucket_of(hash, maxbucket, cache->highmask, cache->lowmask);
		buffer = primary_lock(index, *bucket, block_by_cache(index, cache, *bucket),
							  lockmode, NULL);
		stamp = lazy_special(BufferGetPage(buffer))->stamp;
		if (likely(stamp <= maxbucket))
			return buffer;

		/*
		 * While the page is locked its bucket cannot be split, so the metapage
		 * is now at least as new as the stamp.
		 */
		cache = lazy_cache_load(index);
		if (stamp > cache->maxbucket)
			lazy_corrupted(index, BufferGetBlockNumber(buffer),
						   "Its stamp %u is above the index's highest bucket %u.",
						   stamp, cache->maxbucket);
		if (lazy_bucket_of(hash, cache->maxbucket, cache->highmask, cache->lowmask) == *bucket)
			return buffer;
		UnlockReleaseBuffer(buffer);
	}
}

/*
 * A wrong link could lead to a page that this backend has locked already, and
 * there would be no end of waiting for it.  So kind and bucket are looked at
 * first: the lock on the primary page holds the chain still, and with it these
 * two.  The rest only under the lock: replay changes a page of the chain without
 * the primary page's lock, and must not be caught halfway.
 */
Buffer
lazy_chain_lock(Relation index, BlockNumber block, uint32 bucket, int lockmode,
				BufferAccessStrategy strategy)
{
	Buffer		buffer = lazy_read(index, block, strategy);
	Page		page = BufferGetPage(buffer);

	if (unlikely(lazy_special(page)->page_id != LAZY_PAGE_ID ||
				 lazy_page_kind(page) != LAZY_KIND_OVERFLOW ||
				 lazy_special(page)->bucket != bucket))
		lazy_corrupted(index, block, "It is not an overflow page of bucket %u.", bucket);
	LockBuffer(buffer, lockmode);
	require_page(index, buffer);
	return buffer;
}

void
lazy_require_tail(Relation index, Buffer primary, Buffer tail)
{
	if (unlikely(lazy_special(BufferGetPage(tail))->next != InvalidBlockNumber))
		lazy_corrupted(index, BufferGetBlockNumber(primary),
					   "Its tail link leads to block %u, which is not the chain's last.",
					   BufferGetBlockNumber(tail));
}

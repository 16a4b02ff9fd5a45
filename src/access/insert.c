/*
 * insert.c
 *		Adding an entry.
 *
 * The common case touches one page: the entry is appended to the tail of the
 * bucket's primary page and logged in a few bytes.  Once in "batch" inserts a
 * page posts what it holds to the metapage, is put in order, and the index looked
 * at whether it is due to split.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"

#include "../stats/stats.h"
#include "lazyhash.h"

/* What an insert has found out that asks for splits afterwards. */
typedef enum SplitSign
{
	NO_SIGN,
	COUNT_SIGN,					/* the posted count says that a split is due */
	FULLNESS_SIGN,				/* the page that it touched says that splits are overdue */
} SplitSign;

/*
 * What may give those signs.  All of it does; bench/parts/triggers.sh builds the
 * library with less, to measure what each is good for.
 */
#define BY_COUNT			0x01	/* the posted count */
#define BY_OVERFLOW			0x02	/* an overflow page that had to be added */
#define BY_FULLNESS			0x04	/* a posting that finds its page too full */
#ifndef LAZY_SPLIT_SIGNS
#define LAZY_SPLIT_SIGNS	(BY_COUNT | BY_OVERFLOW | BY_FULLNESS)
#endif
#define GIVES_SIGN(cause)	(((LAZY_SPLIT_SIGNS) & (cause)) != 0)

/*
 * Splits that a sign of fullness may bring on.  The buckets that a doubling has
 * not split yet fill their pages all at about the same time, and each gives one
 * such sign shortly before its page is full.  With two splits for each, the
 * doubling is over when half of them have, which is before many have got an
 * overflow page.
 */
#define SPLITS_FOR_FULLNESS		2

/*
 * Splits that one backend makes at most when the count is behind.  More than
 * one, since others that find them due meanwhile leave them to it, and a large
 * batch of small buckets asks for several at once.
 */
#define SPLITS_FOR_COUNT		4

/* Splits that a backend may owe, above which more signs add nothing. */
#define MOST_SPLITS_OWED		16

/* Entries at which a primary page gives its sign: a twelfth before it is full. */
#define FULLNESS_MARK		(LAZY_PAGE_CAPACITY - LAZY_PAGE_CAPACITY / 12)

/*
 * Puts a page in order that posts, as "incoming" entries are added to it.  Where
 * replay sorts for itself the tail is sorted into the prefix each time.  A
 * generic record would carry every byte that this moves: there, only when the
 * tail is as long as the prefix, so that each entry is moved but a few times in
 * its life.  Till then what has come since the last time is made a run.
 */
static void
put_in_order(Relation index, Page page, int incoming, LazyOps *ops)
{
	int			nsorted = lazy_special(page)->nsorted;
	int			count = lazy_page_count(page) + incoming;
	bool		replay_sorts = !RelationNeedsWAL(index) || lazy_wal_is_custom();

	if (count - nsorted >= (replay_sorts ? 2 : Max(nsorted, 32)))
		lazy_op_merge(ops);
	else if (count - lazy_page_unsorted(page) >= LAZY_RUN)
		lazy_op_sort_runs(ops);
}

/*
 * Could a split make the chain shorter that this page belongs to?  Not where
 * half of the page, or more, is one key.
 */
static bool
splitting_helps(Page page)
{
	const LazyEntry *entries = lazy_entries(page);
	int			nsorted = lazy_special(page)->nsorted;

	return nsorted < 4 ||
		lazy_entry_hash(&entries[nsorted / 4]) !=
		lazy_entry_hash(&entries[nsorted - 1 - nsorted / 4]);
}

/*
 * Does a page that has just posted "pending" entries say that splits are
 * overdue?  A primary page does so once, as it passes the mark; an overflow page
 * each time, for its bucket should have been split already.
 */
static bool
is_too_full(Page page, int pending)
{
	int			count = lazy_page_count(page);

	if (!GIVES_SIGN(BY_FULLNESS))
		return false;
	if (lazy_page_kind(page) == LAZY_KIND_PRIMARY &&
		(count < FULLNESS_MARK || count - pending >= FULLNESS_MARK))
		return false;
	return splitting_helps(page);
}

/*
 * Appends to a page with room, and posts when the page's pending entries have
 * become a batch.
 */
static SplitSign
append_entry(Relation index, Buffer buffer, const LazyEntry *entry)
{
	Page		page = BufferGetPage(buffer);
	int			pending = lazy_page_pending(page) + 1;
	bool		post = abs(pending) >= lazy_batch(index);
	SplitSign	sign = NO_SIGN;
	Buffer		metabuf;
	LazyMetaData *meta;
	LazyChange	change;
	LazyOps    *ops;

	lazy_change_start(&change, index, post ? LAZY_WAL_POST : LAZY_WAL_APPEND);
	ops = lazy_change_page(&change, buffer, false);
	lazy_op_append(ops, entry, 1);
	if (!post)
	{
		lazy_change_finish(&change);
		return NO_SIGN;
	}

	put_in_order(index, page, 1, ops);
	lazy_op_post(ops, pending);
	metabuf = lazy_meta_lock(index, BUFFER_LOCK_EXCLUSIVE);
	lazy_op_meta_add(lazy_change_page(&change, metabuf, false), pending);
	lazy_change_finish(&change);
	meta = lazy_meta(BufferGetPage(metabuf));
	if (GIVES_SIGN(BY_COUNT) && lazy_split_due(meta->ntuples, meta->maxbucket, meta->ffactor))
		sign = COUNT_SIGN;
	UnlockReleaseBuffer(metabuf);
	lazy_count(index, LAZY_POSTINGS, 1);
	return is_too_full(page, pending) ? FULLNESS_SIGN : sign;
}

/* Adds to a program that the page posts all that it holds; returns how many. */
static int
post_all(LazyOps *ops, Page page)
{
	int			pending = lazy_page_pending(page);

	if (pending != 0)
		lazy_op_post(ops, pending);
	return pending;
}

/*
 * Adds an overflow page with the entry on it to the chain that ends with
 * "tailbuf" (the primary page itself, if it is alone).  It has to take the
 * metapage in any case, to make the local sign count, so all three pages post.
 */
static void
append_overflow(Relation index, Buffer primary, Buffer tailbuf, const LazyEntry *entry)
{
	uint32		bucket = lazy_special(BufferGetPage(primary))->bucket;
	uint32		deletions;
	Buffer		newbuf = lazy_overflow_new(index, &deletions);
	BlockNumber newblock = BufferGetBlockNumber(newbuf);
	Buffer		metabuf = lazy_meta_lock(index, BUFFER_LOCK_EXCLUSIVE);
	int64		posted = 1;
	LazyChange	change;
	LazyOps    *ops;

	lazy_change_start(&change, index, LAZY_WAL_OVERFLOW);
	ops = lazy_change_page(&change, primary, false);
	lazy_op_set_tail(ops, newblock);
	posted += post_all(ops, BufferGetPage(primary));
	if (tailbuf != primary)
	{
		ops = lazy_change_page(&change, tailbuf, false);
		posted += post_all(ops, BufferGetPage(tailbuf));
	}
	lazy_op_set_next(ops, newblock);
	put_in_order(index, BufferGetPage(tailbuf), 0, ops);

	ops = lazy_change_page(&change, newbuf, true);
	lazy_op_init(ops, LAZY_KIND_OVERFLOW, bucket, InvalidBlockNumber, 0, 0, deletions);
	lazy_op_append(ops, entry, 1);
	lazy_op_post(ops, 1);

	lazy_op_meta_add(lazy_change_page(&change, metabuf, false), posted);
	lazy_change_finish(&change);
	UnlockReleaseBuffer(metabuf);
	UnlockReleaseBuffer(newbuf);
	lazy_count(index, LAZY_POSTINGS, 1);
}

/* Has the page room for one more, if need be after its dead entries are gone? */
static bool
make_room(Relation index, Relation heap, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);

	if (lazy_page_room(page) > 0)
		return true;
	return lazy_page_has(page, LAZY_HAS_DEAD) && lazy_dead_remove(index, heap, buffer) > 0;
}

/*
 * Puts the entry on a page of the bucket whose primary page is locked: the
 * primary page itself, else the last of its chain, else a new one.
 */
static SplitSign
place_entry(Relation index, Relation heap, Buffer primary, const LazyEntry *entry)
{
	LazyPageSpecial special = lazy_special(BufferGetPage(primary));
	Buffer		tailbuf = primary;
	SplitSign	sign;

	if (make_room(index, heap, primary))
		return append_entry(index, primary, entry);

	if (special->tail != BufferGetBlockNumber(primary))
		tailbuf = lazy_chain_lock(index, special->tail, special->bucket,
								  BUFFER_LOCK_EXCLUSIVE, NULL);
	lazy_require_tail(index, primary, tailbuf);
	if (tailbuf != primary && make_room(index, heap, tailbuf))
		sign = append_entry(index, tailbuf, entry);
	else
	{
		append_overflow(index, primary, tailbuf, entry);
		if (GIVES_SIGN(BY_OVERFLOW) && splitting_helps(BufferGetPage(primary)))
			sign = FULLNESS_SIGN;
		else
			sign = GIVES_SIGN(BY_COUNT) ? COUNT_SIGN : NO_SIGN;
	}
	if (tailbuf != primary)
		UnlockReleaseBuffer(tailbuf);
	return sign;
}

/*
 * Locks the primary page that the hash belongs to, for writing.  If the bucket
 * takes part in a split, the insert first does one step of it, so that splits
 * that were left unfinished come to an end.
 */
static Buffer
lock_for_insert(Relation index, uint32 hash)
{
	uint32		bucket;
	Buffer		buffer = lazy_bucket_lock(index, hash, BUFFER_LOCK_EXCLUSIVE, &bucket);

	if (!lazy_page_has(BufferGetPage(buffer), LAZY_BEING_SPLIT | LAZY_BEING_POPULATED))
		return buffer;
	UnlockReleaseBuffer(buffer);
	lazy_split_step(index, bucket);
	return lazy_bucket_lock(index, hash, BUFFER_LOCK_EXCLUSIVE, &bucket);
}

/*
 * Makes one of the splits that this insert, or an earlier one, has asked for: a
 * split takes several times as long as an insert, and one insert is not to wait
 * for more than one.  What is still owed when the backend ends, or when a split
 * fails, is forgotten: the next sign will do.
 */
static void
pay_split(Relation index, SplitSign sign)
{
	LazyCache  *cache;
	int			for_fullness;
	int			for_count;
	bool		fullness;
	bool		made;

	lazy_space_flush(index);
	cache = index->rd_amcache;
	if (unlikely(cache == NULL))
		return;
	for_fullness = cache->owed_for_fullness;
	if (sign == FULLNESS_SIGN)
		for_fullness = Min(for_fullness + SPLITS_FOR_FULLNESS, MOST_SPLITS_OWED);
	for_count = sign == COUNT_SIGN ? SPLITS_FOR_COUNT : cache->owed_for_count;
	cache->owed_for_fullness = cache->owed_for_count = 0;

	fullness = for_fullness > 0;
	made = lazy_split_if_due(index, fullness);
	if (fullness)
		for_fullness--;
	else
		for_count = made ? for_count - 1 : 0;

	/* the server may have forgotten the cache meanwhile */
	cache = index->rd_amcache;
	if (likely(cache != NULL))
	{
		cache->owed_for_fullness = for_fullness;
		cache->owed_for_count = for_count;
	}
}

/* Has this insert asked for a split, or does the backend owe one? */
static inline bool
owes_split(Relation index, SplitSign sign)
{
	const LazyCache *cache = index->rd_amcache;

	return sign != NO_SIGN ||
		(cache != NULL && (cache->owed_for_fullness > 0 || cache->owed_for_count > 0));
}

bool
lazy_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
			IndexUniqueCheck unique, bool unchanged, IndexInfo *info)
{
	LazyEntry	entry;
	uint32		hash;
	Buffer		primary;
	SplitSign	sign;

	/* no operator of ours is true of a NULL: it need not be in the index */
	if (isnull[0])
		return false;
	lazy_require_offset(index, tid);

	hash = lazy_hash_value(index, values[0]);
	lazy_entry_set(&entry, hash, tid);

	primary = lock_for_insert(index, hash);
	CheckForSerializableConflictIn(index, NULL, BufferGetBlockNumber(primary));
	sign = place_entry(index, heap, primary, &entry);
	UnlockReleaseBuffer(primary);

	if (unlikely(owes_split(index, sign)))
		pay_split(index, sign);
	lazy_count_insert(index);
	return false;
}

/*
 * scan.c
 *		Lookups.
 *
 * A scan takes one page at a time, under a share lock, copies out the TIDs that
 * match and lets go.  It keeps no pin and no lock while the caller looks at the
 * rows, so it holds up neither VACUUM nor a split.  What that asks for:
 *
 * - The chain may change between two of its pages.  Whatever moves entries
 *   within a chain bumps "version" on the primary page; after each further page
 *   the scan looks whether it is still what it was at first, and if not starts
 *   over from the look-up, leaving out the TIDs that it has handed out already.
 *   Should that happen too often, the rest is read under one lock.
 * - While a bucket is being populated, its entries are in two chains: the
 *   source's is read first, for entries only move from there to here.
 * - Rows may be vacuumed away, and their TIDs used again, before the caller
 *   looks at them: under an MVCC snapshot the new rows are invisible, and all
 *   results ask for a recheck.  A scan with another kind of snapshot holds a
 *   lock that VACUUM waits for.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/xlog.h"
#include "catalog/pg_am.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "../stats/stats.h"
#include "lazyhash.h"

/* Restarts after which a scan reads what is left under one lock. */
#define MAX_RESTARTS	3

/* A growing array of TIDs.  Sorted as far as nsorted says. */
typedef struct TidArray
{
	MemoryContext context;		/* that of the scan: callers come with shorter ones */
	ItemPointerData *tids;
	Size		count;
	Size		size;
	Size		nsorted;
} TidArray;

typedef enum ScanChain
{
	CHAIN_SOURCE,				/* of the bucket that ours is populated from; ours is next */
	CHAIN_OWN,
} ScanChain;

typedef struct LazyScanData
{
	/* the key */
	uint32		hash;
	Oid			cross_type;		/* type that cross_proc is for, if any */
	FmgrInfo	cross_proc;

	Relation	heap;			/* the table, open for as long as we read the index */
	bool		started;
	bool		lock_held;		/* against VACUUM's end */

	/* the chain being read */
	ScanChain	chain;
	uint32		bucket;			/* whose chain it is */
	BlockNumber primary;		/* its primary page */
	uint32		version;		/* of it, when we came */
	BlockNumber next;			/* page to read next */
	LazyCircle	circle;
	bool		circle_closed;	/* the chain leads back to a page that we have read */

	/* while chain is CHAIN_SOURCE: the bucket to go to afterwards */
	uint32		own_bucket;
	uint32		own_stamp;

	/* the page last read */
	BlockNumber block;			/* invalid if matches are of many pages */
	uint32		deletions;
	TidArray	matches;
	Size		next_match;
	TidArray	killed;			/* matches found dead */

	/* what has been handed out, for chains of more than one page */
	TidArray	returned;
	bool		leave_out;		/* do not hand out what is in "returned" */
	int			restarts;
} LazyScanData;

typedef LazyScanData *LazyScan;

/* ---- arrays of TIDs ---- */

static void
tids_reserve(TidArray *array, Size more)
{
	Size		needed = array->count + more;

	if (needed <= array->size)
		return;
	array->size = Max(needed, Max(array->size * 2, 16));
	if (array->tids == NULL)
		array->tids = MemoryContextAllocHuge(array->context,
											 array->size * sizeof(ItemPointerData));
	else
		array->tids = repalloc_huge(array->tids, array->size * sizeof(ItemPointerData));
}

static void
tids_clear(TidArray *array)
{
	array->count = array->nsorted = 0;
}

static void
tids_free(TidArray *array)
{
	if (array->tids != NULL)
		pfree(array->tids);
}

static int
compare_tids(const void *a, const void *b)
{
	return ItemPointerCompare((ItemPointer) a, (ItemPointer) b);
}

static void
tids_sort(TidArray *array)
{
	if (array->nsorted < array->count)
		qsort(array->tids, array->count, sizeof(ItemPointerData), compare_tids);
	array->nsorted = array->count;
}

static bool
tids_contain(const TidArray *array, const ItemPointerData *tid)
{
	return array->nsorted > 0 &&
		bsearch(tid, array->tids, array->nsorted, sizeof(ItemPointerData), compare_tids) != NULL;
}

/* ---- begin and end ---- */

IndexScanDesc
lazy_begin_scan(Relation index, int nkeys, int norderbys)
{
	IndexScanDesc scan = RelationGetIndexScan(index, nkeys, norderbys);
	LazyScan	so = palloc0(sizeof(LazyScanData));

	so->matches.context = so->killed.context = so->returned.context = CurrentMemoryContext;
	scan->opaque = so;
	return scan;
}

/* Goes back to the page and marks the entries that turned out dead. */
static void
mark_killed(IndexScanDesc scan)
{
	LazyScan	so = scan->opaque;
	Buffer		buffer;
	Page		page;

	if (so->killed.count == 0)
		return;
	if (so->block == InvalidBlockNumber)
	{
		tids_clear(&so->killed);
		return;
	}
	buffer = lazy_page_lock(scan->indexRelation, so->block, BUFFER_LOCK_SHARE, NULL);
	page = BufferGetPage(buffer);

	/*
	 * If no entry has left the page, the one with this hash and TID is the one
	 * that we saw; it may lie elsewhere on the page by now.
	 */
	if (lazy_special(page)->deletions == so->deletions && lazy_begin_hint(buffer))
	{
		bool		marked = false;

		for (Size i = 0; i < so->killed.count; i++)
		{
			int			position = lazy_page_find_entry(page, so->hash, &so->killed.tids[i]);

			if (position < 0)
				continue;
			lazy_entries(page)[position].tid.ip_posid |= LAZY_DEAD_BIT;
			marked = true;
		}
		if (marked)
			lazy_special(page)->flags |= LAZY_HAS_DEAD;
		lazy_end_hint(buffer, marked);
	}
	UnlockReleaseBuffer(buffer);
	tids_clear(&so->killed);
}

/* Leaves the scan as if it had not been started. */
static void
reset_scan(IndexScanDesc scan)
{
	LazyScan	so = scan->opaque;

	mark_killed(scan);
	if (so->lock_held)
		UnlockPage(scan->indexRelation, LAZY_METAPAGE, ShareLock);
	so->lock_held = false;
	so->started = false;
	so->leave_out = false;
	so->restarts = 0;
	so->next_match = 0;
	tids_clear(&so->matches);
	tids_clear(&so->killed);
	tids_clear(&so->returned);
}

void
lazy_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	reset_scan(scan);
	if (keys && scan->numberOfKeys > 0)
		memmove(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
}

void
lazy_end_scan(IndexScanDesc scan)
{
	LazyScan	so = scan->opaque;

	reset_scan(scan);
	tids_free(&so->matches);
	tids_free(&so->killed);
	tids_free(&so->returned);
	pfree(so);
	scan->opaque = NULL;
}

/* ---- the key ---- */

/*
 * The hash of a key of another type of the operator family, by that type's own
 * hash function, looked up once a scan.
 */
static uint32
cross_type_hash(IndexScanDesc scan, ScanKey key)
{
	LazyScan	so = scan->opaque;
	Relation	index = scan->indexRelation;

	if (so->cross_type != key->sk_subtype)
	{
		Oid			proc = get_opfamily_proc(index->rd_opfamily[0], key->sk_subtype,
											 key->sk_subtype, LAZY_HASH_PROC);

		if (!OidIsValid(proc))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_FUNCTION),
					 errmsg("operator family of index \"%s\" has no hash function for type %s",
							RelationGetRelationName(index), format_type_be(key->sk_subtype))));
		fmgr_info_cxt(proc, &so->cross_proc, so->matches.context);
		so->cross_type = key->sk_subtype;
	}
	return DatumGetUInt32(FunctionCall1Coll(&so->cross_proc, index->rd_indcollation[0],
											key->sk_argument));
}

/*
 * Hashes the scan's key.  False if nothing can match.  More than one key can
 * only be the same column again; the recheck sees to those.
 */
static bool
hash_key(IndexScanDesc scan)
{
	LazyScan	so = scan->opaque;
	Relation	index = scan->indexRelation;
	ScanKey		key = &scan->keyData[0];

	if (scan->numberOfKeys < 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("lazyhash indexes do not support whole-index scans")));
	if (key->sk_flags & SK_ISNULL)
		return false;
	if (key->sk_subtype == InvalidOid || key->sk_subtype == index->rd_opcintype[0])
		so->hash = lazy_hash_value(index, key->sk_argument);
	else
		so->hash = cross_type_hash(scan, key);
	return true;
}

/* ---- reading pages ---- */

/* May the table have this row?  The server is not to be asked for it otherwise. */
static bool
tid_is_possible(IndexScanDesc scan, const ItemPointerData *tid)
{
	Relation	heap = ((LazyScan) scan->opaque)->heap;
	LazyCache  *cache = scan->indexRelation->rd_amcache;
	BlockNumber heap_blocks;

	if (likely(cache != NULL && lazy_tid_within(tid, cache->heap_blocks)))
		return true;
	if (heap->rd_rel->relam != HEAP_TABLE_AM_OID)
		return ItemPointerGetOffsetNumberNoCheck(tid) != InvalidOffsetNumber;
	heap_blocks = RelationGetNumberOfBlocks(heap);
	if (cache != NULL)
		cache->heap_blocks = heap_blocks;
	return lazy_tid_within(tid, heap_blocks);
}

/* Adds to the matches what a page holds of our key.  The page is locked. */
static void
collect_matches(IndexScanDesc scan, Buffer buffer)
{
	LazyScan	so = scan->opaque;
	Page		page = BufferGetPage(buffer);
	uint16		positions[LAZY_PAGE_CAPACITY];
	int			n;

	lazy_test_old_snapshot(scan->xs_snapshot, scan->indexRelation, page);
	n = lazy_page_find(page, so->hash, positions);
	tids_reserve(&so->matches, n);
	for (int i = 0; i < n; i++)
	{
		LazyEntry  *entry = &lazy_entries(page)[positions[i]];
		ItemPointerData tid = lazy_entry_tid(entry);

		if (scan->ignore_killed_tuples && lazy_entry_is_dead(entry))
			continue;
		if (unlikely(!tid_is_possible(scan, &tid)))
			lazy_wrong_tid(scan->indexRelation, BufferGetBlockNumber(buffer), page, positions[i]);
		if (so->leave_out && tids_contain(&so->returned, &tid))
			continue;
		so->matches.tids[so->matches.count++] = tid;
	}
}

/* Reads one locked page: its matches, and where to go on. */
static void
read_page(IndexScanDesc scan, Buffer buffer)
{
	LazyScan	so = scan->opaque;
	Page		page = BufferGetPage(buffer);

	tids_clear(&so->matches);
	so->next_match = 0;
	so->block = BufferGetBlockNumber(buffer);
	so->deletions = lazy_special(page)->deletions;
	so->next = lazy_special(page)->next;
	so->circle_closed = lazy_circle_closes(&so->circle, so->block, so->next);
	collect_matches(scan, buffer);
}

/* Reads the primary page, locked, of a chain, and lets it go. */
static void
enter_chain(IndexScanDesc scan, Buffer buffer, ScanChain chain)
{
	LazyScan	so = scan->opaque;
	LazyPageSpecial special = lazy_special(BufferGetPage(buffer));

	so->chain = chain;
	so->bucket = special->bucket;
	so->primary = BufferGetBlockNumber(buffer);
	so->version = special->version;
	so->circle = (LazyCircle) {InvalidBlockNumber, 0};
	read_page(scan, buffer);
	UnlockReleaseBuffer(buffer);
}

/*
 * Finds the bucket and locks its primary page.  Serializable transactions take
 * their predicate lock here, also where nothing will be found.
 */
static Buffer
look_up(IndexScanDesc scan, uint32 *bucket)
{
	LazyScan	so = scan->opaque;
	Buffer		buffer = lazy_bucket_lock(scan->indexRelation, so->hash, BUFFER_LOCK_SHARE, bucket);

	PredicateLockPage(scan->indexRelation, BufferGetBlockNumber(buffer), scan->xs_snapshot);
	return buffer;
}

/* Reads the first page. */
static void
read_first_page(IndexScanDesc scan)
{
	LazyScan	so = scan->opaque;
	uint32		bucket;
	Buffer		buffer = look_up(scan, &bucket);
	LazyPageSpecial special = lazy_special(BufferGetPage(buffer));

	if ((special->flags & LAZY_BEING_POPULATED) == 0)
	{
		enter_chain(scan, buffer, CHAIN_OWN);
		return;
	}
	so->own_bucket = bucket;
	so->own_stamp = special->stamp;
	UnlockReleaseBuffer(buffer);
	enter_chain(scan,
				lazy_primary_lock(scan->indexRelation, lazy_source_bucket(bucket),
								  BUFFER_LOCK_SHARE, NULL),
				CHAIN_SOURCE);
}

/* Adds to the matches those of a whole chain whose primary page is locked. */
static void
collect_chain(IndexScanDesc scan, Buffer primary)
{
	Page		page = BufferGetPage(primary);
	uint32		bucket = lazy_special(page)->bucket;
	BlockNumber next = lazy_special(page)->next;
	LazyCircle	circle = {InvalidBlockNumber, 0};

	collect_matches(scan, primary);
	while (next != InvalidBlockNumber)
	{
		Buffer		buffer = lazy_chain_lock(scan->indexRelation, next, bucket,
											 BUFFER_LOCK_SHARE, NULL);

		collect_matches(scan, buffer);
		next = lazy_special(BufferGetPage(buffer))->next;
		if (lazy_circle_closes(&circle, BufferGetBlockNumber(buffer), next))
			lazy_circle(scan->indexRelation, next, bucket);
		UnlockReleaseBuffer(buffer);
	}
}

/* The matches are, or will be, handed out: not to be handed out again. */
static void
remember_matches(LazyScan so)
{
	tids_reserve(&so->returned, so->matches.count);
	if (so->matches.count > 0)
		memcpy(so->returned.tids + so->returned.count, so->matches.tids,
			   so->matches.count * sizeof(ItemPointerData));
	so->returned.count += so->matches.count;
}

/*
 * Reads all that is left at once, the bucket locked (and its source, if it is
 * being populated) so that nothing can change.
 */
static void
read_rest_locked(IndexScanDesc scan)
{
	LazyScan	so = scan->opaque;
	Relation	index = scan->indexRelation;
	Buffer		source = InvalidBuffer;
	Buffer		buffer;
	uint32		bucket;

	for (;;)
	{
		LazyPageSpecial special;
		uint32		stamp;

		buffer = look_up(scan, &bucket);
		special = lazy_special(BufferGetPage(buffer));
		if ((special->flags & LAZY_BEING_POPULATED) == 0)
			break;
		/* the lower bucket is locked first */
		stamp = special->stamp;
		UnlockReleaseBuffer(buffer);
		source = lazy_primary_lock(index, lazy_source_bucket(bucket), BUFFER_LOCK_SHARE, NULL);
		buffer = lazy_primary_lock(index, bucket, BUFFER_LOCK_SHARE, NULL);
		if (lazy_special(BufferGetPage(buffer))->stamp == stamp)
			break;
		UnlockReleaseBuffer(buffer);
		UnlockReleaseBuffer(source);
		source = InvalidBuffer;
	}

	tids_clear(&so->matches);
	so->next_match = 0;
	so->chain = CHAIN_OWN;
	so->next = InvalidBlockNumber;
	so->block = InvalidBlockNumber;
	if (BufferIsValid(source))
	{
		collect_chain(scan, source);
		UnlockReleaseBuffer(source);

		/* replay moves entries between overflow pages without our locks */
		remember_matches(so);
		tids_sort(&so->returned);
	}
	collect_chain(scan, buffer);
	UnlockReleaseBuffer(buffer);
}

/*
 * Starts over from the look-up because the chain has changed.  All matches so
 * far have been handed out and remembered.
 */
static void
restart(IndexScanDesc scan)
{
	LazyScan	so = scan->opaque;

	CHECK_FOR_INTERRUPTS();
	lazy_count(scan->indexRelation, LAZY_SCAN_RESTARTS, 1);
	tids_sort(&so->returned);
	so->leave_out = true;
	if (++so->restarts > MAX_RESTARTS)
		read_rest_locked(scan);
	else
		read_first_page(scan);
}

/* Is the chain that we are reading still what it was? */
static bool
chain_unchanged(IndexScanDesc scan)
{
	LazyScan	so = scan->opaque;
	Buffer		buffer = lazy_page_lock(scan->indexRelation, so->primary, BUFFER_LOCK_SHARE, NULL);
	bool		unchanged = lazy_special(BufferGetPage(buffer))->version == so->version;

	UnlockReleaseBuffer(buffer);
	return unchanged;
}

/*
 * Reads the next page of the chain.  What the link leads to means nothing until
 * the chain is known to be unchanged; then a wrong page is corruption.
 */
static void
read_next_page(IndexScanDesc scan)
{
	LazyScan	so = scan->opaque;
	Relation	index = scan->indexRelation;
	BlockNumber block = so->next;
	Buffer		buffer = lazy_read(index, block, NULL);
	Page		page = BufferGetPage(buffer);
	bool		expected;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	expected = lazy_page_problem(page) == NULL &&
		lazy_page_kind(page) == LAZY_KIND_OVERFLOW && lazy_special(page)->bucket == so->bucket;
	if (expected)
		read_page(scan, buffer);
	UnlockReleaseBuffer(buffer);

	if (!chain_unchanged(scan))
		restart(scan);
	else if (!expected)
		lazy_corrupted(index, block, "It is not an overflow page of bucket %u.", so->bucket);
	else if (so->circle_closed)
		lazy_circle(index, so->next, so->bucket);
}

/* From the end of the source's chain to our own bucket. */
static void
enter_own_chain(IndexScanDesc scan)
{
	LazyScan	so = scan->opaque;
	Buffer		buffer = lazy_primary_lock(scan->indexRelation, so->own_bucket,
										   BUFFER_LOCK_SHARE, NULL);

	/* split itself meanwhile: entries may have gone on to a third bucket */
	if (lazy_special(BufferGetPage(buffer))->stamp != so->own_stamp)
	{
		UnlockReleaseBuffer(buffer);
		restart(scan);
		return;
	}
	tids_sort(&so->returned);
	so->leave_out = true;
	enter_chain(scan, buffer, CHAIN_OWN);
}

/*
 * Reads further; false at the end.  The matches of the last page have all been
 * handed out.
 */
static bool
advance(IndexScanDesc scan)
{
	LazyScan	so = scan->opaque;

	if (so->chain == CHAIN_OWN && so->next == InvalidBlockNumber)
		return false;

	remember_matches(so);
	CHECK_FOR_INTERRUPTS();
	if (so->next != InvalidBlockNumber)
		read_next_page(scan);
	else
		enter_own_chain(scan);
	return true;
}

/* Begins the search; false if nothing can match. */
static bool
start(IndexScanDesc scan)
{
	LazyScan	so = scan->opaque;

	so->started = true;
	so->chain = CHAIN_OWN;
	so->next = InvalidBlockNumber;
	pgstat_count_index_scan(scan->indexRelation);
	lazy_count_search(scan);
	if (!hash_key(scan))
		return false;
	if (!IsMVCCSnapshot(scan->xs_snapshot) && !RecoveryInProgress())
	{
		LockPage(scan->indexRelation, LAZY_METAPAGE, ShareLock);
		so->lock_held = true;
	}
	read_first_page(scan);
	return true;
}

bool
lazy_get_tuple(IndexScanDesc scan, ScanDirection direction)
{
	LazyScan	so = scan->opaque;

	Assert(ScanDirectionIsForward(direction));

	/* only the hash is stored */
	scan->xs_recheck = true;

	so->heap = scan->heapRelation;
	if (!so->started)
		start(scan);
	else if (scan->kill_prior_tuple && so->next_match > 0)
	{
		tids_reserve(&so->killed, 1);
		so->killed.tids[so->killed.count++] = so->matches.tids[so->next_match - 1];
	}

	while (so->next_match >= so->matches.count)
	{
		mark_killed(scan);
		if (!advance(scan))
			return false;
	}
	scan->xs_heaptid = so->matches.tids[so->next_match++];
	return true;
}

int64
lazy_get_bitmap(IndexScanDesc scan, TIDBitmap *bitmap)
{
	LazyScan	so = scan->opaque;
	int64		n = 0;

	/* which the scan does not name, but has locked */
	so->heap = RelationIdGetRelation(scan->indexRelation->rd_index->indrelid);
	if (start(scan))
	{
		do
		{
			tbm_add_tuples(bitmap, so->matches.tids, so->matches.count, true);
			n += so->matches.count;
		} while (advance(scan));
	}
	RelationClose(so->heap);
	return n;
}

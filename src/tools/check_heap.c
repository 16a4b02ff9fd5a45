/*
 * check_heap.c
 *		lazyhash_check(): the index against its table, both ways.
 *
 * A snapshot is taken first; then every row that it sees and that the index
 * covers has to be found by its key, and every row that it sees and that an
 * entry points to has to hash to that entry's hash.  Who inserted a row that the
 * snapshot sees had entered it into the index before; and as the snapshot holds
 * VACUUM back, no TID that it knows is put to another use.  So both hold beside
 * writers, and beside replay, no matter how long it takes.
 *
 * Both ways work in batches as large as maintenance_work_mem, sorted such that
 * the other side is read in order: rows by bucket, entries by TID.  That takes
 * several readings where one batch is not enough, but it is exact.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "../access/lazyhash.h"
#include "check.h"

/* ---- batches ---- */

void
lazy_batch_init(LazyBatch *batch)
{
	batch->limit = Max((int64) maintenance_work_mem * 1024 / (int64) sizeof(LazyBatchItem), 1024);
	batch->size = 1024;
	batch->n = 0;
	batch->items = palloc(batch->size * sizeof(LazyBatchItem));
}

void
lazy_batch_add(LazyBatch *batch, const LazyEntry *entry)
{
	Assert(!lazy_batch_is_full(batch));

	if (batch->n == batch->size)
	{
		batch->size = Min(batch->size * 2, batch->limit);
		batch->items = repalloc_huge(batch->items, batch->size * sizeof(LazyBatchItem));
	}
	batch->items[batch->n].entry = *entry;
	batch->items[batch->n].found = false;
	batch->n++;
}

/*
 * The hash of a key.  Hash functions may leave memory behind, and there is one
 * call for each row.
 */
static uint32
hash_of_key(LazyCheck *check, Datum value)
{
	MemoryContext old = MemoryContextSwitchTo(check->scratch);
	uint32		hash = lazy_hash_value(check->index, value);

	MemoryContextSwitchTo(old);
	MemoryContextReset(check->scratch);
	return hash;
}

/* ---- every row has its entry ---- */

static inline int
compare_by_bucket(const LazyBatchItem *a, const LazyBatchItem *b, const LazyCheck *check)
{
	uint32		abucket = lazy_check_bucket_of(check, lazy_entry_hash(&a->entry));
	uint32		bbucket = lazy_check_bucket_of(check, lazy_entry_hash(&b->entry));

	if (abucket != bbucket)
		return abucket < bbucket ? -1 : 1;
	return lazy_entry_compare(&a->entry, &b->entry);
}

#define ST_SORT sort_by_bucket
#define ST_ELEMENT_TYPE LazyBatchItem
#define ST_COMPARE_ARG_TYPE const LazyCheck
#define ST_COMPARE(a, b, check) compare_by_bucket(a, b, check)
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/* Marks the row as found that this entry is for, if it is among those. */
static void
mark_found(LazyBatchItem *rows, int64 nrows, const LazyEntry *entry)
{
	int64		low = 0;
	int64		high = nrows;

	while (low < high)
	{
		int64		middle = (low + high) / 2;

		if (lazy_entry_compare(&rows[middle].entry, entry) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < nrows && lazy_entry_compare(&rows[low].entry, entry) == 0)
		rows[low].found = true;
}

/*
 * Marks those of the rows as found, all of one bucket, that the chain of
 * "chain_of" has entries for.  Fills *walk in, to look later whether it was
 * disturbed; the return value says whether that is known already.
 */
static LazyWalkResult
find_in_chain(LazyCheck *check, uint32 chain_of, LazyBatchItem *rows, int64 nrows,
			  LazyWalk *walk)
{
	LazyWalkResult result;

	lazy_walk_init(walk, check->index, check->strategy);
	for (result = lazy_walk_start(walk, &check->meta, chain_of);
		 result == LAZY_WALK_PAGE;
		 result = lazy_walk_next(walk))
	{
		const LazyEntry *entries = lazy_entries(lazy_walk_page(walk));
		int			count = lazy_page_count(lazy_walk_page(walk));

		for (int i = 0; i < count; i++)
		{
			/*
			 * Dead is what no snapshot sees, so it cannot be one of the rows.
			 * On a standby it can: the bit comes with an image of the page from
			 * the primary server, which does not know of our snapshot.
			 */
			if (lazy_entry_is_dead(&entries[i]) && check->writers_locked_out)
				continue;
			mark_found(rows, nrows, &entries[i]);
		}
	}
	return result;
}

/* The first row that was not found, or NULL. */
static const LazyEntry *
first_missing(const LazyBatchItem *rows, int64 nrows)
{
	for (int64 i = 0; i < nrows; i++)
	{
		if (!rows[i].found)
			return &rows[i].entry;
	}
	return NULL;
}

/*
 * Looks for the entries of rows that all hash to one bucket.  While that bucket
 * is being populated, its entries are in two chains, and move from that of the
 * source, which is read first, to its own.  False if the bucket was split since
 * the metapage was read, so that the rows may not be of one bucket any more.
 */
static bool
find_rows(LazyCheck *check, uint32 bucket, LazyBatchItem *rows, int64 nrows)
{
	LazyWalk	walk;
	LazyWalk	source_walk;
	LazyWalk	first_walk;

	lazy_walk_init(&first_walk, check->index, check->strategy);
	for (;;)
	{
		bool		populated;
		const LazyEntry *missing;
		ItemPointerData tid;

		lazy_walk_start(&first_walk, &check->meta, bucket);
		if (first_walk.state.stamp > check->meta.maxbucket)
			return false;
		populated = (first_walk.state.flags & LAZY_BEING_POPULATED) != 0;
		if (populated)
			find_in_chain(check, lazy_source_bucket(bucket), rows, nrows, &source_walk);
		find_in_chain(check, bucket, rows, nrows, &walk);

		missing = first_missing(rows, nrows);
		if (missing == NULL)
			return true;
		if (lazy_walk_disturbed(&first_walk) || (populated && lazy_walk_disturbed(&source_walk)))
			continue;
		tid = lazy_entry_tid(missing);
		lazy_corrupted(check->index, first_walk.primary,
					   "Row (%u,%u) of the table, hash %08x, has no live entry in bucket %u, "
					   "whose primary page this is.",
					   ItemPointerGetBlockNumberNoCheck(&tid),
					   ItemPointerGetOffsetNumberNoCheck(&tid),
					   lazy_entry_hash(missing), bucket);
	}
}

/* Looks for the entries of all rows of the batch, bucket by bucket. */
static void
find_batch(LazyCheck *check)
{
	LazyBatch  *batch = &check->batch;
	LazyBatchItem *items = batch->items;
	int64		low = 0;
	bool		sorted = false;

	while (low < batch->n)
	{
		int64		high = low + 1;
		uint32		bucket;

		if (!sorted)
		{
			lazy_check_reload(check);
			sort_by_bucket(&items[low], batch->n - low, check);
			sorted = true;
		}
		bucket = lazy_check_bucket_of(check, lazy_entry_hash(&items[low].entry));
		while (high < batch->n &&
			   lazy_check_bucket_of(check, lazy_entry_hash(&items[high].entry)) == bucket)
			high++;
		if (find_rows(check, bucket, &items[low], high - low))
			low = high;
		else
			sorted = false;
	}
	batch->n = 0;
}

/* Called for each row that the index should cover. */
static void
collect_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	LazyCheck  *check = state;
	LazyEntry	entry;

	if (isnull[0])
		return;
	lazy_entry_set(&entry, hash_of_key(check, values[0]), tid);
	if (lazy_batch_is_full(&check->batch))
		find_batch(check);
	lazy_batch_add(&check->batch, &entry);
}

/*
 * The scan is that of an index build, so that it knows about predicates,
 * expressions and HOT chains what the build knows.  Like CREATE INDEX
 * CONCURRENTLY it goes by a snapshot, and it waits for nobody.
 */
static void
check_rows(LazyCheck *check, Snapshot snapshot)
{
	IndexInfo  *info = BuildIndexInfo(check->index);
	TableScanDesc scan = table_beginscan_strat(check->heap, snapshot, 0, NULL, true, true);

	info->ii_Concurrent = true;
	info->ii_Unique = false;
	info->ii_ExclusionOps = NULL;
	info->ii_ExclusionProcs = NULL;
	info->ii_ExclusionStrats = NULL;
	check->batch.n = 0;
	table_index_build_scan(check->heap, check->index, info, true, false, collect_row, check, scan);
	find_batch(check);
}

/* ---- every entry's row has its hash ---- */

/* What it takes to come from an entry to the hash of its row. */
typedef struct RowReader
{
	IndexFetchTableData *fetch;
	Snapshot	snapshot;
	TupleTableSlot *slot;
	IndexInfo  *info;
	ExprState  *predicate;
	EState	   *estate;
	ExprContext *context;
} RowReader;

static void
reader_start(RowReader *reader, LazyCheck *check, Snapshot snapshot)
{
	reader->fetch = lazy_index_fetch_begin(check->heap);
	reader->snapshot = snapshot;
	reader->slot = table_slot_create(check->heap, NULL);
	reader->info = BuildIndexInfo(check->index);
	reader->estate = CreateExecutorState();
	reader->context = GetPerTupleExprContext(reader->estate);
	reader->context->ecxt_scantuple = reader->slot;
	reader->predicate = ExecPrepareQual(reader->info->ii_Predicate, reader->estate);
}

static void
reader_end(RowReader *reader)
{
	table_index_fetch_end(reader->fetch);
	ExecDropSingleTupleTableSlot(reader->slot);
	FreeExecutorState(reader->estate);
}

static inline int
compare_by_tid(const LazyBatchItem *a, const LazyBatchItem *b)
{
	uint64		akey = lazy_entry_tid_key(&a->entry);
	uint64		bkey = lazy_entry_tid_key(&b->entry);

	return akey < bkey ? -1 : (akey > bkey ? 1 : 0);
}

#define ST_SORT sort_by_tid
#define ST_ELEMENT_TYPE LazyBatchItem
#define ST_COMPARE(a, b) compare_by_tid(a, b)
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/*
 * The block and the position in which an entry is now, for a message: it was
 * collected a while ago.  InvalidBlockNumber if it is gone.
 */
static BlockNumber
locate(LazyCheck *check, const LazyEntry *entry, int *position)
{
	ItemPointerData tid = lazy_entry_tid(entry);
	uint32		hash = lazy_entry_hash(entry);
	uint32		chains[2];
	int			nchains = 1;
	LazyWalk	walk;

	lazy_check_reload(check);
	chains[0] = lazy_check_bucket_of(check, hash);
	if (chains[0] > 0)
		chains[nchains++] = lazy_source_bucket(chains[0]);
	lazy_walk_init(&walk, check->index, check->strategy);
	for (int i = 0; i < nchains; i++)
	{
		LazyWalkResult result = lazy_walk_start(&walk, &check->meta, chains[i]);

		for (; result == LAZY_WALK_PAGE; result = lazy_walk_next(&walk))
		{
			*position = lazy_page_find_entry(lazy_walk_page(&walk), hash, &tid);
			if (*position >= 0)
				return walk.block;
		}
	}
	return InvalidBlockNumber;
}

/* Raises an error about an entry, unless it has gone by now. */
static void
report_entry(LazyCheck *check, const LazyEntry *entry, const char *what)
{
	ItemPointerData tid = lazy_entry_tid(entry);
	int			position;
	BlockNumber block = locate(check, entry, &position);

	if (block == InvalidBlockNumber)
		return;
	lazy_corrupted(check->index, block, "Entry %d (hash %08x) points to row (%u,%u), %s.",
				   position, lazy_entry_hash(entry),
				   ItemPointerGetBlockNumberNoCheck(&tid),
				   ItemPointerGetOffsetNumberNoCheck(&tid), what);
}

/* Compares an entry with its row, if the snapshot sees one. */
static void
check_entry(LazyCheck *check, RowReader *reader, const LazyEntry *entry)
{
	ItemPointerData tid = lazy_entry_tid(entry);
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	bool		call_again = false;
	char		text[64];
	uint32		hash;

	if (!table_index_fetch_tuple(reader->fetch, &tid, reader->snapshot, reader->slot,
								 &call_again, NULL))
		return;
	ResetExprContext(reader->context);
	if (!ExecQual(reader->predicate, reader->context))
	{
		report_entry(check, entry, "which the index's predicate leaves out");
		return;
	}
	FormIndexDatum(reader->info, reader->slot, reader->estate, values, isnull);
	if (isnull[0])
	{
		report_entry(check, entry, "whose key is NULL");
		return;
	}
	hash = hash_of_key(check, values[0]);
	if (hash != lazy_entry_hash(entry))
	{
		snprintf(text, sizeof(text), "whose key has hash %08x", hash);
		report_entry(check, entry, text);
	}
	else if (lazy_entry_is_dead(entry) && check->writers_locked_out)
		report_entry(check, entry, "which is visible, but the entry is marked dead");
}

/* Compares the entries of the batch with their rows, in the table's order. */
static void
compare_batch(LazyCheck *check, RowReader *reader)
{
	LazyBatch  *batch = &check->batch;

	sort_by_tid(batch->items, batch->n);
	for (int64 i = 0; i < batch->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		check_entry(check, reader, &batch->items[i].entry);
	}
	batch->n = 0;
}

/* Collects the entries of one chain; again from the start, if it was disturbed. */
static void
collect_chain(LazyCheck *check, RowReader *reader, uint32 bucket)
{
	LazyWalk	walk;
	LazyWalkResult result;

	lazy_walk_init(&walk, check->index, check->strategy);
	do
	{
		result = lazy_walk_start(&walk, &check->meta, bucket);
		lazy_check_stamp(check, &walk);
		for (; result == LAZY_WALK_PAGE; result = lazy_walk_next(&walk))
		{
			const LazyEntry *entries = lazy_entries(lazy_walk_page(&walk));
			int			count = lazy_page_count(lazy_walk_page(&walk));

			for (int i = 0; i < count; i++)
			{
				if (lazy_batch_is_full(&check->batch))
					compare_batch(check, reader);
				lazy_batch_add(&check->batch, &entries[i]);
			}
		}
	} while (result != LAZY_WALK_END);
}

static void
check_all_entries(LazyCheck *check, Snapshot snapshot)
{
	RowReader	reader;

	reader_start(&reader, check, snapshot);
	check->batch.n = 0;
	lazy_check_reload(check);
	for (uint32 bucket = 0; bucket <= check->meta.maxbucket; bucket++)
		collect_chain(check, &reader, bucket);
	compare_batch(check, &reader);
	reader_end(&reader);
}

/*
 * The snapshot is a new one, whatever the isolation level of the transaction.
 * Also because of chains of row versions that are older than the index and
 * broken, as far as its key goes: of these the index knows what snapshots see
 * that are younger than itself.
 */
void
lazy_check_heap(LazyCheck *check)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	check->scratch = AllocSetContextCreate(CurrentMemoryContext, "lazyhash_check",
										   ALLOCSET_SMALL_SIZES);
	check_rows(check, snapshot);
	check_all_entries(check, snapshot);
	MemoryContextDelete(check->scratch);
	UnregisterSnapshot(snapshot);
}

/*
 * dead.c
 *		Removing entries that scans have found dead, when an insert needs room.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/tableam.h"
#include "catalog/pg_am.h"
#include "executor/tuptable.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

#include "../stats/stats.h"
#include "lazyhash.h"

#define ST_SORT sort_by_row
#define ST_ELEMENT_TYPE TM_IndexDelete
#define ST_COMPARE(a, b) ItemPointerCompare(&(a)->tid, &(b)->tid)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/* Entries to look at for one that is dead. */
#define MAX_TRIES		8

/* Refuses entries that point to no row that the table could have. */
static void
require_rows(Relation index, Relation heap, Buffer buffer, const uint16 *positions, int n)
{
	Page		page = BufferGetPage(buffer);
	bool		standard = heap->rd_rel->relam == HEAP_TABLE_AM_OID;
	BlockNumber heap_blocks = standard ? RelationGetNumberOfBlocks(heap) : 0;

	for (int i = 0; i < n; i++)
	{
		ItemPointerData tid = lazy_entry_tid(&lazy_entries(page)[positions[i]]);

		if (standard ? !lazy_tid_within(&tid, heap_blocks) :
			ItemPointerGetOffsetNumberNoCheck(&tid) == InvalidOffsetNumber)
			lazy_wrong_tid(index, BufferGetBlockNumber(buffer), page, positions[i]);
	}
}

/* Refuses two entries for one row, which the server counts on not to be asked about. */
static void
require_different_rows(Relation index, Buffer buffer, TM_IndexDelete *sorted, int n,
					   const uint16 *positions)
{
	for (int i = 1; i < n; i++)
	{
		if (ItemPointerEquals(&sorted[i - 1].tid, &sorted[i].tid))
			lazy_corrupted(index, BufferGetBlockNumber(buffer),
						   "Entries %d and %d point to the same row (%u,%u).",
						   positions[sorted[i - 1].id], positions[sorted[i].id],
						   ItemPointerGetBlockNumber(&sorted[i].tid),
						   ItemPointerGetOffsetNumber(&sorted[i].tid));
	}
}

/*
 * The first of the entries at these positions, counted from 0, whose row is dead
 * to everybody in all its versions, or -1.  What makes the answer no is most
 * likely to hold for the others as well, such as that our idea of the oldest
 * snapshot is older than that of the backend that set the bits; so it gives up
 * after a few.
 */
static int
find_dead(Relation heap, Page page, const uint16 *positions, int n)
{
	IndexFetchTableData *fetch = lazy_index_fetch_begin(heap);
	TupleTableSlot *slot = table_slot_create(heap, NULL);
	int			found = -1;

	for (int i = 0; i < Min(n, MAX_TRIES) && found < 0; i++)
	{
		ItemPointerData tid = lazy_entry_tid(&lazy_entries(page)[positions[i]]);
		bool		call_again = false;
		bool		all_dead = false;

		if (!table_index_fetch_tuple(fetch, &tid, SnapshotSelf, slot, &call_again, &all_dead) &&
			all_dead)
			found = i;
	}
	ExecDropSingleTupleTableSlot(slot);
	table_index_fetch_end(fetch);
	return found;
}

/*
 * Asks the heap which of the entries at these positions are dead to everybody.
 * The bit alone is not enough: it may have come in a page image from a former
 * primary.  Leaves the confirmed positions in positions[], ascending, and
 * returns their number; *horizon is the snapshot conflict horizon.
 *
 * Reads heap pages, and may raise errors.
 */
static int
confirm_dead(Relation index, Relation heap, Buffer buffer, uint16 *positions, int n,
			 TransactionId *horizon)
{
	Page		page = BufferGetPage(buffer);
	/* the server complains of entries that point to no row */
	LazyHint	hint = {index, ERRCODE_INDEX_CORRUPTED};
	ErrorContextCallback context = {error_context_stack, lazy_hint_reindex, &hint};
	TM_IndexDeleteOp op;
	TM_IndexDelete *deltids = palloc(n * sizeof(TM_IndexDelete));
	TM_IndexStatus *status = palloc0(n * sizeof(TM_IndexStatus));
	int			confirmed = 0;
	int			known;

	require_rows(index, heap, buffer, positions, n);
	for (int i = 0; i < n; i++)
	{
		deltids[i].tid = lazy_entry_tid(&lazy_entries(page)[positions[i]]);
		deltids[i].id = i;
		status[i].idxoffnum = positions[i] + 1;
	}
	sort_by_row(deltids, n);
	require_different_rows(index, buffer, deltids, n, positions);
	memset(&op, 0, sizeof(op));
	op.irel = index;
	op.iblknum = BufferGetBlockNumber(buffer);
	op.ndeltids = n;
	op.deltids = deltids;
	op.status = status;
	*horizon = InvalidTransactionId;
	error_context_stack = &context;
	known = find_dead(heap, page, positions, n);
	if (known >= 0)
	{
		/* the server takes it for granted that one of them is known to be dead */
		status[known].knowndeletable = true;
		*horizon = table_index_delete_tuples(heap, &op);
	}
	error_context_stack = context.previous;

	/* deltids come back in another order; status is by our numbers still */
	for (int i = 0; i < n; i++)
	{
		if (status[i].knowndeletable)
			positions[confirmed++] = positions[i];
	}
	pfree(deltids);
	pfree(status);
	return confirmed;
}

int
lazy_dead_remove(Relation index, Relation heap, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	uint16		positions[LAZY_PAGE_CAPACITY];
	int			ndead = lazy_page_dead(page, positions);
	int			confirmed;
	TransactionId horizon;
	LazyChange	change;
	LazyOps    *ops;

	if (ndead == 0)
		return 0;
	confirmed = confirm_dead(index, heap, buffer, positions, ndead, &horizon);
	if (confirmed == 0)
		return 0;

	lazy_change_start(&change, index, LAZY_WAL_REMOVE_DEAD);
	lazy_change_set_horizon(&change, horizon);
	ops = lazy_change_page(&change, buffer, false);
	lazy_op_remove(ops, positions, confirmed);
	if (confirmed == ndead)
		lazy_op_set_flags(ops, 0, LAZY_HAS_DEAD);
	lazy_change_finish(&change);
	lazy_count(index, LAZY_DEAD_REMOVED, confirmed);
	return confirmed;
}

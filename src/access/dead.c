/*
 * dead.c
 *		Removing entries that scans have found dead, when an insert needs room.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/tableam.h"
#include "storage/bufmgr.h"

#include "lazyhash.h"

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
	TM_IndexDeleteOp op;
	TM_IndexDelete *deltids = palloc(n * sizeof(TM_IndexDelete));
	TM_IndexStatus *status = palloc0(n * sizeof(TM_IndexStatus));
	int			confirmed = 0;

	for (int i = 0; i < n; i++)
	{
		deltids[i].tid = lazy_entry_tid(&lazy_entries(page)[positions[i]]);
		deltids[i].id = i;
		status[i].idxoffnum = positions[i] + 1;
	}
	memset(&op, 0, sizeof(op));
	op.irel = index;
	op.iblknum = BufferGetBlockNumber(buffer);
	op.ndeltids = n;
	op.deltids = deltids;
	op.status = status;
	*horizon = table_index_delete_tuples(heap, &op);

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
	return confirmed;
}

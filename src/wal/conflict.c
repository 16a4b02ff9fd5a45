/*
 * conflict.c
 *		See conflict.h.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/nbtxlog.h"
#include "access/rmgr.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/catalog.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "../compat.h"
#include "conflict.h"

/*
 * A 64-bit xid for a horizon of 32 bits: horizons lie at or before the next
 * xid, by less than half the circle.
 */
static FullTransactionId
widen(TransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint32		epoch = EpochFromFullTransactionId(next);

	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return FullTransactionIdFromEpochAndXid(epoch, xid);
}

void
lazy_log_conflict(Relation index, TransactionId horizon)
{
	xl_btree_reuse_page record;

	if (!XLogStandbyInfoActive() || !RelationNeedsWAL(index) ||
		!TransactionIdIsNormal(horizon))
		return;

	memset(&record, 0, sizeof(record));
	lazy_reuse_page_set(&record, index->rd_locator, widen(horizon));

	XLogBeginInsert();
	XLogRegisterData(lazy_xlog_data(&record), LAZY_REUSE_PAGE_SIZE);
	XLogInsert(RM_BTREE_ID, XLOG_BTREE_REUSE_PAGE);
}

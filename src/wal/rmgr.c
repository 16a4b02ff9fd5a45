/*
 * rmgr.c
 *		lazyhash's own WAL resource manager: redo, description, masking.
 *
 * A record has up to four blocks, and with each the program of page operations
 * that the change applied to it.  Redo runs the same programs by the same
 * interpreter.  All pages are locked before any is let go, in the order in
 * which the change named them, so that a reader never sees half a change; no
 * cleanup lock is needed, for readers keep no pins.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/bufmask.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogutils.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/standby.h"

#include "../compat.h"
#include "change.h"
#include "rmgr.h"

bool		lazy_rmgr_registered = false;

static void
resolve_conflict(XLogReaderState *record)
{
	LazyRecordConflict conflict;
	RelFileLocator locator;

	if (!InHotStandby || XLogRecGetDataLen(record) < sizeof(conflict))
		return;
	memcpy(&conflict, XLogRecGetData(record), sizeof(conflict));
	XLogRecGetBlockTag(record, 0, &locator, NULL, NULL);
	lazy_resolve_conflict(conflict.horizon, locator);
}

/* Locks a block of the record, with its page as the record leaves it. */
static Buffer
redo_block(XLogReaderState *record, uint8 block)
{
	bool		init = (XLogRecGetBlock(record, block)->flags & BKPBLOCK_WILL_INIT) != 0;
	Buffer		buffer;
	Page		page;
	Size		len;
	char	   *data;
	const char *problem;

	if (XLogReadBufferForRedoExtended(record, block,
									  init ? RBM_ZERO_AND_LOCK : RBM_NORMAL,
									  false, &buffer) != BLK_NEEDS_REDO)
		return buffer;

	page = BufferGetPage(buffer);
	data = XLogRecGetBlockData(record, block, &len);
	problem = lazy_ops_apply(page, data, data ? len : 0);
	if (problem != NULL)
		elog(PANIC, "lazyhash: cannot replay change of block %u: %s",
			 BufferGetBlockNumber(buffer), problem);
	PageSetLSN(page, record->EndRecPtr);
	MarkBufferDirty(buffer);
	return buffer;
}

static void
lazy_redo(XLogReaderState *record)
{
	Buffer		buffers[LAZY_CHANGE_MAX_PAGES];
	int			nblocks = XLogRecMaxBlockId(record) + 1;

	if (nblocks > LAZY_CHANGE_MAX_PAGES)
		elog(PANIC, "lazyhash: WAL record with %d blocks", nblocks);

	resolve_conflict(record);
	for (int i = 0; i < nblocks; i++)
		buffers[i] = redo_block(record, i);
	for (int i = nblocks - 1; i >= 0; i--)
	{
		if (BufferIsValid(buffers[i]))
			UnlockReleaseBuffer(buffers[i]);
	}
}

static void
lazy_desc(StringInfo buf, XLogReaderState *record)
{
	if (XLogRecGetDataLen(record) >= sizeof(LazyRecordConflict))
	{
		LazyRecordConflict conflict;

		memcpy(&conflict, XLogRecGetData(record), sizeof(conflict));
		appendStringInfo(buf, "snapshotConflictHorizon %u; ", conflict.horizon);
	}
	for (int i = 0; i <= XLogRecMaxBlockId(record); i++)
	{
		Size		len;
		char	   *data;

		if (!XLogRecHasBlockRef(record, i))
			continue;
		appendStringInfo(buf, "%sblk %d: ", i > 0 ? "; " : "", i);
		data = XLogRecGetBlockData(record, i, &len);
		if (data != NULL)
			lazy_ops_describe(buf, data, len);
		else
			appendStringInfoString(buf, "image");
	}
}

static const char *
lazy_identify(uint8 info)
{
	static const char *const names[] = {
		[LAZY_WAL_APPEND] = "APPEND",
		[LAZY_WAL_POST] = "POST",
		[LAZY_WAL_OVERFLOW] = "OVERFLOW",
		[LAZY_WAL_SPLIT] = "SPLIT",
		[LAZY_WAL_SPLIT_BEGIN] = "SPLIT_BEGIN",
		[LAZY_WAL_SPLIT_MOVE] = "SPLIT_MOVE",
		[LAZY_WAL_SPLIT_EXTEND] = "SPLIT_EXTEND",
		[LAZY_WAL_SPLIT_PROGRESS] = "SPLIT_PROGRESS",
		[LAZY_WAL_SPLIT_FINISH] = "SPLIT_FINISH",
		[LAZY_WAL_REMOVE] = "REMOVE",
		[LAZY_WAL_REMOVE_DEAD] = "REMOVE_DEAD",
		[LAZY_WAL_SQUEEZE] = "SQUEEZE",
		[LAZY_WAL_FREE] = "FREE",
		[LAZY_WAL_PHASE] = "PHASE",
	};
	uint8		kind = (info & ~XLR_INFO_MASK) >> 4;

	return kind < lengthof(names) ? names[kind] : NULL;
}

/*
 * What may differ between a primary and its standby: LSN and checksum, bytes in
 * the hole, and dead bits, which are not logged.
 */
static void
lazy_mask(char *pagedata, BlockNumber block)
{
	Page		page = (Page) pagedata;

	mask_page_lsn_and_checksum(page);
	mask_unused_space(page);
	if (block == LAZY_METAPAGE || lazy_page_problem(page) != NULL)
		return;
	for (int i = 0; i < lazy_page_count(page); i++)
		lazy_entries(page)[i].tid.ip_posid &= ~LAZY_DEAD_BIT;
	lazy_special(page)->flags &= ~LAZY_HAS_DEAD;
}

static const RmgrData lazy_rmgr = {
	.rm_name = "lazyhash",
	.rm_redo = lazy_redo,
	.rm_desc = lazy_desc,
	.rm_identify = lazy_identify,
	.rm_mask = lazy_mask,
};

void
lazy_rmgr_register(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	lazy_register_rmgr(LAZYHASH_RMGR_ID, &lazy_rmgr);
	lazy_rmgr_registered = true;
}

/*
 * change.c
 *		Applying and logging an atomic change, by generic WAL or by our own
 *		resource manager.
 *
 * What is written by hand here are two changes in generic mode.  GenericXLog
 * copies and compares whole pages, while we know the two fragments that an append
 * changes, which is nearly every record, and that a split, for which an insert
 * waits, changes all.  The rest uses the API.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/rmgr.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/guc.h"
#include "utils/rel.h"

#include "../compat.h"
#include "change.h"
#include "conflict.h"
#include "rmgr.h"

int			lazy_wal_mode = LAZY_WAL_MODE_AUTO;

static const struct config_enum_entry wal_mode_options[] = {
	{"auto", LAZY_WAL_MODE_AUTO, false},
	{"generic", LAZY_WAL_MODE_GENERIC, false},
	{NULL, 0, false}
};

void
lazy_wal_init(void)
{
	DefineCustomEnumVariable("lazyhash.wal",
							 "Kind of WAL records that lazyhash indexes write.",
							 "\"auto\" writes records of lazyhash's own resource manager where the "
							 "library is in shared_preload_libraries, else generic records; "
							 "\"generic\" always writes generic records, which any server replays.",
							 &lazy_wal_mode,
							 LAZY_WAL_MODE_AUTO,
							 wal_mode_options,
							 PGC_SUSET,
							 0,
							 NULL, NULL, NULL);
	lazy_rmgr_register();
}

bool
lazy_wal_is_custom(void)
{
	return lazy_rmgr_registered && lazy_wal_mode == LAZY_WAL_MODE_AUTO;
}

void
lazy_change_start(LazyChange *change, Relation index, LazyWalKind kind)
{
	change->index = index;
	change->kind = kind;
	change->horizon = InvalidTransactionId;
	change->npages = 0;
}

LazyOps *
lazy_change_page(LazyChange *change, Buffer buffer, bool init)
{
	LazyChangePage *page;

	Assert(change->npages < LAZY_CHANGE_MAX_PAGES);
	Assert(BufferIsValid(buffer));
	page = &change->page[change->npages++];
	page->buffer = buffer;
	page->init = init;
	lazy_ops_start(&page->ops);
	return &page->ops;
}

void
lazy_change_set_horizon(LazyChange *change, TransactionId horizon)
{
	change->horizon = horizon;
}

/*
 * The callers have seen to it that the programs fit the pages, so failing is a
 * bug of ours; in a critical section the server makes a PANIC of it.
 */
static void
apply(Page page, const LazyChangePage *changed)
{
	const char *problem = lazy_ops_apply(page, changed->ops.data, changed->ops.len);

	if (problem != NULL)
		elog(ERROR, "lazyhash: cannot change block %u: %s",
			 BufferGetBlockNumber(changed->buffer), problem);
}

/* Pages in place, in the critical section of the caller. */
static void
apply_in_place(LazyChange *change)
{
	for (int i = 0; i < change->npages; i++)
	{
		apply(BufferGetPage(change->page[i].buffer), &change->page[i]);
		MarkBufferDirty(change->page[i].buffer);
	}
}

static void
set_lsn(LazyChange *change, XLogRecPtr lsn)
{
	for (int i = 0; i < change->npages; i++)
		PageSetLSN(BufferGetPage(change->page[i].buffer), lsn);
}

static void
finish_unlogged(LazyChange *change)
{
	START_CRIT_SECTION();
	apply_in_place(change);
	END_CRIT_SECTION();
}

static void
finish_custom(LazyChange *change)
{
	LazyRecordConflict conflict;
	XLogRecPtr	lsn;

	START_CRIT_SECTION();
	apply_in_place(change);

	XLogBeginInsert();
	if (TransactionIdIsValid(change->horizon))
	{
		conflict.horizon = change->horizon;
		XLogRegisterData(lazy_xlog_data(&conflict), sizeof(conflict));
	}
	for (int i = 0; i < change->npages; i++)
	{
		LazyChangePage *page = &change->page[i];

		XLogRegisterBuffer(i, page->buffer,
						   REGBUF_STANDARD | (page->init ? REGBUF_WILL_INIT : 0));
		XLogRegisterBufData(i, lazy_xlog_data(page->ops.data), page->ops.len);
	}
	lsn = XLogInsert(LAZYHASH_RMGR_ID, (uint8) (change->kind << 4));
	set_lsn(change, lsn);
	END_CRIT_SECTION();
}

/*
 * Dead bits are on our page but perhaps not on a standby's.  The server's check
 * of generic records compares pages to the byte, so where it is on, the page
 * goes whole.
 */
static bool
generic_wants_image(Buffer buffer)
{
	Page		page = BufferGetPage(buffer);

	return wal_consistency_checking[RM_GENERIC_ID] &&
		BufferGetBlockNumber(buffer) != LAZY_METAPAGE &&
		!PageIsNew(page) && lazy_page_has(page, LAZY_HAS_DEAD);
}

static void
finish_generic(LazyChange *change)
{
	GenericXLogState *state;

	if (TransactionIdIsValid(change->horizon))
		lazy_log_conflict(change->index, change->horizon);

	state = GenericXLogStart(change->index);
	for (int i = 0; i < change->npages; i++)
	{
		LazyChangePage *changed = &change->page[i];
		bool		whole = changed->init || generic_wants_image(changed->buffer);

		apply(GenericXLogRegisterBuffer(state, changed->buffer,
										whole ? GENERIC_XLOG_FULL_IMAGE : 0),
			  changed);
	}
	GenericXLogFinish(state);
}

/* A piece of a page as redo of generic records reads it. */
static int
write_fragment(char *to, uint16 offset, const void *data, uint16 len)
{
	memcpy(to, &offset, sizeof(offset));
	memcpy(to + sizeof(offset), &len, sizeof(len));
	memcpy(to + sizeof(offset) + sizeof(len), data, len);
	return sizeof(offset) + sizeof(len) + len;
}

/*
 * A split changes nearly every byte of the pages that it does not make anew.
 * They go whole, as the API would have it, but without its copies of all pages
 * and its search for what has changed.  Of the metapage it changes the counts.
 */
#define META_COUNTS			offsetof(LazyMetaData, ntuples)
#define META_COUNTS_SIZE	(offsetof(LazyMetaData, nphases) - META_COUNTS)

static void
finish_generic_split(LazyChange *change)
{
	char		delta[2 * sizeof(uint16) + META_COUNTS_SIZE];
	XLogRecPtr	lsn;

	START_CRIT_SECTION();
	apply_in_place(change);

	XLogBeginInsert();
	for (int i = 0; i < change->npages; i++)
	{
		Buffer		buffer = change->page[i].buffer;
		char	   *page = BufferGetPage(buffer);

		if (BufferGetBlockNumber(buffer) == LAZY_METAPAGE)
		{
			char	   *from = (char *) lazy_meta(page) + META_COUNTS;
			int			len = write_fragment(delta, from - page, from, META_COUNTS_SIZE);

			XLogRegisterBuffer(i, buffer, REGBUF_STANDARD);
			XLogRegisterBufData(i, lazy_xlog_data(delta), len);
		}
		else
			XLogRegisterBuffer(i, buffer, REGBUF_STANDARD | REGBUF_FORCE_IMAGE);
	}
	lsn = XLogInsert(RM_GENERIC_ID, 0);
	set_lsn(change, lsn);
	END_CRIT_SECTION();
}

/*
 * The append of one entry to one page as a generic record: the two fragments
 * are pd_lower and the entry.
 */
static void
finish_generic_append(LazyChange *change)
{
	Buffer		buffer = change->page[0].buffer;
	PageHeader	header = (PageHeader) BufferGetPage(buffer);
	uint16		old_lower = header->pd_lower;
	uint8		flags = REGBUF_STANDARD;
	char		delta[2 * (2 * sizeof(uint16)) + sizeof(uint16) + sizeof(LazyEntry)];
	int			len;
	XLogRecPtr	lsn;

	if (generic_wants_image(buffer))
		flags |= REGBUF_FORCE_IMAGE;

	START_CRIT_SECTION();
	apply_in_place(change);
	Assert(header->pd_lower == old_lower + sizeof(LazyEntry));

	len = write_fragment(delta, offsetof(PageHeaderData, pd_lower),
						 &header->pd_lower, sizeof(header->pd_lower));
	len += write_fragment(delta + len, old_lower,
						  (char *) header + old_lower, sizeof(LazyEntry));

	XLogBeginInsert();
	XLogRegisterBuffer(0, buffer, flags);
	XLogRegisterBufData(0, lazy_xlog_data(delta), len);
	lsn = XLogInsert(RM_GENERIC_ID, 0);
	PageSetLSN((Page) header, lsn);
	END_CRIT_SECTION();
}

#ifdef USE_ASSERT_CHECKING

/* The place of a changed page in the order of locks. */
static uint64
lock_rank(Buffer buffer)
{
	Page		page = BufferGetPage(buffer);

	if (BufferGetBlockNumber(buffer) == LAZY_METAPAGE)
		return PG_UINT64_MAX;
	if (lazy_page_kind(page) == LAZY_KIND_PRIMARY)
		return lazy_special(page)->bucket;
	return (uint64) PG_UINT32_MAX + 1;
}

/*
 * Replay locks the pages as the change names them, and on a standby nothing else
 * keeps it and readers from waiting for each other.
 */
static bool
names_pages_in_order(const LazyChange *change)
{
	for (int i = 1; i < change->npages; i++)
	{
		if (lock_rank(change->page[i - 1].buffer) > lock_rank(change->page[i].buffer))
			return false;
	}
	return true;
}

#endif							/* USE_ASSERT_CHECKING */

void
lazy_change_finish(LazyChange *change)
{
	if (!RelationNeedsWAL(change->index))
		finish_unlogged(change);
	else if (lazy_wal_is_custom())
		finish_custom(change);
	else if (change->kind == LAZY_WAL_APPEND)
		finish_generic_append(change);
	else if (change->kind == LAZY_WAL_SPLIT)
		finish_generic_split(change);
	else
		finish_generic(change);
	Assert(names_pages_in_order(change));

	for (int i = 0; i < change->npages; i++)
		lazy_ops_end(&change->page[i].ops);
}

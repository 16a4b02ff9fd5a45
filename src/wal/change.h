/*
 * change.h
 *		An atomic change: up to four pages, a program of page operations for
 *		each, one WAL record.
 *
 * Use, with all buffers pinned and exclusively locked, and outside a critical
 * section:
 *
 *		LazyChange	change;
 *
 *		lazy_change_start(&change, index, LAZY_WAL_SPLIT);
 *		ops = lazy_change_page(&change, buffer, false);
 *		lazy_op_...(ops, ...);
 *		... other pages, in the order in which replay is to lock them ...
 *		lazy_change_finish(&change);
 *
 * lazy_change_finish() applies the programs, marks the buffers dirty and logs,
 * by the custom resource manager, by generic WAL or not at all, as the relation
 * and the setting lazyhash.wal demand.  Locks and pins are left as they were.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_WAL_CHANGE_H
#define LAZY_WAL_CHANGE_H

#include "postgres.h"

#include "access/transam.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "../format/meta.h"
#include "../format/op.h"

/*
 * What a change is for.  Replay does not care: it applies the programs.  The
 * name is for pg_walinspect and pg_waldump, and sorts records by kind.  At most
 * 16, the values are part of the WAL format.
 */
typedef enum LazyWalKind
{
	LAZY_WAL_APPEND = 0,		/* one entry, to one page */
	LAZY_WAL_POST,				/* one entry, and the page's pending count to the metapage */
	LAZY_WAL_OVERFLOW,			/* one entry, on a new overflow page */
	LAZY_WAL_SPLIT,				/* a whole split of a bucket of one or two pages */
	LAZY_WAL_SPLIT_BEGIN,
	LAZY_WAL_SPLIT_MOVE,
	LAZY_WAL_SPLIT_EXTEND,		/* overflow page for a bucket being populated */
	LAZY_WAL_SPLIT_PROGRESS,	/* how far a split has come */
	LAZY_WAL_SPLIT_FINISH,
	LAZY_WAL_REMOVE,			/* VACUUM removes entries */
	LAZY_WAL_REMOVE_DEAD,		/* an insert removes dead entries */
	LAZY_WAL_SQUEEZE,			/* a page folded into its predecessor */
	LAZY_WAL_FREE,				/* a block outside all chains made a free page */
	LAZY_WAL_PHASE,				/* a new phase */
} LazyWalKind;

#define LAZY_CHANGE_MAX_PAGES	4	/* what generic WAL allows */

typedef struct LazyChangePage
{
	Buffer		buffer;
	bool		init;			/* program makes the page anew, whatever was there */
	LazyOps		ops;
} LazyChangePage;

typedef struct LazyChange
{
	Relation	index;
	LazyWalKind kind;
	TransactionId horizon;		/* snapshot conflict horizon, or invalid */
	int			npages;
	LazyChangePage page[LAZY_CHANGE_MAX_PAGES];
} LazyChange;

extern void lazy_change_start(LazyChange *change, Relation index, LazyWalKind kind);

/*
 * Adds a page, returns the (empty) program to fill in.  With init, the program
 * must begin with LAZY_OP_INIT or LAZY_OP_META_INIT.
 */
extern LazyOps *lazy_change_page(LazyChange *change, Buffer buffer, bool init);

/*
 * The removal that this change makes may conflict with queries on a standby
 * whose snapshots are at or before the horizon.
 */
extern void lazy_change_set_horizon(LazyChange *change, TransactionId horizon);

extern void lazy_change_finish(LazyChange *change);

/* ---- which WAL ---- */

typedef enum LazyWalMode
{
	LAZY_WAL_MODE_AUTO,			/* custom if the library was preloaded, else generic */
	LAZY_WAL_MODE_GENERIC,
} LazyWalMode;

extern int	lazy_wal_mode;		/* the setting lazyhash.wal */

/* Does this server write our own records? */
extern bool lazy_wal_is_custom(void);

/* Defines lazyhash.wal and, when preloading, registers the resource manager. */
extern void lazy_wal_init(void);

#endif							/* LAZY_WAL_CHANGE_H */

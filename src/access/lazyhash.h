/*
 * lazyhash.h
 *		What the operations of the access method (insert, scan, split, vacuum,
 *		build) share: the metapage cache, buckets and their locks, space.
 *
 * Order of locks: primary page of the lower bucket, primary page of the higher
 * bucket, chain pages, relation extension lock, metapage.  Whoever holds the
 * metapage waits for nothing.  A writer holds the primary page of the bucket
 * exclusively for the whole of each change.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_ACCESS_LAZYHASH_H
#define LAZY_ACCESS_LAZYHASH_H

#include "postgres.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "../compat.h"
#include "../format/meta.h"
#include "../format/page.h"
#include "../wal/change.h"

/* Strategy and support function numbers: those of the built-in hash. */
#define LAZY_EQUAL_STRATEGY		1
#define LAZY_NSTRATEGIES		1
#define LAZY_HASH_PROC			1
#define LAZY_EXTENDED_PROC		2
#define LAZY_OPTIONS_PROC		3
#define LAZY_NPROCS				3

/* ---- storage parameters (options.c) ---- */

typedef struct LazyOptions
{
	int32		varlena_header;
	int			fillfactor;		/* percent of a page that a bucket should hold */
	int			batch;			/* inserts on a page before the metapage is told */
} LazyOptions;

#define LAZY_MIN_FILLFACTOR		10
#define LAZY_DEFAULT_FILLFACTOR 75
#define LAZY_MAX_BATCH			(LAZY_PAGE_CAPACITY / 2)
#define LAZY_DEFAULT_BATCH		Min(64, LAZY_MAX_BATCH)

extern void lazy_options_init(void);
extern bytea *lazy_options(Datum reloptions, bool validate);

static inline int
lazy_fillfactor(Relation index)
{
	return index->rd_options ? ((LazyOptions *) index->rd_options)->fillfactor :
		LAZY_DEFAULT_FILLFACTOR;
}

static inline int
lazy_batch(Relation index)
{
	return index->rd_options ? ((LazyOptions *) index->rd_options)->batch : LAZY_DEFAULT_BATCH;
}

/* ---- the metapage and its cached copy (cache.c) ---- */

/*
 * A copy of the metapage, possibly old, in rd_amcache.  Old is harmless: a
 * bucket that was split since bears a stamp above the copy's maxbucket.  The
 * pointer is good until the next catalogue access or refresh.
 *
 * And lengths of files, as far as they are known.  That of the index never
 * shrinks.  The table's may, which makes a link to a row harder to find wrong,
 * not a right one wrong.
 */
typedef struct LazyCache
{
	BlockNumber index_blocks;	/* the index has these */
	BlockNumber heap_blocks;	/* the table has, or had, these */
	uint8		owed_for_fullness;	/* splits that this backend has been asked for, and */
	uint8		owed_for_count;		/* has not made yet */
	uint32		maxbucket;
	uint32		highmask;
	uint32		lowmask;
	uint32		ffactor;
	uint32		nphases;
	BlockNumber phase_start[FLEXIBLE_ARRAY_MEMBER];
} LazyCache;

extern const LazyCache *lazy_cache_load(Relation index);	/* reads the metapage, share lock */
extern void lazy_cache_reset(Relation index);	/* forget the copy */

static inline const LazyCache *
lazy_cache(Relation index)
{
	return index->rd_amcache ? (const LazyCache *) index->rd_amcache : lazy_cache_load(index);
}

/* Pins and locks the metapage; all but its phases is verified. */
extern Buffer lazy_meta_lock(Relation index, int lockmode);

/* Verifies the phases as well. */
extern void lazy_meta_verify(Relation index, Page page);

/* Refuses what is not a lazyhash index (ERRCODE_WRONG_OBJECT_TYPE). */
extern void lazy_require_lazyhash(Relation index);

/* ---- reading (chain.c) ---- */

/*
 * Pins a block.  That the file has no such block is corruption, and if the
 * server finds that what is there is no page, its error gets a hint at REINDEX.
 */
extern Buffer lazy_read(Relation index, BlockNumber block, BufferAccessStrategy strategy);

/*
 * The hint alone: callback of an error context, its argument a LazyHint that says
 * which of the server's errors is about the index.
 */
typedef struct LazyHint
{
	Relation	index;
	int			sqlerrcode;
} LazyHint;

extern void lazy_hint_reindex(void *hint);

extern void lazy_require_block_slowly(Relation index, BlockNumber block);

/* Raises ERRCODE_INDEX_CORRUPTED if the index has no such block. */
static inline void
lazy_require_block(Relation index, BlockNumber block)
{
	const LazyCache *cache = index->rd_amcache;

	if (unlikely(cache == NULL || block >= cache->index_blocks))
		lazy_require_block_slowly(index, block);
}

/*
 * Tells on the walk along a chain that it runs in a circle: one page is kept in
 * mind, and exchanged for a later one whenever the walk has become twice as long.
 */
typedef struct LazyCircle
{
	BlockNumber mark;
	BlockNumber pages;			/* so far */
} LazyCircle;

/* Goes from one page to the next (or invalid); true if we have been there. */
static inline bool
lazy_circle_closes(LazyCircle *circle, BlockNumber block, BlockNumber next)
{
	circle->pages++;
	if ((circle->pages & (circle->pages - 1)) == 0)
		circle->mark = block;
	return next == circle->mark;
}

/* ---- pages (chain.c) ---- */

/*
 * Pins and locks a block and verifies that it is a bucket page in good order
 * (else ERRCODE_INDEX_CORRUPTED, lock and pin released by the error).  The kind
 * is not looked at.
 */
extern Buffer lazy_page_lock(Relation index, BlockNumber block, int lockmode,
							 BufferAccessStrategy strategy);

/* Raises ERRCODE_INDEX_CORRUPTED for a block, with a hint at REINDEX. */
pg_noreturn extern void lazy_corrupted_at(Relation index, BlockNumber block, const char *detail);

#define lazy_corrupted(index, block, ...) \
	lazy_corrupted_at(index, block, psprintf(__VA_ARGS__))

/* The same for a chain that runs in a circle. */
pg_noreturn extern void lazy_circle(Relation index, BlockNumber block, uint32 bucket);

/* May the table, which is of the server's own kind, have this row? */
static inline bool
lazy_tid_within(const ItemPointerData *tid, BlockNumber heap_blocks)
{
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);

	return offset != InvalidOffsetNumber && offset <= MaxHeapTuplesPerPage &&
		ItemPointerGetBlockNumberNoCheck(tid) < heap_blocks;
}

/* Raises an error about an entry that points to no row that the table could have. */
pg_noreturn extern void lazy_wrong_tid(Relation index, BlockNumber block, Page page, int position);

/* Raises an error about a row that no entry can stand for. */
pg_noreturn extern void lazy_refuse_row(Relation index, const ItemPointerData *tid);

/* The top bit of an offset number is taken, for marking entries dead. */
static inline void
lazy_require_offset(Relation index, const ItemPointerData *tid)
{
	if (unlikely(tid->ip_posid & LAZY_DEAD_BIT))
		lazy_refuse_row(index, tid);
}

/* As lazy_page_lock, for the primary page of a bucket that exists. */
extern Buffer lazy_primary_lock(Relation index, uint32 bucket, int lockmode,
								BufferAccessStrategy strategy);

/* The same exclusively, but invalid if that would mean to wait. */
extern Buffer lazy_primary_trylock(Relation index, uint32 bucket);

/*
 * An overflow page of a bucket whose primary page the caller has locked, so that
 * the chain cannot change; anything else in that block is corruption.
 */
extern Buffer lazy_chain_lock(Relation index, BlockNumber block, uint32 bucket, int lockmode,
							  BufferAccessStrategy strategy);

/*
 * Raises an error if the page that a primary page names as its chain's last has
 * one after it.
 */
extern void lazy_require_tail(Relation index, Buffer primary, Buffer tail);

/*
 * The primary page, locked, of the bucket that a hash belongs to: looks in the
 * cached metapage, compares the stamp, refreshes and looks again until it is
 * true.
 */
extern Buffer lazy_bucket_lock(Relation index, uint32 hash, int lockmode, uint32 *bucket);

/* ---- hashing (chain.c) ---- */

extern uint32 lazy_hash_value(Relation index, Datum value);

/* ---- space (space.c) ---- */

/*
 * A block to be made an overflow page: from the free space map, else from
 * extending the relation.  Exclusively locked; *deletions is what the page that
 * is made of it must carry.  The caller may hold content locks of its bucket,
 * not the metapage, and calls lazy_space_flush() once it has let them go.
 */
extern Buffer lazy_overflow_new(Relation index, uint32 *deletions);

/*
 * Hands blocks that this backend has added beyond its needs to the free space
 * map.  Call without content locks.
 */
extern void lazy_space_flush(Relation index);

/* Puts a free page into the free space map.  Call without content locks. */
extern void lazy_space_freed(Relation index, BlockNumber block);

/*
 * Makes a free page of a block that lies in no phase and in no chain, if it is
 * a page of zeroes or one reserved for a phase that was never published.  True
 * when the page is free in the end; the map is not told.
 */
extern bool lazy_space_make_free(Relation index, BlockNumber block,
								 BufferAccessStrategy strategy);

/*
 * Makes the phases up to and including that of bucket, if need be.  Call
 * without content locks.  False when the index cannot grow that far.
 */
extern bool lazy_phase_ensure(Relation index, uint32 bucket);

/* ---- split.c ---- */

/*
 * Splits the next bucket if the rule says that it is due, or, with fullness,
 * if a page was found too full and the count justifies it.  Returns whether it
 * did.  Call without content locks.
 */
extern bool lazy_split_if_due(Relation index, bool fullness);

/*
 * One bounded step of the split that "bucket" (source or target) takes part in,
 * if it does.  Call without content locks.  True when there is more to do.
 */
extern bool lazy_split_step(Relation index, uint32 bucket);

/* Finishes the split that the bucket takes part in, if any. */
extern void lazy_split_complete(Relation index, uint32 bucket);

/* ---- squeeze.c ---- */

/*
 * Folds pages of the chain into their predecessors where they fit.  Returns the
 * number of pages freed.  Call without content locks; the bucket must not be
 * taking part in a split (it is skipped if it is).
 */
extern BlockNumber lazy_squeeze(Relation index, uint32 bucket, BufferAccessStrategy strategy);

/* ---- dead.c ---- */

/*
 * Removes entries of an exclusively locked page that bear the dead bit and that
 * the heap confirms.  Returns the number removed.  The primary page is locked
 * by the caller as well.
 */
extern int	lazy_dead_remove(Relation index, Relation heap, Buffer buffer);

/* ---- callbacks ---- */

extern bool lazy_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
						Relation heap, IndexUniqueCheck unique, bool unchanged,
						IndexInfo *info);
extern IndexBuildResult *lazy_build(Relation heap, Relation index, IndexInfo *info);
extern void lazy_build_empty(Relation index);
extern char *lazy_build_phase_name(int64 phase);
extern IndexBulkDeleteResult *lazy_bulk_delete(IndexVacuumInfo *info,
											   IndexBulkDeleteResult *stats,
											   IndexBulkDeleteCallback callback, void *state);
extern IndexBulkDeleteResult *lazy_vacuum_cleanup(IndexVacuumInfo *info,
												  IndexBulkDeleteResult *stats);
extern void lazy_cost_estimate(struct PlannerInfo *root, struct IndexPath *path,
							   double loop_count, Cost *startup, Cost *total,
							   Selectivity *selectivity, double *correlation, double *pages);
extern bool lazy_validate(Oid opclass);
extern void lazy_adjust_members(Oid family, Oid opclass, List *operators, List *functions);
extern IndexScanDesc lazy_begin_scan(Relation index, int nkeys, int norderbys);
extern void lazy_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys,
						int norderbys);
extern bool lazy_get_tuple(IndexScanDesc scan, ScanDirection direction);
extern int64 lazy_get_bitmap(IndexScanDesc scan, TIDBitmap *bitmap);
extern void lazy_end_scan(IndexScanDesc scan);

#endif							/* LAZY_ACCESS_LAZYHASH_H */

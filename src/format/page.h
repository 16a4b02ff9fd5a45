/*
 * page.h
 *		The bucket page: its layout, and the pure functions that read and change
 *		an image of it.
 *
 * Nothing here knows buffers, locks, WAL or relations: a page is BLCKSZ bytes of
 * memory.  The running server and WAL replay both change pages only through the
 * functions declared here (by way of op.h), so that each change has one
 * definition.
 *
 *	 0                                 pd_lower                         BLCKSZ
 *	 +--------+----------------+---------+----------+------- - - -+-----------+
 *	 | header | sorted prefix  | sorted  | the rest |    free     | special   |
 *	 | 24     | nsorted x 10   | runs    | unsorted |             | 40        |
 *	 +--------+----------------+---------+----------+------- - - -+-----------+
 *	                            \______ tail _______/
 *	           \_______ entries: {hash, tid}, 10 bytes ___/
 *
 * An insert appends one entry to the tail and moves nothing.  Every now and
 * then ("merge") the tail is sorted into the prefix.  Where moving so much is
 * dear, the tail alone is put in order, as runs of LAZY_RUN entries ("sort
 * runs").  Order is (hash, TID), a total order, so that two servers that sort
 * the same entries arrive at the same bytes.
 *
 * The ledger: "posted" says how many entries the metapage has been told of on
 * account of this page.  pending = entries - posted is what it will be told of
 * some day; the sum of "posted" over all pages is the metapage's ntuples,
 * always, crash or not.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_FORMAT_PAGE_H
#define LAZY_FORMAT_PAGE_H

#include "postgres.h"

#include "storage/bufpage.h"
#include "storage/itemptr.h"

/*
 * An entry.  The hash is kept in two halves because entries are packed at even
 * addresses only; read it with lazy_entry_hash().
 *
 * The top bit of the TID's offset number marks the entry dead.  It is a hint:
 * never logged, never read by anything that WAL replay does, and masked off in
 * every TID that leaves this room (lazy_entry_tid()).
 */
typedef struct LazyEntry
{
	uint16		hash_half[2];
	ItemPointerData tid;
} LazyEntry;

#define LAZY_DEAD_BIT		((OffsetNumber) 0x8000)

/* What lies at the end of every page but the metapage. */
typedef struct LazyPageSpecialData
{
	uint32		bucket;			/* bucket that the page belongs to */
	BlockNumber next;			/* next page of the chain, or invalid */
	BlockNumber tail;			/* primary: last page of the chain (itself, if alone) */
	uint32		stamp;			/* primary: maxbucket when last split or created */
	uint32		version;		/* primary: bumped when entries move within the chain, a page
								 * is unlinked, or a split begins */
	uint32		deletions;		/* bumped whenever entries depart; survives freeing and re-use */
	int32		posted;			/* entries that the metapage has been told of */
	BlockNumber split_next;		/* primary being split: first page of the chain that may still
								 * hold entries of the new bucket, or invalid */
	uint16		nsorted;		/* length of the sorted prefix */
	uint16		nruns;			/* number of sorted runs that follow it */
	uint16		flags;			/* kind and state, below */
	uint16		page_id;		/* LAZY_PAGE_ID */
} LazyPageSpecialData;

typedef LazyPageSpecialData *LazyPageSpecial;

/*
 * The metapage's special area ends in the same two fields, so that the last
 * four bytes of any page say what it is.
 */
typedef struct LazyMetaSpecialData
{
	uint32		unused;			/* zero */
	uint16		flags;			/* LAZY_KIND_META */
	uint16		page_id;		/* LAZY_PAGE_ID */
} LazyMetaSpecialData;

/*
 * Last two bytes of every page, for tools that look at a page without knowing
 * its relation.  Above nbtree's largest vacuum cycle id; not taken by another
 * access method of the server.
 */
#define LAZY_PAGE_ID			0xFFA7

/* flags: exactly one kind ... */
#define LAZY_KIND_META			0x0001
#define LAZY_KIND_PRIMARY		0x0002
#define LAZY_KIND_OVERFLOW		0x0004
#define LAZY_KIND_FREE			0x0008	/* may be taken as an overflow page */
#define LAZY_KIND_RESERVED		0x0010	/* last block of a phase, not yet a bucket */
#define LAZY_KIND_MASK			0x001F
/* ... and any state */
#define LAZY_BEING_SPLIT		0x0100	/* primary: entries are moving away to a new bucket */
#define LAZY_BEING_POPULATED	0x0200	/* primary: entries are arriving from the source bucket */
#define LAZY_HAS_DEAD			0x0400	/* hint: some entry bears the dead bit */
#define LAZY_FLAGS_ALL			(LAZY_KIND_MASK | LAZY_BEING_SPLIT | \
								 LAZY_BEING_POPULATED | LAZY_HAS_DEAD)

#define LAZY_PAGE_START			MAXALIGN(SizeOfPageHeaderData)
#define LAZY_SPECIAL_OFFSET		(BLCKSZ - MAXALIGN(sizeof(LazyPageSpecialData)))

/*
 * "posted" is never far from the number of entries; a value beyond this, either
 * way, is corruption, and within it no sum overflows.
 */
#define LAZY_POSTED_LIMIT		((int32) 1 << 30)

/* Entries of a sorted run of the tail: as many as a batch has by default. */
#define LAZY_RUN				64

/* Entries that a page can hold. */
#define LAZY_PAGE_CAPACITY \
	((int) ((LAZY_SPECIAL_OFFSET - LAZY_PAGE_START) / sizeof(LazyEntry)))

/* ---- reading an entry ---- */

static inline uint32
lazy_entry_hash(const LazyEntry *entry)
{
	uint32		hash;

	memcpy(&hash, entry->hash_half, sizeof(hash));
	return hash;
}

static inline bool
lazy_entry_is_dead(const LazyEntry *entry)
{
	return (entry->tid.ip_posid & LAZY_DEAD_BIT) != 0;
}

/* The heap TID, without the dead bit. */
static inline ItemPointerData
lazy_entry_tid(const LazyEntry *entry)
{
	ItemPointerData tid = entry->tid;

	tid.ip_posid &= ~LAZY_DEAD_BIT;
	return tid;
}

/*
 * The TID as one number that orders as (block, offset) does, without the dead
 * bit.
 */
static inline uint64
lazy_entry_tid_key(const LazyEntry *entry)
{
	return ((uint64) entry->tid.ip_blkid.bi_hi << 32) |
		((uint64) entry->tid.ip_blkid.bi_lo << 16) |
		(uint64) (entry->tid.ip_posid & ~LAZY_DEAD_BIT);
}

/* Order of entries: (hash, TID without its dead bit). */
static inline int
lazy_entry_compare(const LazyEntry *a, const LazyEntry *b)
{
	uint32		ahash = lazy_entry_hash(a);
	uint32		bhash = lazy_entry_hash(b);
	uint64		atid;
	uint64		btid;

	if (ahash != bhash)
		return ahash < bhash ? -1 : 1;
	atid = lazy_entry_tid_key(a);
	btid = lazy_entry_tid_key(b);
	return atid < btid ? -1 : (atid > btid ? 1 : 0);
}

static inline void
lazy_entry_set(LazyEntry *entry, uint32 hash, const ItemPointerData *tid)
{
	memcpy(entry->hash_half, &hash, sizeof(hash));
	entry->tid = *tid;
	entry->tid.ip_posid &= ~LAZY_DEAD_BIT;
}

/* Copies n entries without their dead bits: what moves between pages is clean. */
static inline void
lazy_entries_copy(LazyEntry *to, const LazyEntry *from, int n)
{
	for (int i = 0; i < n; i++)
	{
		to[i] = from[i];
		to[i].tid.ip_posid &= ~LAZY_DEAD_BIT;
	}
}

/* ---- reading a page ---- */

/*
 * The special area lies at a fixed place; lazy_page_problem() has compared
 * pd_special with it when the page was read.
 */
static inline LazyPageSpecial
lazy_special(Page page)
{
	return (LazyPageSpecial) ((char *) page + LAZY_SPECIAL_OFFSET);
}

static inline LazyEntry *
lazy_entries(Page page)
{
	return (LazyEntry *) ((char *) page + LAZY_PAGE_START);
}

static inline int
lazy_page_count(Page page)
{
	return (int) ((((PageHeader) page)->pd_lower - LAZY_PAGE_START) / sizeof(LazyEntry));
}

static inline int
lazy_page_room(Page page)
{
	return LAZY_PAGE_CAPACITY - lazy_page_count(page);
}

/* Where the part of the tail begins that is in no order. */
static inline int
lazy_page_unsorted(Page page)
{
	return lazy_special(page)->nsorted + lazy_special(page)->nruns * LAZY_RUN;
}

static inline int
lazy_page_pending(Page page)
{
	return lazy_page_count(page) - lazy_special(page)->posted;
}

static inline uint16
lazy_page_kind(Page page)
{
	return lazy_special(page)->flags & LAZY_KIND_MASK;
}

static inline bool
lazy_page_has(Page page, uint16 flag)
{
	return (lazy_special(page)->flags & flag) != 0;
}

/*
 * What is wrong with a page that is to be a bucket page (any kind but the
 * metapage), in words for an errdetail, or NULL.  After NULL all functions of
 * this room are safe on the page whatever its entries say.
 */
extern const char *lazy_page_problem(Page page);

/* The same of a combination of flags, any kind of page. */
extern const char *lazy_flags_problem(uint16 flags);

/* Has the page never been written to?  Cheap when it has. */
extern bool lazy_page_is_zeroes(Page page);

/*
 * Index of the first entry of the sorted prefix whose hash is >= hash (nsorted
 * if none).  Hash codes are uniform, so interpolation finds it in a probe or
 * two; with a poor hash function it takes at most twice the probes of a binary
 * search.
 */
extern int	lazy_page_lower_bound(Page page, uint32 hash);

/*
 * Writes the positions of all entries with this hash into positions[] (room
 * for LAZY_PAGE_CAPACITY), ascending, and returns their number.
 */
extern int	lazy_page_find(Page page, uint32 hash, uint16 *positions);

/*
 * Position of the entry with this hash and TID, or -1.
 */
extern int	lazy_page_find_entry(Page page, uint32 hash, const ItemPointerData *tid);

/*
 * Number of entries whose hash, under mask, equals value; their positions, if
 * positions is not NULL.
 */
extern int	lazy_page_matching(Page page, uint32 mask, uint32 value, uint16 *positions);

/*
 * Positions of entries that bear the dead bit; their number.  Not for replay.
 */
extern int	lazy_page_dead(Page page, uint16 *positions);

/* Is the entry at this position where a sorted prefix or run begins, or unsorted? */
static inline bool
lazy_page_order_begins(Page page, int position)
{
	int			nsorted = lazy_special(page)->nsorted;

	if (position < nsorted)
		return position == 0;
	return position >= lazy_page_unsorted(page) || (position - nsorted) % LAZY_RUN == 0;
}

/* Is the sorted prefix, and each sorted run, in order? */
extern bool lazy_page_in_order(Page page);

/* Sorts an array of entries by (hash, TID). */
extern void lazy_entries_sort(LazyEntry *entries, int n);

/* The same of up to a page of them, into another array that does not overlap. */
extern void lazy_entries_sort_to(LazyEntry *to, const LazyEntry *from, int n);

/* ---- changing a page ---- */

/*
 * Makes an empty page of the kind that flags name.  Alone in its chain: next
 * invalid, tail as given.
 */
extern void lazy_page_init(Page page, uint16 flags, uint32 bucket, BlockNumber tail,
						   uint32 stamp, uint32 version, uint32 deletions);

/* Appends to the tail.  Needs room for n. */
extern void lazy_page_append(Page page, const LazyEntry *entries, int n);

/*
 * Appends sorted entries to a page that is sorted altogether and whose last
 * entry sorts before them: the page stays sorted.  Needs room for n.
 */
extern void lazy_page_append_sorted(Page page, const LazyEntry *entries, int n);

/* Sorts the tail into the prefix. */
extern void lazy_page_merge(Page page);

/* Makes sorted runs of the part of the tail that is in no order, as far as it goes. */
extern void lazy_page_sort_runs(Page page);

/*
 * Removes the entries at these positions (ascending, each below the count).
 */
extern void lazy_page_remove(Page page, const uint16 *positions, int n);

/* Removes all entries whose hash, under mask, equals value. */
extern void lazy_page_remove_matching(Page page, uint32 mask, uint32 value);

/*
 * Empties the page and makes it free.  Its count of deletions is kept, plus
 * one; whoever re-uses the page hands it on.
 */
extern void lazy_page_free(Page page);

#endif							/* LAZY_FORMAT_PAGE_H */

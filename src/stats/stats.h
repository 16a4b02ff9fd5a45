/*
 * stats.h
 *		Counting what happens to each index, for pg_stat_lazyhash.
 *
 * Each backend counts for itself, and adds what it has counted to shared memory
 * at the end of each transaction, and within a long one once in so many inserts.
 * No counter that backends share is touched while pages are locked.
 *
 *		one backend									shared memory
 *
 *		recent[index % 16]							slots: (database, index)
 *			|
 *			v
 *		LazyStats  +------------------------+		+------------------------+
 *				   | inserts postings ...   | ==>	| inserts postings ...   |
 *				   +------------------------+		+------------------------+
 *
 * The shared memory is there when the library was preloaded, and on PostgreSQL
 * 17 and later without that as well.  Where there is none, counting costs the
 * same few instructions and leads to nothing.  Counters start at zero when the
 * server does.
 *
 * This room knows nothing of pages, and of indexes no more than their OID.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_STATS_STATS_H
#define LAZY_STATS_STATS_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/rel.h"

typedef enum LazyCounter
{
	LAZY_INSERTS,				/* entries added by inserts */
	LAZY_POSTINGS,				/* inserts that took the metapage, to tell it of a page's count */
	LAZY_SPLITS,				/* buckets split */
	LAZY_SPLITS_SKIPPED,		/* splits found made by another backend meanwhile */
	LAZY_OVERFLOW_ADDED,		/* overflow pages added to chains */
	LAZY_OVERFLOW_FREED,		/* overflow pages taken out of chains */
	LAZY_PHASES_ADDED,			/* runs of primary pages added to the file */
	LAZY_DEAD_REMOVED,			/* dead entries removed by inserts in need of room */
	LAZY_VACUUM_REMOVED,		/* entries removed by VACUUM */
	LAZY_SCAN_RESTARTS,			/* lookups that began anew because the chain had changed */
	LAZY_CACHE_REFRESHES,		/* times that a backend read the metapage into its cache */
	LAZY_NCOUNTERS
} LazyCounter;

/* What a backend has counted for one index and not yet added to shared memory. */
typedef struct LazyStats
{
	Oid			index;			/* first, for it is the key */
	int			slot;			/* in shared memory: where it was last found */
	bool		pending;		/* is it in the list? */
	struct LazyStats *next;
	uint64		count[LAZY_NCOUNTERS];
} LazyStats;

/* ---- counting (count.c) ---- */

/* The indexes counted last, by their OIDs' low bits: those of a table differ in these. */
#define LAZY_STATS_RECENT		16

extern LazyStats *lazy_stats_recent[LAZY_STATS_RECENT];
extern LazyStats *lazy_stats_find(Oid index);

/* Inserts of a transaction after which it adds what it has counted. */
#define LAZY_STATS_BATCH		4096

static inline LazyStats *
lazy_stats(Relation index)
{
	Oid			oid = RelationGetRelid(index);
	LazyStats  *stats = lazy_stats_recent[oid % LAZY_STATS_RECENT];

	return likely(stats->index == oid) ? stats : lazy_stats_find(oid);
}

/* May be called with pages locked, but not in a critical section. */
static inline void
lazy_count(Relation index, LazyCounter counter, uint64 n)
{
	lazy_stats(index)->count[counter] += n;
}

extern void lazy_stats_init(void);

/* Adds what this backend has counted to shared memory.  Call without content locks. */
extern void lazy_stats_flush(void);

/* Counts an insert that is done.  Call without content locks. */
static inline void
lazy_count_insert(Relation index)
{
	if (unlikely(++lazy_stats(index)->count[LAZY_INSERTS] % LAZY_STATS_BATCH == 0))
		lazy_stats_flush();
}

/* ---- shared memory (shared.c) ---- */

/* What all backends have counted for one index. */
typedef struct LazyStatsRow
{
	Oid			database;
	Oid			index;
	TimestampTz since;			/* when counting began */
	uint64		count[LAZY_NCOUNTERS];
} LazyStatsRow;

extern void lazy_stats_shared_init(void);

/* Is there, or could there be, shared memory to add to? */
extern bool lazy_stats_wanted(void);

/* Has this backend got at it already?  If so, adding to it raises no error. */
extern bool lazy_stats_attached(void);

/* Gets at it; false if there is none.  Call without any lightweight lock. */
extern bool lazy_stats_attach(void);

/*
 * The rest asks that this backend has attached.
 */

/* Adds the counts of a list of this database's indexes, and sets them to zero. */
extern void lazy_stats_add(LazyStats *list);

/* Copies what there is for all indexes of all databases; returns how many. */
extern int	lazy_stats_copy(LazyStatsRow **rows);

/* Sets to zero what was counted for an index, or for all, of this database. */
extern void lazy_stats_reset(Oid index);

/* Gives up the slot of an index that is no more. */
extern void lazy_stats_forget(Oid database, Oid index);

#endif							/* LAZY_STATS_STATS_H */

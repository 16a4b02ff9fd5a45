/*
 * meta.h
 *		The metapage, and the arithmetic of linear hashing: which bucket a hash
 *		belongs to, which block a bucket lies in, when the next bucket is due.
 *
 * Pure functions in whole numbers: no division on any path that an insert or a
 * lookup takes, no floating point anywhere.  The rule that sizes a new index
 * (lazy_buckets_for) is derived from the rule that grows it (lazy_split_due).
 *
 * Linear hashing.  Buckets are numbered 0..maxbucket.  A hash belongs to bucket
 * hash & highmask, or, if that bucket does not exist yet, hash & lowmask.  The
 * next bucket to come is maxbucket + 1; its entries come out of one bucket, the
 * one with the same number less its top bit.
 *
 * Phases.  The blocks of primary pages come in runs, "phases": the first
 * LAZY_PHASES_PER_DOUBLING buckets have a phase each, and each doubling after
 * that is cut into LAZY_PHASES_PER_DOUBLING phases of equal length:
 *
 *		bucket	0 1 2 ... 63 | 64 | 65 | ... | 127 | 128 129 | 130 131 | ...
 *		phase	0 1 2 ... 63 | 64 | 65 | ... | 127 |   128   |   129   | ...
 *
 * so an index grows by about a 64th of itself at a time.  The metapage tells
 * the first block of each phase.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_FORMAT_META_H
#define LAZY_FORMAT_META_H

#include "postgres.h"

#include "port/pg_bitutils.h"
#include "storage/block.h"
#include "storage/bufpage.h"

#include "page.h"

#define LAZY_METAPAGE		((BlockNumber) 0)
#define LAZY_MAGIC			0x4C7A4861	/* "LzHa" */
#define LAZY_VERSION		1

/*
 * ntuples beyond this, either way, is corruption (it may be a little below zero:
 * removals may be posted before the inserts of the same rows are).
 */
#define LAZY_NTUPLES_LIMIT	((int64) 1 << 48)

/* Most buckets that an index can have; bucket numbers stay below it. */
#define LAZY_MAX_BUCKETS	((uint64) 1 << 31)

/*
 * Phases a doubling: a power of two, as large as the metapage has room for at
 * this BLCKSZ, at most 64.
 */
#if BLCKSZ >= 8192
#define LAZY_PHASE_BITS		6
#elif BLCKSZ >= 4096
#define LAZY_PHASE_BITS		5
#elif BLCKSZ >= 2048
#define LAZY_PHASE_BITS		4
#else
#define LAZY_PHASE_BITS		3
#endif
#define LAZY_PHASES_PER_DOUBLING	(1 << LAZY_PHASE_BITS)
#define LAZY_MAX_PHASES		(LAZY_PHASES_PER_DOUBLING * (1 + 31 - LAZY_PHASE_BITS))

typedef struct LazyMetaData
{
	uint32		magic;
	uint32		version;		/* of the on-disk format */
	uint32		features;		/* LAZY_FEATURE_*, 0 for now; unknown ones are refused */
	uint32		ffactor;		/* entries that a bucket should hold */
	int64		ntuples;		/* sum of "posted" over all pages */
	uint32		maxbucket;		/* highest bucket number in use */
	uint32		highmask;		/* mask of the doubling under way */
	uint32		lowmask;		/* mask of the one before */
	uint32		nphases;		/* phases that exist */
	BlockNumber phase_start[LAZY_MAX_PHASES];	/* first block of each */
} LazyMetaData;

static inline LazyMetaData *
lazy_meta(Page page)
{
	return (LazyMetaData *) PageGetContents(page);
}

/* ---- hash to bucket ---- */

static inline uint32
lazy_highmask(uint32 maxbucket)
{
	if (maxbucket == 0)
		return 0;
	return (uint32) (((uint64) 1 << (pg_leftmost_one_pos32(maxbucket) + 1)) - 1);
}

static inline uint32
lazy_lowmask(uint32 maxbucket)
{
	return lazy_highmask(maxbucket) >> 1;
}

static inline uint32
lazy_bucket_of(uint32 hash, uint32 maxbucket, uint32 highmask, uint32 lowmask)
{
	uint32		bucket = hash & highmask;

	return bucket <= maxbucket ? bucket : (bucket & lowmask);
}

/* The bucket that a new bucket takes its entries from.  Needs bucket > 0. */
static inline uint32
lazy_source_bucket(uint32 bucket)
{
	return bucket ^ ((uint32) 1 << pg_leftmost_one_pos32(bucket));
}

/*
 * The bucket that a bucket being split gives entries to, when maxbucket was
 * "stamp" as the split began: the newest one.  It is the stamp itself.
 */
static inline uint32
lazy_split_target(uint32 stamp)
{
	return stamp;
}

/* ---- bucket to block ---- */

static inline uint32
lazy_bucket_phase(uint32 bucket, uint32 *offset)
{
	int			doubling;
	int			shift;
	uint32		within;

	if (bucket < LAZY_PHASES_PER_DOUBLING)
	{
		*offset = 0;
		return bucket;
	}
	doubling = pg_leftmost_one_pos32(bucket);
	shift = doubling - LAZY_PHASE_BITS;
	within = bucket ^ ((uint32) 1 << doubling);
	*offset = within & (((uint32) 1 << shift) - 1);
	return ((uint32) (shift + 1) << LAZY_PHASE_BITS) + (within >> shift);
}

/* First bucket of a phase. */
extern uint32 lazy_phase_first_bucket(uint32 phase);

/* Number of buckets, hence blocks, of a phase. */
extern uint32 lazy_phase_length(uint32 phase);

/*
 * Block of a bucket, or InvalidBlockNumber when its phase does not exist.
 */
static inline BlockNumber
lazy_bucket_block(uint32 bucket, const BlockNumber *phase_start, uint32 nphases)
{
	uint32		offset;
	uint32		phase = lazy_bucket_phase(bucket, &offset);

	return phase < nphases ? phase_start[phase] + offset : InvalidBlockNumber;
}

/* ---- size ---- */

/* Entries that a bucket should hold, at a fill factor in percent. */
static inline uint32
lazy_ffactor(int fillfactor)
{
	uint32		ffactor = (uint32) LAZY_PAGE_CAPACITY * (uint32) fillfactor / 100;

	return Max(ffactor, 1);
}

/* Is the next bucket due?  The one rule, for growing and for building. */
static inline bool
lazy_split_due(int64 ntuples, uint32 maxbucket, uint32 ffactor)
{
	return ntuples > (int64) ffactor * ((int64) maxbucket + 1);
}

/*
 * May an overflow page, the local sign, bring on the next bucket before the
 * count does?  Only while buckets hold a third of a page on the average:
 * otherwise chains of equal keys, which no split can shorten, would make the
 * index grow for ever.
 */
static inline bool
lazy_split_justified(int64 ntuples, uint32 maxbucket)
{
	return 3 * ntuples >= (int64) LAZY_PAGE_CAPACITY * ((int64) maxbucket + 1);
}

/*
 * Number of buckets (at least 1) for an index built with ntuples entries, such
 * that the next insert brings on no split.  As the buckets that the current
 * doubling has not split yet come near to overflowing their pages, more of them
 * are split, up to all: buckets that overflow take the pages anyway, and split
 * in two, each lookup reads one.
 */
extern uint32 lazy_buckets_for(int64 ntuples, uint32 ffactor);

/* ---- the page ---- */

/*
 * Makes the metapage of an index with maxbucket + 1 buckets whose first phases
 * lie in block order from block 1 on.
 */
extern void lazy_meta_init(Page page, uint32 ffactor, uint32 maxbucket, int64 ntuples);

/* Makes maxbucket the highest bucket. */
extern void lazy_meta_set_maxbucket(Page page, uint32 maxbucket);

/* Publishes the next phase.  Needs phase == nphases < LAZY_MAX_PHASES. */
extern void lazy_meta_add_phase(Page page, BlockNumber start);

/*
 * What is wrong with a page that is to be the metapage, in words for an
 * errdetail, or NULL.  *newer is set when the trouble is only a version or a
 * feature that this library does not know.
 */
extern const char *lazy_meta_problem(Page page, bool *newer);

/* The same without a look at each phase: enough for memory to be safe. */
extern const char *lazy_meta_header_problem(Page page, bool *newer);

#endif							/* LAZY_FORMAT_META_H */

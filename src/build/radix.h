/*
 * radix.h
 *		Distribution of entries by bucket, in memory.
 *
 * A radix sees the buckets of an index as slots of 2^shift neighbouring
 * buckets each, from slot "first" on.  The same description serves for the
 * partitions of a spill file, for the coarse and for the fine distribution in
 * memory.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_BUILD_RADIX_H
#define LAZY_BUILD_RADIX_H

#include "postgres.h"

#include "../format/meta.h"
#include "../format/page.h"

typedef struct LazyRadix
{
	uint32		maxbucket;
	uint32		highmask;
	uint32		lowmask;
	int			shift;			/* log2 of the buckets of a slot */
	uint32		first;			/* first slot */
	uint32		nslots;
} LazyRadix;

/* Slots of 2^shift buckets that together cover the buckets low..high. */
static inline void
lazy_radix_init(LazyRadix *radix, uint32 maxbucket, uint32 low, uint32 high, int shift)
{
	Assert(low <= high && high <= maxbucket);

	radix->maxbucket = maxbucket;
	radix->highmask = lazy_highmask(maxbucket);
	radix->lowmask = lazy_lowmask(maxbucket);
	radix->shift = shift;
	radix->first = low >> shift;
	radix->nslots = (high >> shift) - radix->first + 1;
}

static inline uint32
lazy_radix_bucket(const LazyRadix *radix, uint32 hash)
{
	return lazy_bucket_of(hash, radix->maxbucket, radix->highmask, radix->lowmask);
}

static inline uint32
lazy_radix_slot(const LazyRadix *radix, uint32 hash)
{
	return (lazy_radix_bucket(radix, hash) >> radix->shift) - radix->first;
}

/*
 * Copies n entries, all of them in the radix's slots, in order of their slots;
 * the order within a slot stays.  Slot i comes to lie at to[start[i]] up to
 * to[start[i + 1]]; start has room for nslots + 1.
 */
extern void lazy_radix_distribute(const LazyRadix *radix, const LazyEntry *from,
								  LazyEntry *to, Size n, Size *start);

#endif							/* LAZY_BUILD_RADIX_H */

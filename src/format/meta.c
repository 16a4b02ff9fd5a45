/*
 * meta.c
 *		The metapage, and the arithmetic of linear hashing that is not on the
 *		path of an insert or a lookup.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "meta.h"

/* ---- phases ---- */

uint32
lazy_phase_first_bucket(uint32 phase)
{
	uint32		doubling = phase >> LAZY_PHASE_BITS;
	uint32		within = phase & (LAZY_PHASES_PER_DOUBLING - 1);

	if (doubling == 0)
		return phase;
	return (LAZY_PHASES_PER_DOUBLING + within) << (doubling - 1);
}

uint32
lazy_phase_length(uint32 phase)
{
	uint32		doubling = phase >> LAZY_PHASE_BITS;

	return doubling == 0 ? 1 : (uint32) 1 << (doubling - 1);
}

/* ---- size ---- */

/*
 * The number of entries of a bucket scatters about its mean as a Poisson
 * variable does.  This is twice the standard deviation of a bucket that fills a
 * page, rounded up.
 */
static uint64
bucket_spread(void)
{
	uint64		spread = 1;

	while (spread * spread < 4 * LAZY_PAGE_CAPACITY)
		spread++;
	return spread;
}

/*
 * How many of the 2^k buckets of a completed doubling may stay unsplit when
 * each holds so many entries on the average?
 *
 * A lookup in an unsplit bucket reads a second page with the probability that
 * the bucket has overflowed: 1 in 44 when the mean is two standard deviations
 * short of a full page, 1 in 2 when it has come up to it.  The cube of the
 * distance falls faster than the probability rises, so that at most about 1
 * lookup in 40 reads a second page, whatever the number of entries.
 */
static uint64
may_stay_unsplit(int doubling, uint64 mean)
{
	uint64		spread = bucket_spread();
	uint64		distance;

	if (mean >= LAZY_PAGE_CAPACITY)
		return 0;
	distance = LAZY_PAGE_CAPACITY - mean;
	if (distance >= spread)
		return (uint64) 1 << doubling;
	return (distance * distance * distance << doubling) / (spread * spread * spread);
}

uint32
lazy_buckets_for(int64 ntuples, uint32 ffactor)
{
	uint64		n = (uint64) Max(ntuples, 0);
	uint64		nbuckets;

	Assert(ffactor >= 1 && ffactor <= LAZY_PAGE_CAPACITY);

	/* The fewest for which lazy_split_due() says no to one entry more. */
	if (n / ffactor >= LAZY_MAX_BUCKETS)
		return (uint32) LAZY_MAX_BUCKETS;
	nbuckets = n / ffactor + 1;

	/*
	 * Split what would overflow otherwise.  With a fill factor near 100 a
	 * second round may be needed, for a doubling completed by the first.
	 */
	while (nbuckets < LAZY_MAX_BUCKETS)
	{
		int			doubling = pg_leftmost_one_pos64(nbuckets);
		uint64		completed = (uint64) 1 << doubling;
		uint64		mean = (n + completed - 1) >> doubling;
		uint64		least = 2 * completed - may_stay_unsplit(doubling, mean);

		if (nbuckets >= least)
			break;
		nbuckets = least;
	}
	return (uint32) nbuckets;
}

/* ---- the page ---- */

static inline LazyMetaSpecialData *
meta_special(Page page)
{
	return (LazyMetaSpecialData *)
		((char *) page + BLCKSZ - MAXALIGN(sizeof(LazyMetaSpecialData)));
}

void
lazy_meta_init(Page page, uint32 ffactor, uint32 maxbucket, int64 ntuples)
{
	LazyMetaData *meta;
	uint32		offset;

	Assert(ffactor >= 1 && ffactor <= LAZY_PAGE_CAPACITY);
	Assert(maxbucket < LAZY_MAX_BUCKETS);

	PageInit(page, BLCKSZ, sizeof(LazyMetaSpecialData));
	meta_special(page)->flags = LAZY_KIND_META;
	meta_special(page)->page_id = LAZY_PAGE_ID;

	meta = lazy_meta(page);
	meta->magic = LAZY_MAGIC;
	meta->version = LAZY_VERSION;
	meta->ffactor = ffactor;
	meta->ntuples = ntuples;
	meta->maxbucket = maxbucket;
	meta->highmask = lazy_highmask(maxbucket);
	meta->lowmask = lazy_lowmask(maxbucket);
	meta->nphases = lazy_bucket_phase(maxbucket, &offset) + 1;
	for (uint32 phase = 0; phase < meta->nphases; phase++)
		meta->phase_start[phase] = LAZY_METAPAGE + 1 + lazy_phase_first_bucket(phase);

	/* Past all that may ever be in use: replay zeroes what lies beyond. */
	((PageHeader) page)->pd_lower = LAZY_PAGE_START + sizeof(LazyMetaData);
}

void
lazy_meta_set_maxbucket(Page page, uint32 maxbucket)
{
	LazyMetaData *meta = lazy_meta(page);

	Assert(lazy_bucket_block(maxbucket, meta->phase_start, meta->nphases) != InvalidBlockNumber);

	meta->maxbucket = maxbucket;
	meta->highmask = lazy_highmask(maxbucket);
	meta->lowmask = lazy_lowmask(maxbucket);
}

void
lazy_meta_add_phase(Page page, BlockNumber start)
{
	LazyMetaData *meta = lazy_meta(page);

	Assert(meta->nphases < LAZY_MAX_PHASES);

	meta->phase_start[meta->nphases++] = start;
}

/* Of what a page of any version must have in common with ours. */
static const char *
identity_problem(Page page, bool *newer)
{
	LazyMetaData *meta = lazy_meta(page);

	if (lazy_page_is_zeroes(page))
		return "page is all zeroes";
	if (meta_special(page)->page_id != LAZY_PAGE_ID)
		return "page does not bear the mark of a lazyhash page";
	if (meta_special(page)->flags != LAZY_KIND_META)
		return "page is not a metapage";
	if (meta->magic != LAZY_MAGIC)
		return "metapage has the wrong magic number";
	if (meta->version > LAZY_VERSION)
	{
		*newer = true;
		return "index was made by a version of lazyhash that is newer than this library";
	}
	if (meta->version != LAZY_VERSION)
		return "metapage has an invalid version number";
	if (meta->features != 0)
	{
		*newer = true;
		return "index has features that this library does not know";
	}
	return NULL;
}

const char *
lazy_meta_header_problem(Page page, bool *newer)
{
	PageHeader	header = (PageHeader) page;
	LazyMetaData *meta = lazy_meta(page);
	const char *problem;
	uint32		offset;

	*newer = false;
	if ((problem = identity_problem(page, newer)) != NULL)
		return problem;
	if (header->pd_special != BLCKSZ - MAXALIGN(sizeof(LazyMetaSpecialData)) ||
		header->pd_upper != header->pd_special)
		return "special area is not where it should be";
	if (header->pd_lower != LAZY_PAGE_START + sizeof(LazyMetaData))
		return "metapage's data do not end where they should";
	if (meta->ffactor < 1 || meta->ffactor > LAZY_PAGE_CAPACITY)
		return "metapage has an invalid fill factor";
	if (meta->ntuples > LAZY_NTUPLES_LIMIT || meta->ntuples < -LAZY_NTUPLES_LIMIT)
		return "metapage's number of entries is out of range";
	if (meta->maxbucket >= LAZY_MAX_BUCKETS)
		return "metapage has too many buckets";
	if (meta->highmask != lazy_highmask(meta->maxbucket) ||
		meta->lowmask != lazy_lowmask(meta->maxbucket))
		return "metapage's masks do not go with its number of buckets";
	if (meta->nphases > LAZY_MAX_PHASES)
		return "metapage has too many phases";
	if (lazy_bucket_phase(meta->maxbucket, &offset) >= meta->nphases)
		return "metapage lacks the phase of its last bucket";
	return NULL;
}

/*
 * Phases are made at the end of the file, so each lies behind the one before:
 * no two buckets share a block, and none has the metapage's.
 */
const char *
lazy_meta_problem(Page page, bool *newer)
{
	LazyMetaData *meta = lazy_meta(page);
	const char *problem = lazy_meta_header_problem(page, newer);
	uint64		end = LAZY_METAPAGE + 1;

	if (problem != NULL)
		return problem;
	for (uint32 phase = 0; phase < meta->nphases; phase++)
	{
		if (meta->phase_start[phase] < end)
			return "metapage has a phase that does not begin behind the one before";
		end = (uint64) meta->phase_start[phase] + lazy_phase_length(phase);
	}
	return end <= MaxBlockNumber ? NULL : "metapage has a phase that does not end";
}

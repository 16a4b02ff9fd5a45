/*
 * test_meta.c
 *		Tests of src/format/meta.h and meta.c: linear hashing against a model
 *		that moves entries about, phases, sizing, and the metapage.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include <math.h>

#include "unit.h"

#define P	LAZY_PHASES_PER_DOUBLING

/* ---- linear hashing ---- */

/*
 * The model: every hash in a bucket, from one bucket on; each new bucket takes
 * those of its source that have the new bit.  The bit is found by counting.
 */
static void
test_bucket_of(void)
{
	enum {NHASHES = 500, NBUCKETS = 1100};
	uint32		hash[NHASHES];
	uint32		home[NHASHES];
	uint32		bit = 1;

	for (int i = 0; i < NHASHES; i++)
	{
		hash[i] = random_hash(i % 3 == 0 ? HASH_BUCKET : HASH_UNIFORM);
		home[i] = 0;
	}
	for (uint32 maxbucket = 0; maxbucket < NBUCKETS; maxbucket++)
	{
		uint32		highmask = lazy_highmask(maxbucket);
		uint32		lowmask = lazy_lowmask(maxbucket);

		if (maxbucket == 2 * bit)
			bit *= 2;
		if (maxbucket > 0)
		{
			CHECK(lazy_source_bucket(maxbucket) == maxbucket - bit);
			CHECK(lazy_split_target(maxbucket) == maxbucket);
			for (int i = 0; i < NHASHES; i++)
			{
				if (home[i] == maxbucket - bit && (hash[i] & bit) != 0)
					home[i] = maxbucket;
			}
		}
		for (int i = 0; i < NHASHES; i++)
			CHECK(lazy_bucket_of(hash[i], maxbucket, highmask, lowmask) == home[i]);
	}
}

/* At the largest sizes: all in range, and the split moves by one bit only. */
static void
test_bucket_of_large(void)
{
	for (int i = 0; i < 100000; i++)
	{
		uint32		maxbucket = 1 + random_below((uint32) LAZY_MAX_BUCKETS - 1);
		uint32		hash = random32();
		uint32		now;
		uint32		before;

		if (i % 10 == 0)
			maxbucket = (uint32) LAZY_MAX_BUCKETS - 1 - random_below(3);
		if (i % 3 == 0)
			hash = maxbucket | (hash & 0x80000000);
		now = lazy_bucket_of(hash, maxbucket, lazy_highmask(maxbucket), lazy_lowmask(maxbucket));
		before = lazy_bucket_of(hash, maxbucket - 1, lazy_highmask(maxbucket - 1),
								lazy_lowmask(maxbucket - 1));
		CHECK(now <= maxbucket);
		CHECK(now == before ||
			  (now == maxbucket && before == lazy_source_bucket(maxbucket)));
		if (i % 3 == 0)
			CHECK(now == maxbucket);
	}
	CHECK(lazy_highmask((uint32) LAZY_MAX_BUCKETS - 1) == 0x7FFFFFFF);
	CHECK(lazy_lowmask((uint32) LAZY_MAX_BUCKETS - 1) == 0x3FFFFFFF);
}

/* ---- phases ---- */

static void
test_phases(void)
{
	uint64		next = 0;

	for (uint32 phase = 0; phase < LAZY_MAX_PHASES; phase++)
	{
		uint32		first = lazy_phase_first_bucket(phase);
		uint32		length = lazy_phase_length(phase);
		uint32		offset;

		CHECK(first == next);
		CHECK(length >= 1);
		/* no more than a P-th of what there was before */
		CHECK(phase < P || (uint64) length * P <= first);
		CHECK(lazy_bucket_phase(first, &offset) == phase && offset == 0);
		CHECK(lazy_bucket_phase(first + length - 1, &offset) == phase && offset == length - 1);
		for (int i = 0; i < 20; i++)
		{
			uint32		within = random_below(length);

			CHECK(lazy_bucket_phase(first + within, &offset) == phase && offset == within);
		}
		next += length;
	}
	CHECK(next == LAZY_MAX_BUCKETS);
}

static void
test_blocks(void)
{
	enum {NBUCKETS = 70000};
	static BlockNumber phase_start[LAZY_MAX_PHASES];
	static uint8 taken[2 * NBUCKETS + 2 * LAZY_MAX_PHASES];
	uint32		nphases = 0;
	BlockNumber end = 1;
	uint32		offset;

	/* Phases in block order, with overflow pages in between. */
	memset(taken, 0, sizeof(taken));
	while (lazy_phase_first_bucket(nphases) < NBUCKETS)
	{
		end += random_below(3);
		phase_start[nphases] = end;
		end += lazy_phase_length(nphases++);
	}
	for (uint32 bucket = 0; bucket < NBUCKETS; bucket++)
	{
		BlockNumber block = lazy_bucket_block(bucket, phase_start, nphases);
		uint32		phase = lazy_bucket_phase(bucket, &offset);

		CHECK(block >= phase_start[phase]);
		CHECK(block < phase_start[phase] + lazy_phase_length(phase));
		CHECK(block < lengthof(taken) && taken[block]++ == 0);
	}
	CHECK(lazy_bucket_block(lazy_phase_first_bucket(nphases) - 1, phase_start, nphases) == end - 1);
	CHECK(lazy_bucket_block(lazy_phase_first_bucket(nphases), phase_start, nphases) ==
		  InvalidBlockNumber);
	CHECK(lazy_bucket_block((uint32) LAZY_MAX_BUCKETS - 1, phase_start, nphases) ==
		  InvalidBlockNumber);
}

/* ---- size ---- */

static const int fillfactors[] = {10, 30, 50, 60, 75, 90, 95, 100};

static void
check_size(int64 n, uint32 ffactor)
{
	uint32		nbuckets = lazy_buckets_for(n, ffactor);

	CHECK(nbuckets >= 1);
	CHECK(!lazy_split_due(n + 1, nbuckets - 1, ffactor));
	CHECK(nbuckets <= lazy_buckets_for(n + 1, ffactor));
}

static void
test_no_split_after_build(void)
{
	for (int64 n = 0; n <= 200000; n++)
		check_size(n, lazy_ffactor(75));
	for (int i = 0; i < (int) lengthof(fillfactors); i++)
	{
		uint32		ffactor = lazy_ffactor(fillfactors[i]);
		int64		most = (int64) ffactor * ((int64) LAZY_MAX_BUCKETS - 1);

		for (int64 n = i; n <= 200000; n += lengthof(fillfactors))
			check_size(n, ffactor);
		for (int j = 0; j < 20000; j++)
			check_size((int64) (random64() % most), ffactor);
		for (int j = 0; j < 20000; j++)
			check_size((int64) (random64() % ((uint64) 1 << random_below(34))), ffactor);
		/* about each power of two of buckets */
		for (int k = 0; k < 31; k++)
		{
			for (int64 n = Max(((int64) ffactor << k) - 3, 0); n < ((int64) ffactor << k) + 3; n++)
				check_size(n, ffactor);
		}
	}
	/* a bucket for each entry, as many as there can be */
	for (int64 n = 0; n < 1000; n++)
		check_size(n, 1);
}

/* Without the rule for overflow, there is not a bucket too many. */
static void
test_smallest(void)
{
	uint32		ffactor = lazy_ffactor(30);

	CHECK(lazy_buckets_for(0, ffactor) == 1);
	CHECK(lazy_buckets_for(ffactor - 1, ffactor) == 1);
	CHECK(lazy_buckets_for(ffactor, ffactor) == 2);
	for (int64 n = ffactor; n < 100000; n++)
	{
		uint32		nbuckets = lazy_buckets_for(n, ffactor);

		CHECK(lazy_split_due(n + 1, nbuckets - 2, ffactor));
	}
}

static void
test_largest(void)
{
	for (int i = 0; i < (int) lengthof(fillfactors); i++)
	{
		uint32		ffactor = lazy_ffactor(fillfactors[i]);

		CHECK(lazy_buckets_for(PG_INT64_MAX, ffactor) == LAZY_MAX_BUCKETS);
		CHECK(lazy_buckets_for(PG_INT64_MAX, 1) == LAZY_MAX_BUCKETS);
		CHECK(lazy_buckets_for((int64) ffactor * (int64) LAZY_MAX_BUCKETS, ffactor) ==
			  LAZY_MAX_BUCKETS);
		CHECK(lazy_buckets_for((int64) ffactor * (int64) LAZY_MAX_BUCKETS - 1, ffactor) ==
			  LAZY_MAX_BUCKETS);
		CHECK(lazy_buckets_for(PG_INT64_MIN, ffactor) == 1);
		CHECK(lazy_buckets_for(-1, ffactor) == 1);
		CHECK(!lazy_split_due(PG_INT64_MIN, 0, ffactor));
		CHECK(lazy_split_due(PG_INT64_MAX, (uint32) LAZY_MAX_BUCKETS - 1, ffactor));
		CHECK(!lazy_split_justified(0, 0));
	}
	CHECK(lazy_ffactor(100) == LAZY_PAGE_CAPACITY);
	CHECK(lazy_split_justified(LAZY_PAGE_CAPACITY, 2));
	CHECK(!lazy_split_justified(LAZY_PAGE_CAPACITY - 1, 2));
}

/*
 * Pages, beyond the first, of buckets that hold a Poisson number of entries: on
 * the average of buckets (weighted = false), or of lookups, which find a bucket
 * the more likely the more entries it has.
 */
static double
extra_pages(double mean, bool weighted)
{
	double		extra = 0;

	for (int k = (int) fmax(0, mean - 12 * sqrt(mean) - 10);
		 k < mean + 12 * sqrt(mean) + 50; k++)
	{
		double		p = exp(k * log(mean) - mean - lgamma(k + 1));
		int			more = k > 0 ? (k - 1) / LAZY_PAGE_CAPACITY : 0;

		extra += p * more * (weighted ? k / mean : 1);
	}
	return extra;
}

typedef struct Shape
{
	double		reads;			/* pages that a lookup reads */
	double		pages;			/* pages of all chains together */
} Shape;

/* Of an index of so many entries in so many buckets. */
static Shape
shape_of(int64 n, double nbuckets)
{
	double		whole = pow(2, floor(log2(nbuckets)));
	double		mean = n / whole;
	double		split = nbuckets - whole;	/* in two, each half as full */
	double		unsplit = whole - split;
	Shape		shape;

	shape.reads = 1 + unsplit / whole * extra_pages(mean, true) +
		split / whole * extra_pages(mean / 2, true);
	shape.pages = nbuckets + unsplit * extra_pages(mean, false) +
		2 * split * extra_pages(mean / 2, false);
	return shape;
}

/*
 * The promise of sizing: at every number of entries and every fill factor a
 * lookup reads less than 1.03 pages of a fresh index.  What that costs against
 * the plain rule (buckets by the fill factor alone, and their overflow pages) is
 * bounded, too.  It is dearest at high fill factors and on the smallest pages,
 * where numbers of entries scatter the most.
 */
static void
test_pages_a_lookup(void)
{
	enum {DOUBLING = 16, STEPS = 150};

	for (int i = 0; i < (int) lengthof(fillfactors); i++)
	{
		uint32		ffactor = lazy_ffactor(fillfactors[i]);
		double		worst_reads = 0;
		double		plain_reads = 0;
		double		worst_cost = 0;
		double		pages = 0;
		double		plain_pages = 0;

		for (int step = 0; step < STEPS; step++)
		{
			int64		n = (int64) (ffactor * pow(2, DOUBLING + (double) step / STEPS));
			Shape		shape = shape_of(n, lazy_buckets_for(n, ffactor));
			Shape		plain = shape_of(n, (double) (n / ffactor + 1));

			worst_reads = fmax(worst_reads, shape.reads);
			plain_reads = fmax(plain_reads, plain.reads);
			worst_cost = fmax(worst_cost, shape.pages / plain.pages);
			pages += shape.pages;
			plain_pages += plain.pages;
		}
		printf("# fill factor %d: at worst %.3f pages a lookup (plain %.3f); "
			   "pages %.3f of plain, at worst %.3f\n", fillfactors[i], worst_reads, plain_reads,
			   pages / plain_pages, worst_cost);
		CHECK(worst_reads < 1.03);
		CHECK(worst_cost < 1.8);
		CHECK(pages / plain_pages < 1.25);
	}
}

/* ---- the page ---- */

static void
test_meta_page(void)
{
	GuardedPage *guarded = guarded_new();
	Page		page = guarded->u.page;
	LazyMetaData *meta = lazy_meta(page);
	bool		newer = true;

	for (int i = 0; i < 3000; i++)
	{
		uint32		maxbucket = random32() >> (1 + random_below(31));
		uint32		ffactor = 1 + random_below(LAZY_PAGE_CAPACITY);
		uint32		offset;

		lazy_meta_init(page, ffactor, maxbucket, i - 5);
		CHECK(lazy_meta_problem(page, &newer) == NULL && !newer);
		CHECK(meta->ffactor == ffactor && meta->maxbucket == maxbucket && meta->ntuples == i - 5);
		CHECK(meta->nphases == lazy_bucket_phase(maxbucket, &offset) + 1);
		CHECK(((PageHeader) page)->pd_lower >=
			  (char *) &meta->phase_start[LAZY_MAX_PHASES] - (char *) page);
		for (uint32 bucket = maxbucket; bucket > 0; bucket /= 3)
			CHECK(lazy_bucket_block(bucket, meta->phase_start, meta->nphases) == bucket + 1);
		if (meta->nphases < LAZY_MAX_PHASES)
		{
			/* behind some overflow pages */
			BlockNumber start = 1 + lazy_phase_first_bucket(meta->nphases) + 4711;

			lazy_meta_add_phase(page, start);
			lazy_meta_set_maxbucket(page, lazy_phase_first_bucket(meta->nphases - 1));
			CHECK(lazy_meta_problem(page, &newer) == NULL);
			CHECK(lazy_bucket_block(meta->maxbucket, meta->phase_start, meta->nphases) == start);
		}
		CHECK(lazy_page_problem(page) != NULL);
		CHECK(guarded_intact(guarded));
	}
	free(guarded);
}

static Page meta_page;

static void
meta_problem_is(const char *expected, bool expect_newer)
{
	bool		newer = !expect_newer;

	CHECK(same_text(lazy_meta_problem(meta_page, &newer), expected));
	CHECK(newer == expect_newer);
	lazy_meta_init(meta_page, 10, 12345, 0);
}

static void
test_meta_problem(void)
{
	GuardedPage *guarded = guarded_new();
	Page		page = meta_page = guarded->u.page;
	PageHeader	header = (PageHeader) page;
	LazyMetaData *meta = lazy_meta(page);

	memset(page, 0, BLCKSZ);
	meta_problem_is("page is all zeroes", false);
	meta_problem_is(NULL, false);
	lazy_page_init(page, LAZY_KIND_PRIMARY, 0, 0, 0, 0, 0);
	meta_problem_is("page is not a metapage", false);
	page[BLCKSZ - 1] = page[BLCKSZ - 2] = 0;
	meta_problem_is("page does not bear the mark of a lazyhash page", false);
	meta->magic++;
	meta_problem_is("metapage has the wrong magic number", false);
	meta->version = LAZY_VERSION + 1;
	header->pd_lower -= 4;
	meta_problem_is("index was made by a version of lazyhash that is newer than this library",
					true);
	meta->version = 0;
	meta_problem_is("metapage has an invalid version number", false);
	meta->features = 4;
	meta_problem_is("index has features that this library does not know", true);
	header->pd_upper -= 8;
	meta_problem_is("special area is not where it should be", false);
	header->pd_special -= 8;
	meta_problem_is("special area is not where it should be", false);
	header->pd_lower -= 4;
	meta_problem_is("metapage's data do not end where they should", false);
	meta->ffactor = 0;
	meta_problem_is("metapage has an invalid fill factor", false);
	meta->ffactor = LAZY_PAGE_CAPACITY + 1;
	meta_problem_is("metapage has an invalid fill factor", false);
	meta->maxbucket = (uint32) LAZY_MAX_BUCKETS;
	meta_problem_is("metapage has too many buckets", false);
	meta->highmask >>= 1;
	meta_problem_is("metapage's masks do not go with its number of buckets", false);
	meta->lowmask = meta->highmask;
	meta_problem_is("metapage's masks do not go with its number of buckets", false);
	meta->nphases = LAZY_MAX_PHASES + 1;
	meta_problem_is("metapage has too many phases", false);
	meta->nphases--;
	meta->nphases--;
	meta_problem_is("metapage lacks the phase of its last bucket", false);
	meta->phase_start[0] = LAZY_METAPAGE;
	meta_problem_is("metapage has a phase that does not begin behind the one before", false);
	meta->phase_start[meta->nphases - 1]--;
	meta_problem_is("metapage has a phase that does not begin behind the one before", false);
	meta->phase_start[0]++;
	meta_problem_is("metapage has a phase that does not begin behind the one before", false);
	meta->phase_start[meta->nphases - 1] = MaxBlockNumber;
	meta_problem_is("metapage has a phase that does not end", false);
	free(guarded);
}

const Test	meta_tests[] = {
	{"a hash's bucket is where splits have taken it", test_bucket_of},
	{"so it is with as many buckets as there can be", test_bucket_of_large},
	{"phases are contiguous and cover all buckets", test_phases},
	{"every bucket has a block of its own", test_blocks},
	{"an index built for n entries does not split at n + 1", test_no_split_after_build},
	{"without overflow, not a bucket too many", test_smallest},
	{"sizes at the ends of the range", test_largest},
	{"at every size a lookup reads less than 1.03 pages", test_pages_a_lookup},
	{"a metapage that is made is in order", test_meta_page},
	{"each fault of a metapage is named", test_meta_problem},
	{NULL, NULL}
};

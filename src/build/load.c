/*
 * load.c
 *		Makes the pages of a new index out of all its entries.
 *
 * Blocks are written in order:
 *
 *		0 | primary pages, in order of buckets | rest of the last phase | overflow pages
 *
 * A range of neighbouring buckets at a time is distributed in memory: coarsely
 * first, so that what the fine distribution touches stays in the processor's
 * cache.  Then each bucket's page is sorted and written.  What does not fit a
 * primary page is put aside until all primary pages are written; the blocks of
 * its chain are known before, because chains lie one after another.
 *
 * Each page of a chain is sorted by itself.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"

#include "../compat.h"
#include "load.h"
#include "writer.h"

/* A coarse slot has 2^5 buckets, unless there would be more than 2^10 slots. */
#define FINE_BITS		5
#define COARSE_BITS		10

typedef struct LazyLoader
{
	Relation	index;
	LazyWriter *writer;
	uint32		maxbucket;
	LazyEntry  *entries;
	LazyEntry  *scratch;
	Size		capacity;		/* of each of the two */
	BlockNumber first_overflow; /* first block after the primary pages' phases */
	uint64		next_overflow;	/* where the next chain's overflow pages begin */
	BlockNumber overflow_block; /* next one to be written */
	int64		nput_aside;		/* entries in the file below */
	BufFile    *put_aside;		/* what overflows, in order of buckets; NULL: nothing yet */
	int64		ndone;			/* entries on pages */
} LazyLoader;

/* ---- pages ---- */

/* The metapage, and what it says about where everything else is to lie. */
static void
load_metapage(LazyLoader *loader, uint32 ffactor, int64 nentries)
{
	Page		page = lazy_writer_page(loader->writer);
	LazyMetaData *meta = lazy_meta(page);
	uint32		phase;

	loader->maxbucket = lazy_buckets_for(nentries, ffactor) - 1;
	lazy_meta_init(page, ffactor, loader->maxbucket, nentries);
	phase = meta->nphases - 1;
	loader->first_overflow = meta->phase_start[phase] + lazy_phase_length(phase);
	loader->next_overflow = loader->first_overflow;
	loader->overflow_block = loader->first_overflow;
	lazy_writer_put(loader->writer, LAZY_METAPAGE, page);
}

/* The last block of the last phase is there, even if its bucket is not yet. */
static void
load_reserved(LazyLoader *loader)
{
	BlockNumber block = loader->first_overflow - 1;
	uint32		bucket = block - 1;
	Page		page;

	if (bucket <= loader->maxbucket)
		return;
	page = lazy_writer_page(loader->writer);
	lazy_page_init(page, LAZY_KIND_RESERVED, bucket, InvalidBlockNumber, 0, 0, 0);
	lazy_writer_put(loader->writer, block, page);
}

/* Puts n entries on an empty page, sorted and posted. */
static void
fill_page(LazyLoader *loader, Page page, const LazyEntry *entries, int n)
{
	LazyEntry	sorted[LAZY_PAGE_CAPACITY];

	lazy_entries_sort_to(sorted, entries, n);
	lazy_page_append_sorted(page, sorted, n);
	lazy_special(page)->posted = n;

	loader->ndone += n;
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, loader->ndone);
	CHECK_FOR_INTERRUPTS();
}

/*
 * The primary page of a bucket of "total" entries.  Only those that fit it, the
 * first ones, are taken from "entries".
 */
static void
load_primary(LazyLoader *loader, uint32 bucket, const LazyEntry *entries, uint64 total)
{
	Page		page = lazy_writer_page(loader->writer);
	BlockNumber block = LAZY_METAPAGE + 1 + bucket;
	BlockNumber next = InvalidBlockNumber;
	BlockNumber tail = block;

	if (total > LAZY_PAGE_CAPACITY)
	{
		uint64		rest = total - LAZY_PAGE_CAPACITY;
		uint64		npages = (rest + LAZY_PAGE_CAPACITY - 1) / LAZY_PAGE_CAPACITY;

		if (loader->next_overflow + npages > MaxBlockNumber)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("lazyhash index \"%s\" would have more than %u blocks",
							RelationGetRelationName(loader->index), MaxBlockNumber),
					 errhint("Index fewer rows with a WHERE clause, or partition the table.")));
		next = (BlockNumber) loader->next_overflow;
		loader->next_overflow += npages;
		tail = (BlockNumber) loader->next_overflow - 1;
	}
	lazy_page_init(page, LAZY_KIND_PRIMARY, bucket, tail, loader->maxbucket, 0, 0);
	lazy_special(page)->next = next;
	fill_page(loader, page, entries, (int) Min(total, LAZY_PAGE_CAPACITY));
	lazy_writer_put(loader->writer, block, page);
}

static void
load_overflow_page(LazyLoader *loader, uint32 bucket, const LazyEntry *entries, int n, bool last)
{
	Page		page = lazy_writer_page(loader->writer);
	BlockNumber block = loader->overflow_block++;

	lazy_page_init(page, LAZY_KIND_OVERFLOW, bucket, InvalidBlockNumber, 0, 0, 0);
	if (!last)
		lazy_special(page)->next = block + 1;
	fill_page(loader, page, entries, n);
	lazy_writer_put(loader->writer, block, page);
}

/* How many entries from the first on belong to its bucket, as far as a page. */
static int
same_bucket(const LazyRadix *radix, const LazyEntry *entries, Size n, uint32 bucket)
{
	int			limit = (int) Min(n, LAZY_PAGE_CAPACITY);
	int			same = 1;

	while (same < limit && lazy_radix_bucket(radix, lazy_entry_hash(&entries[same])) == bucket)
		same++;
	return same;
}

/*
 * The overflow pages of entries that were put aside, which are in order of
 * their buckets.  Unless these are the last ones, stops short of a page of
 * which it cannot tell whether it ends the chain.  Returns how many of the
 * entries it has used.
 */
static Size
load_overflow(LazyLoader *loader, const LazyEntry *entries, Size n, bool last)
{
	LazyRadix	radix;
	Size		used = 0;

	lazy_radix_init(&radix, loader->maxbucket, 0, loader->maxbucket, 0);
	while (used < n)
	{
		uint32		bucket = lazy_radix_bucket(&radix, lazy_entry_hash(&entries[used]));
		int			count = same_bucket(&radix, entries + used, n - used, bucket);
		Size		end = used + count;
		bool		more;

		if (end == n && !last)
			break;
		more = end < n &&
			lazy_radix_bucket(&radix, lazy_entry_hash(&entries[end])) == bucket;
		load_overflow_page(loader, bucket, entries + used, count, !more);
		used = end;
	}
	return used;
}

/* ---- a range of buckets that is in memory ---- */

/*
 * The primary pages of the buckets of a coarse slot, whose n entries lie in
 * order of their buckets; bucket low + i begins at start[i].  What overflows is
 * copied to "aside".  Returns how much that is.
 */
static Size
load_primaries(LazyLoader *loader, uint32 low, uint32 high, const LazyEntry *entries,
			   const Size *start, LazyEntry *aside)
{
	Size		naside = 0;

	for (uint32 i = 0; i <= high - low; i++)
	{
		const LazyEntry *first = entries + start[i];
		Size		n = start[i + 1] - start[i];

		load_primary(loader, low + i, first, n);
		if (n > LAZY_PAGE_CAPACITY)
		{
			n -= LAZY_PAGE_CAPACITY;
			memcpy(aside + naside, first + LAZY_PAGE_CAPACITY, n * sizeof(LazyEntry));
			naside += n;
		}
	}
	return naside;
}

/*
 * The primary pages of buckets low..high, whose n entries are in
 * loader->entries.  What overflows is left at the beginning of loader->scratch,
 * in order; returns how much that is.
 */
static Size
load_range(LazyLoader *loader, uint32 low, uint32 high, Size n)
{
	int			bits = pg_ceil_log2_32(high - low + 1);
	int			fine_bits = Max(Min(bits / 2, FINE_BITS), bits - COARSE_BITS);
	LazyRadix	coarse;
	Size	   *coarse_start;
	Size	   *fine_start;
	Size		naside = 0;

	lazy_radix_init(&coarse, loader->maxbucket, low, high, fine_bits);
	coarse_start = palloc_array(Size, coarse.nslots + 1);
	fine_start = palloc_array(Size, ((Size) 1 << fine_bits) + 1);
	lazy_radix_distribute(&coarse, loader->entries, loader->scratch, n, coarse_start);

	for (uint32 slot = 0; slot < coarse.nslots; slot++)
	{
		uint32		slot_low = Max(low, (coarse.first + slot) << fine_bits);
		uint32		slot_high = Min(high, ((coarse.first + slot + 1) << fine_bits) - 1);
		LazyEntry  *from = loader->scratch + coarse_start[slot];
		LazyEntry  *to = loader->entries + coarse_start[slot];
		LazyRadix	fine;

		lazy_radix_init(&fine, loader->maxbucket, slot_low, slot_high, 0);
		lazy_radix_distribute(&fine, from, to, coarse_start[slot + 1] - coarse_start[slot],
							  fine_start);

		/* scratch is done with as far as this slot reaches; no more than that overflows */
		naside += load_primaries(loader, slot_low, slot_high, to, fine_start,
								 loader->scratch + naside);
	}
	pfree(coarse_start);
	pfree(fine_start);
	return naside;
}

/* ---- entries that are in spills ---- */

/*
 * Reads the entries of some buckets, which lie in one slot of the spills' radix
 * or, if that knows too few buckets, anywhere.
 */
typedef struct RangeReader
{
	LazySpill  *spills;			/* partitioned alike */
	int			nspills;
	LazyRadix	radix;			/* of the index */
	uint32		low;			/* buckets wanted */
	uint32		high;
	int			spill;			/* being read */
	uint32		partition;		/* being read */
	LazySpillReader reader;
} RangeReader;

/*
 * May a partition hold entries of the buckets wanted?
 *
 * Spills that were partitioned when the number of buckets was known have one
 * such partition, that of the slot.  Those that were partitioned before that
 * were so as for a larger index of 2^k buckets, by more bits of the hash than
 * highmask has, so that several partitions may make up one slot.  What would be
 * in a bucket beyond maxbucket is where lowmask says; a partition with buckets
 * on both sides of maxbucket is therefore read twice.  If they were partitioned
 * for too small an index, any partition may do.
 */
static bool
may_hold(const RangeReader *reader, uint32 partition)
{
	const LazyRadix *spilled = &reader->spills[0].radix;
	const LazyRadix *final = &reader->radix;
	uint32		slot = reader->low >> spilled->shift;
	uint32		high;
	uint64		last_bucket;

	if (spilled->maxbucket < final->maxbucket)
		return true;
	if (spilled->maxbucket == final->maxbucket)
		return spilled->first + partition == slot;

	high = partition & (final->highmask >> spilled->shift);
	last_bucket = (((uint64) high + 1) << spilled->shift) - 1;
	return high == slot ||
		(last_bucket > final->maxbucket &&
		 (high & (final->lowmask >> spilled->shift)) == slot);
}

/* Moves on to the next partition that may hold some of what is wanted. */
static bool
next_partition(RangeReader *reader)
{
	while (reader->spill < reader->nspills)
	{
		LazySpill  *spill = &reader->spills[reader->spill];

		while (++reader->partition < spill->radix.nslots)
		{
			if (may_hold(reader, reader->partition))
			{
				lazy_spill_read_start(&reader->reader, spill, reader->partition);
				return true;
			}
		}
		reader->spill++;
		reader->partition = (uint32) -1;
	}
	return false;
}

/* Begins reading.  Returns an upper limit of the number of entries to come. */
static uint64
range_start(RangeReader *reader, const LazyLoader *loader, LazySpill *spills, int nspills,
			uint32 low, uint32 high)
{
	uint64		limit = 0;

	reader->spills = spills;
	reader->nspills = nspills;
	lazy_radix_init(&reader->radix, loader->maxbucket, 0, loader->maxbucket, 0);
	reader->low = low;
	reader->high = high;
	reader->spill = 0;
	reader->partition = (uint32) -1;
	while (next_partition(reader))
		limit += spills[reader->spill].partition[reader->partition].nentries;

	reader->spill = 0;
	reader->partition = (uint32) -1;
	(void) next_partition(reader);
	return limit;
}

/* Keeps only the entries of the buckets wanted. */
static Size
filter(const RangeReader *reader, LazyEntry *entries, Size n)
{
	Size		kept = 0;

	for (Size i = 0; i < n; i++)
	{
		uint32		bucket = lazy_radix_bucket(&reader->radix, lazy_entry_hash(&entries[i]));

		if (bucket >= reader->low && bucket <= reader->high)
			entries[kept++] = entries[i];
	}
	return kept;
}

/* Reads some entries, at most n > 0; 0 at the end. */
static Size
range_read(RangeReader *reader, LazyEntry *entries, Size n)
{
	while (reader->spill < reader->nspills)
	{
		Size		got = lazy_spill_read(&reader->reader, entries, n);

		CHECK_FOR_INTERRUPTS();
		if (got == 0)
			(void) next_partition(reader);
		else if ((got = filter(reader, entries, got)) > 0)
			return got;
	}
	return 0;
}

static void
put_aside(LazyLoader *loader, LazyEntry *entries, Size n)
{
	if (n == 0)
		return;
	if (loader->put_aside == NULL)
		loader->put_aside = BufFileCreateTemp(false);
	BufFileWrite(loader->put_aside, entries, n * sizeof(LazyEntry));
	loader->nput_aside += n;
}

/*
 * One bucket of more entries than fit memory, and exactly as many as the reader
 * has said.
 */
static void
load_long_bucket(LazyLoader *loader, RangeReader *reader, uint32 bucket, uint64 total)
{
	Size		n = 0;
	Size		got;

	Assert(total > loader->capacity && loader->capacity > LAZY_PAGE_CAPACITY);

	while (n < LAZY_PAGE_CAPACITY)
	{
		got = range_read(reader, loader->entries + n, loader->capacity - n);
		if (got == 0)
			elog(ERROR, "unexpected end of the entries of bucket %u", bucket);
		n += got;
	}
	load_primary(loader, bucket, loader->entries, total);
	put_aside(loader, loader->entries + LAZY_PAGE_CAPACITY, n - LAZY_PAGE_CAPACITY);
	while ((got = range_read(reader, loader->entries, loader->capacity)) > 0)
		put_aside(loader, loader->entries, got);
}

static void load_slots(LazyLoader *loader, LazySpill *spills, int nspills, uint32 low,
					   uint32 high);

/*
 * Distributes the entries of buckets low..high to a spill of their own, more
 * finely than they were, and loads that.
 */
static void
load_anew(LazyLoader *loader, RangeReader *reader, uint64 limit)
{
	uint32		low = reader->low;
	uint32		high = reader->high;
	int			bits = pg_ceil_log2_32(high - low + 1);
	int			shift = Max(bits - lazy_spill_bits((int64) limit, loader->capacity), 0);
	LazyRadix	radix;
	LazySpill	spill;
	Size		n = 0;
	Size		got;

	lazy_radix_init(&radix, loader->maxbucket, low, high, shift);
	lazy_spill_init(&spill, BufFileCreateTemp(false), &radix,
					palloc_array(LazySpillPartition, radix.nslots));
	do
	{
		got = range_read(reader, loader->entries + n, loader->capacity - n);
		n += got;
		if (n == loader->capacity || got == 0)
		{
			lazy_spill_write(&spill, loader->entries, loader->scratch, n);
			n = 0;
		}
	} while (got > 0);
	load_slots(loader, &spill, 1, low, high);
	lazy_spill_close(&spill);
}

/*
 * The primary pages of buckets low..high, a slot of the spills' radix at a
 * time.
 */
static void
load_slots(LazyLoader *loader, LazySpill *spills, int nspills, uint32 low, uint32 high)
{
	int			shift = spills[0].radix.shift;

	for (uint32 slot = low >> shift; slot <= high >> shift; slot++)
	{
		uint32		slot_low = Max(low, slot << shift);
		uint32		slot_high = (uint32) Min(high, (((uint64) slot + 1) << shift) - 1);
		RangeReader reader;
		uint64		limit = range_start(&reader, loader, spills, nspills, slot_low, slot_high);

		if (limit <= loader->capacity)
		{
			Size		n = 0;
			Size		got;

			while (n < limit &&
				   (got = range_read(&reader, loader->entries + n, limit - n)) > 0)
				n += got;
			n = load_range(loader, slot_low, slot_high, n);
			put_aside(loader, loader->scratch, n);
		}
		else if (shift == 0)
			load_long_bucket(loader, &reader, slot_low, limit);
		else
			load_anew(loader, &reader, limit);
	}
}

/* The overflow pages of what was put aside. */
static void
load_put_aside(LazyLoader *loader)
{
	int64		rest = loader->nput_aside;
	Size		n = 0;

	if (loader->put_aside == NULL)
		return;
	if (BufFileSeek(loader->put_aside, 0, 0, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind a temporary file of an index build: %m")));
	while (n > 0 || rest > 0)
	{
		Size		got = (Size) Min(rest, (int64) (loader->capacity - n));
		Size		used;

		lazy_buffile_read(loader->put_aside, loader->entries + n, got * sizeof(LazyEntry));
		n += got;
		rest -= got;
		used = load_overflow(loader, loader->entries, n, rest == 0);
		n -= used;
		memmove(loader->entries, loader->entries + used, n * sizeof(LazyEntry));
	}
	BufFileClose(loader->put_aside);
}

/* ---- the whole ---- */

static void
load_start(LazyLoader *loader, Relation index, ForkNumber fork, uint32 ffactor, int64 nentries)
{
	memset(loader, 0, sizeof(LazyLoader));
	loader->index = index;
	loader->writer = lazy_writer_start(index, fork);
	load_metapage(loader, ffactor, nentries);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, LAZY_BUILD_PHASE_BUCKETS);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL, nentries);
}

static void
load_overflow_start(LazyLoader *loader)
{
	load_reserved(loader);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, LAZY_BUILD_PHASE_OVERFLOW);
}

static void
load_finish(LazyLoader *loader, int64 nentries)
{
	if (loader->ndone != nentries || loader->overflow_block != loader->next_overflow)
		elog(ERROR, "lost count while building index \"%s\"",
			 RelationGetRelationName(loader->index));
	lazy_writer_finish(loader->writer);
}

static LazyEntry *
allocate(Size n)
{
	return MemoryContextAllocHuge(CurrentMemoryContext, Max(n, 1) * sizeof(LazyEntry));
}

void
lazy_load_memory(Relation index, uint32 ffactor, LazyEntry *entries, Size n)
{
	LazyLoader	loader;
	Size		naside;

	load_start(&loader, index, MAIN_FORKNUM, ffactor, n);
	loader.entries = entries;
	loader.scratch = allocate(n);
	naside = load_range(&loader, 0, loader.maxbucket, n);
	load_overflow_start(&loader);
	(void) load_overflow(&loader, loader.scratch, naside, true);
	load_finish(&loader, n);
	pfree(loader.scratch);
}

int64
lazy_load_spills(Relation index, uint32 ffactor, LazySpill *spills, int nspills, Size capacity)
{
	LazyLoader	loader;
	int64		nentries = 0;

	for (int i = 0; i < nspills; i++)
	{
		for (uint32 partition = 0; partition < spills[i].radix.nslots; partition++)
			nentries += spills[i].partition[partition].nentries;
	}
	load_start(&loader, index, MAIN_FORKNUM, ffactor, nentries);
	loader.capacity = capacity;
	loader.entries = allocate(capacity);
	loader.scratch = allocate(capacity);
	if (spills[0].radix.maxbucket >= loader.maxbucket)
		load_slots(&loader, spills, nspills, 0, loader.maxbucket);
	else
	{
		/* partitioned for too few buckets */
		RangeReader reader;
		uint64		limit = range_start(&reader, &loader, spills, nspills, 0, loader.maxbucket);

		load_anew(&loader, &reader, limit);
	}
	load_overflow_start(&loader);
	load_put_aside(&loader);
	load_finish(&loader, nentries);
	pfree(loader.entries);
	pfree(loader.scratch);
	return nentries;
}

void
lazy_load_empty(Relation index, ForkNumber fork, uint32 ffactor)
{
	LazyLoader	loader;

	memset(&loader, 0, sizeof(LazyLoader));
	loader.index = index;
	loader.writer = lazy_writer_start(index, fork);
	load_metapage(&loader, ffactor, 0);
	load_primary(&loader, 0, NULL, 0);
	load_reserved(&loader);
	load_finish(&loader, 0);
}

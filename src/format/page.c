/*
 * page.c
 *		Reading and changing the image of a bucket page.
 *
 * Replay runs what is here, so it must come to the same bytes wherever it runs:
 * nothing that changes a page reads a dead bit (lazy_page_dead() alone does, on
 * behalf of the running server).
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "page.h"

#define ST_SORT sort_entries
#define ST_ELEMENT_TYPE LazyEntry
#define ST_COMPARE(a, b) lazy_entry_compare(a, b)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

static inline void
set_count(Page page, int count)
{
	((PageHeader) page)->pd_lower = LAZY_PAGE_START + count * sizeof(LazyEntry);
}

/* ---- is it in order? ---- */

bool
lazy_page_is_zeroes(Page page)
{
	const char *bytes = (const char *) page;

	return PageIsNew(page) && bytes[0] == 0 && memcmp(bytes, bytes + 1, BLCKSZ - 1) == 0;
}

const char *
lazy_flags_problem(uint16 flags)
{
	uint16		kind = flags & LAZY_KIND_MASK;
	uint16		splitting = flags & (LAZY_BEING_SPLIT | LAZY_BEING_POPULATED);

	if (flags & ~LAZY_FLAGS_ALL)
		return "page has flags that are not known";
	if (kind == 0 || (kind & (kind - 1)) != 0)
		return "page is not of exactly one kind";
	if (splitting != 0)
	{
		if (kind != LAZY_KIND_PRIMARY)
			return "page takes part in a split but is not a primary page";
		if (splitting == (LAZY_BEING_SPLIT | LAZY_BEING_POPULATED))
			return "page is being split and being populated at once";
	}
	return NULL;
}

/*
 * This runs on each page that is read, hence the order: what is looked at
 * shares the two cache lines that the caller needs anyway.
 */
const char *
lazy_page_problem(Page page)
{
	PageHeader	header = (PageHeader) page;
	LazyPageSpecial special = lazy_special(page);
	const char *problem;

	if (lazy_page_is_zeroes(page))
		return "page is all zeroes";
	if (special->page_id != LAZY_PAGE_ID)
		return "page does not bear the mark of a lazyhash page";
	if ((special->flags & LAZY_KIND_MASK) == LAZY_KIND_META)
		return "page is a metapage";
	if (header->pd_special != LAZY_SPECIAL_OFFSET || header->pd_upper != LAZY_SPECIAL_OFFSET)
		return "special area is not where it should be";
	if (header->pd_lower < LAZY_PAGE_START || header->pd_lower > LAZY_SPECIAL_OFFSET ||
		(header->pd_lower - LAZY_PAGE_START) % sizeof(LazyEntry) != 0)
		return "end of the entries is not where an entry can end";
	if (lazy_page_unsorted(page) > lazy_page_count(page))
		return "sorted entries are more than the page's entries";
	if (special->posted > LAZY_POSTED_LIMIT || special->posted < -LAZY_POSTED_LIMIT)
		return "number of posted entries is out of range";
	if (likely(special->flags == LAZY_KIND_PRIMARY))
		return NULL;
	if ((problem = lazy_flags_problem(special->flags)) != NULL)
		return problem;
	if ((special->flags & (LAZY_KIND_FREE | LAZY_KIND_RESERVED)) && lazy_page_count(page) > 0)
		return "page belongs to no bucket but has entries";
	return NULL;
}

static inline bool
is_sorted(const LazyEntry *entries, int n)
{
	for (int i = 1; i < n; i++)
	{
		if (lazy_entry_compare(&entries[i - 1], &entries[i]) > 0)
			return false;
	}
	return true;
}

bool
lazy_page_in_order(Page page)
{
	const LazyEntry *entries = lazy_entries(page);
	int			unsorted = lazy_page_unsorted(page);

	for (int i = 1; i < unsorted; i++)
	{
		if (!lazy_page_order_begins(page, i) &&
			lazy_entry_compare(&entries[i - 1], &entries[i]) > 0)
			return false;
	}
	return true;
}

/* ---- searching ---- */

/*
 * The entries of a bucket agree in the low bits of their hashes; the high bits,
 * which decide the order, are uniform.  The guess is then off by about half the
 * square root of the number of entries, which is what the first step allows
 * for.  From there the steps double, so that a poor guess is made good in
 * logarithmic time.
 */
static inline int
lower_bound(const LazyEntry *entries, int nsorted, uint32 hash)
{
	int			guess = (int) (((uint64) hash * (uint64) nsorted) >> 32);
	int			step;
	int			low;
	int			high;

	if (nsorted == 0)
		return 0;
	step = 1 << (pg_leftmost_one_pos32((uint32) nsorted) / 2);
	if (lazy_entry_hash(&entries[guess]) < hash)
	{
		low = guess + 1;
		high = guess + step;
		while (high < nsorted && lazy_entry_hash(&entries[high]) < hash)
		{
			low = high + 1;
			step *= 2;
			high += step;
		}
		high = Min(high, nsorted);
	}
	else
	{
		high = guess;
		low = guess - step;
		while (low >= 0 && lazy_entry_hash(&entries[low]) >= hash)
		{
			high = low;
			step *= 2;
			low -= step;
		}
		low = Max(low + 1, 0);
	}

	/* All before low are less, and none from high on. */
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (lazy_entry_hash(&entries[middle]) < hash)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int
lazy_page_lower_bound(Page page, uint32 hash)
{
	return lower_bound(lazy_entries(page), lazy_special(page)->nsorted, hash);
}

/* Positions of the entries with this hash among those from start to end, which are sorted. */
static inline int
find_sorted(const LazyEntry *entries, int start, int end, uint32 hash, uint16 *positions)
{
	int			nfound = 0;

	for (int i = start + lower_bound(entries + start, end - start, hash); i < end; i++)
	{
		if (lazy_entry_hash(&entries[i]) != hash)
			break;
		positions[nfound++] = (uint16) i;
	}
	return nfound;
}

int
lazy_page_find(Page page, uint32 hash, uint16 *positions)
{
	const LazyEntry *entries = lazy_entries(page);
	int			end = lazy_special(page)->nsorted;
	int			unsorted = lazy_page_unsorted(page);
	int			count = lazy_page_count(page);
	int			nfound = find_sorted(entries, 0, end, hash, positions);

	for (; end < unsorted; end += LAZY_RUN)
		nfound += find_sorted(entries, end, end + LAZY_RUN, hash, positions + nfound);
	for (int i = unsorted; i < count; i++)
	{
		if (unlikely(lazy_entry_hash(&entries[i]) == hash))
			positions[nfound++] = (uint16) i;
	}
	return nfound;
}

/*
 * Position in the sorted prefix of an entry that equals "wanted", or -1.  Steps
 * double from the lower bound, as many entries may share the hash.
 */
static int
find_in_prefix(Page page, const LazyEntry *wanted)
{
	const LazyEntry *entries = lazy_entries(page);
	int			nsorted = lazy_special(page)->nsorted;
	int			low = lazy_page_lower_bound(page, lazy_entry_hash(wanted));
	int			high = low;

	for (int step = 1; high < nsorted && lazy_entry_compare(&entries[high], wanted) < 0; step *= 2)
	{
		low = high + 1;
		high += step;
	}
	high = Min(high, nsorted);
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (lazy_entry_compare(&entries[middle], wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < nsorted && lazy_entry_compare(&entries[low], wanted) == 0 ? low : -1;
}

int
lazy_page_find_entry(Page page, uint32 hash, const ItemPointerData *tid)
{
	const LazyEntry *entries = lazy_entries(page);
	int			count = lazy_page_count(page);
	LazyEntry	wanted;
	int			position;

	lazy_entry_set(&wanted, hash, tid);
	if ((position = find_in_prefix(page, &wanted)) >= 0)
		return position;
	for (int i = lazy_special(page)->nsorted; i < count; i++)
	{
		if (lazy_entry_hash(&entries[i]) == hash &&
			lazy_entry_compare(&entries[i], &wanted) == 0)
			return i;
	}
	return -1;
}

int
lazy_page_matching(Page page, uint32 mask, uint32 value, uint16 *positions)
{
	const LazyEntry *entries = lazy_entries(page);
	int			count = lazy_page_count(page);
	int			nmatching = 0;

	for (int i = 0; i < count; i++)
	{
		if ((lazy_entry_hash(&entries[i]) & mask) != value)
			continue;
		if (positions != NULL)
			positions[nmatching] = (uint16) i;
		nmatching++;
	}
	return nmatching;
}

int
lazy_page_dead(Page page, uint16 *positions)
{
	const LazyEntry *entries = lazy_entries(page);
	int			count = lazy_page_count(page);
	int			ndead = 0;

	for (int i = 0; i < count; i++)
	{
		if (lazy_entry_is_dead(&entries[i]))
			positions[ndead++] = (uint16) i;
	}
	return ndead;
}

/* ---- sorting ---- */

static inline void
insert_sorted(LazyEntry *entries, int n)
{
	for (int i = 1; i < n; i++)
	{
		LazyEntry	entry = entries[i];
		int			to = i;

		for (; to > 0 && lazy_entry_compare(&entries[to - 1], &entry) > 0; to--)
			entries[to] = entries[to - 1];
		entries[to] = entry;
	}
}

/*
 * Hash codes being uniform, entries are dealt out by their high bits into about
 * as many piles as there are entries, which leaves each pile with few to put in
 * order.  Should the hash function be so poor that a pile is large, it costs
 * what an ordinary sort costs.
 */
#define MAX_PILE_BITS	10
#define LARGE_PILE		12

void
lazy_entries_sort_to(LazyEntry *to, const LazyEntry *from, int n)
{
	uint16		end[1 << MAX_PILE_BITS] = {0};
	int			bits = n > 1 ? Min(pg_leftmost_one_pos32((uint32) n), MAX_PILE_BITS) : 1;
	int			shift = 32 - bits;
	int			start = 0;

	Assert(n >= 0 && n <= LAZY_PAGE_CAPACITY);

	/* rows of one key, in the order of a scan; others fail at once */
	if (is_sorted(from, n))
	{
		memcpy(to, from, n * sizeof(LazyEntry));
		return;
	}

	/* Count each pile; from that, where it begins. */
	for (int i = 0; i < n; i++)
		end[lazy_entry_hash(&from[i]) >> shift]++;
	for (int pile = 0; pile < 1 << bits; pile++)
	{
		int			size = end[pile];

		end[pile] = (uint16) start;
		start += size;
	}
	for (int i = 0; i < n; i++)
		to[end[lazy_entry_hash(&from[i]) >> shift]++] = from[i];

	/* What began where a pile begins has moved on to where it ends. */
	start = 0;
	for (int pile = 0; pile < 1 << bits; pile++)
	{
		if (end[pile] - start > LARGE_PILE)
			sort_entries(to + start, end[pile] - start);
		else
			insert_sorted(to + start, end[pile] - start);
		start = end[pile];
	}
}

void
lazy_entries_sort(LazyEntry *entries, int n)
{
	LazyEntry	copy[LAZY_PAGE_CAPACITY];

	if (n > LAZY_PAGE_CAPACITY)
		sort_entries(entries, n);
	else
	{
		memcpy(copy, entries, n * sizeof(LazyEntry));
		lazy_entries_sort_to(entries, copy, n);
	}
}

/* ---- changing ---- */

void
lazy_page_init(Page page, uint16 flags, uint32 bucket, BlockNumber tail,
			   uint32 stamp, uint32 version, uint32 deletions)
{
	LazyPageSpecial special;

	Assert(lazy_flags_problem(flags) == NULL && !(flags & LAZY_KIND_META));

	PageInit(page, BLCKSZ, sizeof(LazyPageSpecialData));
	special = lazy_special(page);
	special->bucket = bucket;
	special->next = InvalidBlockNumber;
	special->tail = tail;
	special->stamp = stamp;
	special->version = version;
	special->deletions = deletions;
	special->split_next = InvalidBlockNumber;
	special->flags = flags;
	special->page_id = LAZY_PAGE_ID;
}

void
lazy_page_append(Page page, const LazyEntry *entries, int n)
{
	int			count = lazy_page_count(page);

	Assert(n >= 0 && n <= lazy_page_room(page));

	lazy_entries_copy(lazy_entries(page) + count, entries, n);
	set_count(page, count + n);
}

void
lazy_page_append_sorted(Page page, const LazyEntry *entries, int n)
{
	Assert(lazy_special(page)->nsorted == lazy_page_count(page));
	Assert(is_sorted(entries, n));

	lazy_page_append(page, entries, n);
	lazy_special(page)->nsorted += n;
}

/*
 * The tail is short and the prefix long, so only the tail is sorted; then the
 * two are merged from the back, into the place that the tail took.  What the
 * prefix holds below the tail's least entry is not moved at all.
 */
void
lazy_page_merge(Page page)
{
	LazyEntry	tail[LAZY_PAGE_CAPACITY];
	LazyEntry  *entries = lazy_entries(page);
	LazyPageSpecial special = lazy_special(page);
	int			count = lazy_page_count(page);
	int			ntail = count - special->nsorted;
	int			last = special->nsorted - 1;
	int			to = count - 1;

	if (ntail == 0)
		return;

	lazy_entries_sort_to(tail, entries + special->nsorted, ntail);
	for (int from = ntail - 1; from >= 0; from--)
	{
		while (last >= 0 && lazy_entry_compare(&entries[last], &tail[from]) > 0)
			entries[to--] = entries[last--];
		entries[to--] = tail[from];
	}
	special->nsorted = (uint16) count;
	special->nruns = 0;
}

void
lazy_page_sort_runs(Page page)
{
	LazyEntry	run[LAZY_RUN];
	LazyPageSpecial special = lazy_special(page);
	int			count = lazy_page_count(page);
	int			start = lazy_page_unsorted(page);

	for (; count - start >= LAZY_RUN; start += LAZY_RUN)
	{
		LazyEntry  *entries = lazy_entries(page) + start;

		lazy_entries_sort_to(run, entries, LAZY_RUN);
		memcpy(entries, run, sizeof(run));
		special->nruns++;
	}
}

/*
 * An entry leaves that was at this position when the prefix had nsorted entries.
 * In the tail, it leaves a run that is whole no more, and all runs after it begin
 * elsewhere.
 */
static inline void
forget_sorted(LazyPageSpecial special, int nsorted, int position)
{
	if (position < nsorted)
		special->nsorted--;
	else
		special->nruns = Min(special->nruns, (position - nsorted) / LAZY_RUN);
}

void
lazy_page_remove(Page page, const uint16 *positions, int n)
{
	LazyEntry  *entries = lazy_entries(page);
	LazyPageSpecial special = lazy_special(page);
	int			count = lazy_page_count(page);
	int			nsorted = special->nsorted;
	int			to;

	if (n == 0)
		return;

	/* Move down each run of entries between one position and the next. */
	to = positions[0];
	for (int i = 0; i < n; i++)
	{
		int			from = positions[i] + 1;
		int			end = i + 1 < n ? positions[i + 1] : count;

		Assert(from <= end && end <= count);
		memmove(&entries[to], &entries[from], (end - from) * sizeof(LazyEntry));
		to += end - from;
		forget_sorted(special, nsorted, positions[i]);
	}
	set_count(page, count - n);
	special->deletions++;
}

void
lazy_page_remove_matching(Page page, uint32 mask, uint32 value)
{
	LazyEntry  *entries = lazy_entries(page);
	LazyPageSpecial special = lazy_special(page);
	int			count = lazy_page_count(page);
	int			nsorted = special->nsorted;
	int			kept = 0;

	for (int i = 0; i < count; i++)
	{
		if ((lazy_entry_hash(&entries[i]) & mask) != value)
			entries[kept++] = entries[i];
		else
			forget_sorted(special, nsorted, i);
	}
	if (kept == count)
		return;
	set_count(page, kept);
	special->deletions++;
}

void
lazy_page_free(Page page)
{
	LazyPageSpecial special = lazy_special(page);

	set_count(page, 0);
	special->next = InvalidBlockNumber;
	special->tail = InvalidBlockNumber;
	special->split_next = InvalidBlockNumber;
	special->deletions++;
	special->posted = 0;
	special->nsorted = 0;
	special->nruns = 0;
	special->flags = LAZY_KIND_FREE;
}

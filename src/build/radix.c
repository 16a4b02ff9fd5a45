/*
 * radix.c
 *		Distribution of entries by bucket, and sorting of a page, in memory.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "radix.h"

/* A page's entries are first told apart by so many of their topmost hash bits. */
#define PAGE_BITS		10
#define PAGE_SLOTS		(1 << PAGE_BITS)
#define PAGE_SLOT(entry)	(lazy_entry_hash(entry) >> (32 - PAGE_BITS))

/* A run of entries up to this long is sorted by insertion. */
#define SHORT_RUN		16

void
lazy_radix_distribute(const LazyRadix *radix, const LazyEntry *from, LazyEntry *to,
					  Size n, Size *start)
{
	uint32		nslots = radix->nslots;
	Size		sum = 0;

	/* Each slot's count, one place further on, where its end will be. */
	memset(start, 0, (nslots + 1) * sizeof(Size));
	for (Size i = 0; i < n; i++)
		start[lazy_radix_slot(radix, lazy_entry_hash(&from[i])) + 1]++;

	/* start[i + 1] says where slot i begins until the copying moves it to the end. */
	for (uint32 slot = 1; slot <= nslots; slot++)
	{
		Size		count = start[slot];

		start[slot] = sum;
		sum += count;
	}
	Assert(sum == n);

	for (Size i = 0; i < n; i++)
		to[start[lazy_radix_slot(radix, lazy_entry_hash(&from[i])) + 1]++] = from[i];
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

static inline void
insertion_sort(LazyEntry *entries, int n)
{
	for (int i = 1; i < n; i++)
	{
		LazyEntry	entry = entries[i];
		int			to = i;

		while (to > 0 && lazy_entry_compare(&entries[to - 1], &entry) > 0)
		{
			entries[to] = entries[to - 1];
			to--;
		}
		entries[to] = entry;
	}
}

static void
sort_run(LazyEntry *entries, int n)
{
	if (n <= SHORT_RUN)
		insertion_sort(entries, n);
	else if (!is_sorted(entries, n))
		lazy_entries_sort(entries, n);
}

void
lazy_radix_sort_page(const LazyEntry *from, LazyEntry *to, int n)
{
	uint16		end[PAGE_SLOTS];
	int			sum = 0;

	Assert(n <= LAZY_PAGE_CAPACITY);

	/* rows of one key, in the order of a scan; other keys fail at once */
	if (is_sorted(from, n))
	{
		memcpy(to, from, n * sizeof(LazyEntry));
		return;
	}

	memset(end, 0, sizeof(end));
	for (int i = 0; i < n; i++)
		end[PAGE_SLOT(&from[i])]++;
	for (int slot = 0; slot < PAGE_SLOTS; slot++)
	{
		int			count = end[slot];

		end[slot] = (uint16) sum;
		sum += count;
	}
	for (int i = 0; i < n; i++)
		to[end[PAGE_SLOT(&from[i])]++] = from[i];

	/* Whatever shares a slot is still to be ordered: few, unless hashes are equal. */
	for (int i = 0; i < n;)
	{
		int			run_end = end[PAGE_SLOT(&to[i])];

		if (run_end - i > 1)
			sort_run(&to[i], run_end - i);
		i = run_end;
	}
}

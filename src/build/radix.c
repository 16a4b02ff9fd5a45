/*
 * radix.c
 *		Distribution of entries by bucket, in memory.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "radix.h"

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

/*
 * collect.c
 *		Collects the entries of an index out of a scan of its table.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/genam.h"
#include "utils/memutils.h"

#include "../access/lazyhash.h"
#include "collect.h"
#include "writer.h"

/* Memory that a build takes beside entries and the writer's pages. */
#define OTHER_MEMORY		(96 * 1024)

/* A build needs room for a few pages' entries, whatever the setting says. */
#define LEAST_CAPACITY		((Size) 8 * LAZY_PAGE_CAPACITY)

/* A run of a spill counts its entries in 32 bits. */
#define MOST_CAPACITY		((Size) PG_UINT32_MAX)

Size
lazy_collect_capacity(Size memory)
{
	Size		other = LAZY_WRITER_MEMORY + OTHER_MEMORY;
	Size		capacity = memory > other ? (memory - other) / (2 * sizeof(LazyEntry)) : 0;

	return Min(Max(capacity, LEAST_CAPACITY), MOST_CAPACITY);
}

/*
 * The number of buckets is not known yet, and neither, therefore, which bits of
 * a hash say where in the index an entry belongs.  Suppose twice the estimate:
 * with the next power of two above that, the partitions hold ranges of the
 * buckets of any smaller index, too, only more of them together.
 */
void
lazy_collect_plan(LazyRadix *partitions, double estimate, uint32 ffactor, Size capacity)
{
	int64		nentries = (int64) Min(Max(estimate, 1.0), 1e15);
	uint32		maxbucket = lazy_highmask(lazy_buckets_for(2 * nentries, ffactor) - 1);
	int			bits = lazy_spill_bits(nentries, capacity) + 1;
	int			bucket_bits = pg_popcount32(maxbucket);

	bits = Min(bits, LAZY_SPILL_BITS);
	lazy_radix_init(partitions, maxbucket, 0, maxbucket, Max(bucket_bits - bits, 0));
}

void
lazy_collect_start(LazyCollector *collector, Relation index, Size capacity, double estimate,
				   const LazyRadix *partitions, LazySpill *spill)
{
	memset(collector, 0, sizeof(LazyCollector));
	collector->capacity = capacity;
	collector->allocated = (Size) Min(Max(estimate, 1024.0), (double) capacity);
	collector->entries = MemoryContextAllocHuge(CurrentMemoryContext,
												collector->allocated * sizeof(LazyEntry));
	collector->partitions = *partitions;
	collector->spill = spill;

	fmgr_info_copy(&collector->hash_function, index_getprocinfo(index, 1, LAZY_HASH_PROC),
				   CurrentMemoryContext);
	collector->collation = index->rd_indcollation[0];
	collector->hash_context = AllocSetContextCreate(CurrentMemoryContext,
													"lazyhash build: hash function",
													ALLOCSET_SMALL_SIZES);
}

static void
make_room(LazyCollector *collector)
{
	if (collector->allocated < collector->capacity)
	{
		collector->allocated = Min(2 * collector->allocated, collector->capacity);
		collector->entries = repalloc_huge(collector->entries,
										   collector->allocated * sizeof(LazyEntry));
		return;
	}
	lazy_collect_spill(collector);
}

static uint32
hash_value(LazyCollector *collector, Datum value)
{
	MemoryContext caller = MemoryContextSwitchTo(collector->hash_context);
	uint32		hash = DatumGetUInt32(FunctionCall1Coll(&collector->hash_function,
														collector->collation, value));

	MemoryContextSwitchTo(caller);
	MemoryContextReset(collector->hash_context);
	return hash;
}

void
lazy_collect(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	LazyCollector *collector = (LazyCollector *) state;

	if (isnull[0])
		return;
	lazy_require_offset(index, tid);
	if (collector->n == collector->allocated)
		make_room(collector);
	lazy_entry_set(&collector->entries[collector->n++], hash_value(collector, values[0]), tid);
	collector->nentries++;
}

void
lazy_collect_spill(LazyCollector *collector)
{
	if (collector->spill == NULL)
	{
		collector->spill = palloc(sizeof(LazySpill));
		lazy_spill_init(collector->spill, BufFileCreateTemp(false), &collector->partitions,
						palloc(collector->partitions.nslots * sizeof(LazySpillPartition)));
	}
	if (collector->n == 0)
		return;
	if (collector->scratch == NULL)
		collector->scratch = MemoryContextAllocHuge(GetMemoryChunkContext(collector->entries),
													collector->allocated * sizeof(LazyEntry));
	lazy_spill_write(collector->spill, collector->entries, collector->scratch, collector->n);
	collector->n = 0;
}

void
lazy_collect_end(LazyCollector *collector)
{
	pfree(collector->entries);
	if (collector->scratch != NULL)
		pfree(collector->scratch);
	MemoryContextDelete(collector->hash_context);
}

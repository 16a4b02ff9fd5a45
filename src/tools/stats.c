/*
 * stats.c
 *		Figures about buckets, one by one and all together.
 *
 * Only AccessShareLock on the index is taken, so that beside writers the figures
 * of one bucket and those of another are not of the same moment.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "../access/lazyhash.h"
#include "tools.h"

PG_FUNCTION_INFO_V1(lazyhash_bucket_info);
PG_FUNCTION_INFO_V1(lazyhash_stats);

typedef struct BucketFigures
{
	BlockNumber primary;
	BlockNumber pages;
	int64		entries;
	int64		dead;
	int64		posted;
	uint32		stamp;
	uint16		flags;
} BucketFigures;

static double
percent(double part, double whole)
{
	return whole > 0 ? 100.0 * part / whole : 0;
}

/*
 * Counts what a bucket holds.  The metapage is read again if the bucket was
 * split since it was read last.
 */
static void
count_bucket(LazyWalk *walk, LazyMetaData *meta, uint32 bucket, BucketFigures *figures)
{
	LazyWalkResult result;

	do
	{
		result = lazy_walk_start(walk, meta, bucket);
		if (walk->state.stamp > meta->maxbucket)
			lazy_tool_meta(walk->index, meta);
		memset(figures, 0, sizeof(BucketFigures));
		figures->primary = walk->primary;
		figures->stamp = walk->state.stamp;
		figures->flags = walk->state.flags;
		for (; result == LAZY_WALK_PAGE; result = lazy_walk_next(walk))
		{
			Page		page = lazy_walk_page(walk);
			uint16		positions[LAZY_PAGE_CAPACITY];

			figures->pages++;
			figures->entries += lazy_page_count(page);
			figures->dead += lazy_page_dead(page, positions);
			figures->posted += lazy_special(page)->posted;
		}
	} while (result != LAZY_WALK_END);
}

/* ---- each bucket ---- */

#define BUCKET_INFO_COLUMNS	9

static void
put_bucket(ReturnSetInfo *result, uint32 bucket, const BucketFigures *figures)
{
	Datum		values[BUCKET_INFO_COLUMNS];
	bool		nulls[BUCKET_INFO_COLUMNS] = {false};
	const char *state = "normal";
	int			i = 0;

	if (figures->flags & LAZY_BEING_SPLIT)
		state = "being split";
	else if (figures->flags & LAZY_BEING_POPULATED)
		state = "being populated";

	values[i++] = Int64GetDatum((int64) bucket);
	values[i++] = Int64GetDatum((int64) figures->primary);
	values[i++] = Int64GetDatum((int64) figures->pages);
	values[i++] = Int64GetDatum(figures->entries);
	values[i++] = Int64GetDatum(figures->dead);
	values[i++] = Int64GetDatum(figures->entries - figures->posted);
	values[i++] = Float8GetDatum(percent(figures->entries,
										 (double) figures->pages * LAZY_PAGE_CAPACITY));
	values[i++] = Int64GetDatum((int64) figures->stamp);
	values[i++] = CStringGetTextDatum(state);
	Assert(i == BUCKET_INFO_COLUMNS);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum
lazyhash_bucket_info(PG_FUNCTION_ARGS)
{
	Relation	index = lazy_tool_open(PG_GETARG_OID(0), AccessShareLock);
	LazyMetaData meta;
	LazyWalk	walk;

	InitMaterializedSRF(fcinfo, 0);
	lazy_tool_meta(index, &meta);
	lazy_walk_init(&walk, index, GetAccessStrategy(BAS_BULKREAD));
	for (uint32 bucket = 0; bucket <= meta.maxbucket; bucket++)
	{
		BucketFigures figures;

		count_bucket(&walk, &meta, bucket, &figures);
		put_bucket((ReturnSetInfo *) fcinfo->resultinfo, bucket, &figures);
	}
	lazy_tool_close(index, AccessShareLock);
	PG_RETURN_NULL();
}

/* ---- the whole index ---- */

typedef struct IndexFigures
{
	int64		primary_pages;
	int64		overflow_pages;
	int64		free_pages;
	int64		reserved_pages; /* kept for buckets to come */
	int64		entries;
	int64		dead;
	int64		posted;
	int64		longest_chain;
	double		lookup_pages;	/* sum over all entries of the pages that finding one reads */
} IndexFigures;

/*
 * A lookup reads the whole chain of the bucket; while the bucket is being
 * populated, that of the source as well.
 */
static void
add_bucket(IndexFigures *sum, const BucketFigures *figures, BlockNumber source_pages)
{
	sum->primary_pages++;
	sum->overflow_pages += figures->pages - 1;
	sum->entries += figures->entries;
	sum->dead += figures->dead;
	sum->posted += figures->posted;
	sum->longest_chain = Max(sum->longest_chain, (int64) figures->pages);
	sum->lookup_pages += (double) figures->entries * (figures->pages + source_pages);
}

static void
add_all_buckets(IndexFigures *sum, LazyWalk *walk, LazyMetaData *meta)
{
	for (uint32 bucket = 0; bucket <= meta->maxbucket; bucket++)
	{
		BucketFigures figures;
		BucketFigures source = {.pages = 0};

		count_bucket(walk, meta, bucket, &figures);
		if ((figures.flags & LAZY_BEING_POPULATED) && bucket > 0)
			count_bucket(walk, meta, lazy_source_bucket(bucket), &source);
		add_bucket(sum, &figures, source.pages);
	}
}

/* Pages in phases whose bucket does not exist yet. */
static int64
blocks_kept(const LazyMetaData *meta)
{
	uint32		last = meta->nphases - 1;

	return (int64) lazy_phase_first_bucket(last) + lazy_phase_length(last) -
		((int64) meta->maxbucket + 1);
}

/*
 * Counts the free pages, which lie outside phases.  There is no list of them but
 * the free space map, which may be behind, so the pages themselves are asked.
 */
static void
count_free_pages(IndexFigures *sum, LazyWalk *walk, const LazyMetaData *meta)
{
	uint32		phase = 0;
	PGAlignedBlock copy;

	for (BlockNumber block = LAZY_METAPAGE + 1; block < walk->nblocks; block++)
	{
		if (phase < meta->nphases && block == meta->phase_start[phase])
		{
			block += lazy_phase_length(phase++) - 1;
			continue;
		}
		CHECK_FOR_INTERRUPTS();
		lazy_tool_copy(walk->index, block, walk->strategy, copy.data);
		if (lazy_page_problem(copy.data) == NULL && lazy_page_kind(copy.data) == LAZY_KIND_FREE)
			sum->free_pages++;
	}
}

bool
lazy_lookup_figures(Relation index, LazyLookupFigures *figures)
{
	IndexFigures sum = {0};
	LazyMetaData meta;
	LazyWalk	walk;

	lazy_tool_meta(index, &meta);
	lazy_walk_init(&walk, index, GetAccessStrategy(BAS_BULKREAD));
	add_all_buckets(&sum, &walk, &meta);
	figures->longest_chain = sum.longest_chain;
	figures->pages_per_lookup = sum.entries > 0 ? sum.lookup_pages / sum.entries : 0;
	return sum.entries > 0;
}

#define STATS_COLUMNS	16

static Datum
stats_row(TupleDesc desc, const IndexFigures *sum, const LazyMetaData *meta, BlockNumber nblocks)
{
	int64		known = 1 + sum->primary_pages + sum->overflow_pages + sum->free_pages +
		sum->reserved_pages;
	double		room = (double) (sum->primary_pages + sum->overflow_pages) * LAZY_PAGE_CAPACITY;
	Datum		values[STATS_COLUMNS];
	bool		nulls[STATS_COLUMNS] = {false};
	int			i = 0;

	values[i++] = Int64GetDatum((int64) meta->maxbucket + 1);
	values[i++] = Int64GetDatum((int64) nblocks);
	values[i++] = Int64GetDatum(sum->primary_pages);
	values[i++] = Int64GetDatum(sum->overflow_pages);
	values[i++] = Int64GetDatum(sum->free_pages);
	values[i++] = Int64GetDatum(sum->reserved_pages);
	values[i++] = Int64GetDatum(Max((int64) nblocks - known, 0));
	values[i++] = Int32GetDatum((int32) meta->ffactor);
	values[i++] = Int64GetDatum(sum->entries);
	values[i++] = Int64GetDatum(sum->posted);
	values[i++] = Int64GetDatum(sum->entries - sum->posted);
	values[i++] = Int64GetDatum(sum->dead);
	values[i++] = Float8GetDatum(percent(room - sum->entries, room));
	values[i++] = Int64GetDatum(sum->longest_chain);
	values[i++] = Float8GetDatum(sum->entries > 0 ? sum->lookup_pages / sum->entries : 0);
	nulls[i - 1] = sum->entries == 0;
	values[i++] = Float8GetDatum(sum->entries > 0 ? (double) nblocks * BLCKSZ / sum->entries : 0);
	nulls[i - 1] = sum->entries == 0;
	Assert(i == STATS_COLUMNS);
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

Datum
lazyhash_stats(PG_FUNCTION_ARGS)
{
	Relation	index = lazy_tool_open(PG_GETARG_OID(0), AccessShareLock);
	TupleDesc	desc;
	IndexFigures sum = {0};
	LazyMetaData meta;
	LazyWalk	walk;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(desc);

	lazy_tool_meta(index, &meta);
	lazy_walk_init(&walk, index, GetAccessStrategy(BAS_BULKREAD));
	add_all_buckets(&sum, &walk, &meta);
	sum.reserved_pages = blocks_kept(&meta);
	count_free_pages(&sum, &walk, &meta);
	lazy_tool_close(index, AccessShareLock);
	PG_RETURN_DATUM(stats_row(desc, &sum, &meta, walk.nblocks));
}

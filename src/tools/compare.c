/*
 * compare.c
 *		Pages that a lookup reads, for indexes of btree, of hash and of our own,
 *		reckoned alike so that lazyhash_compare() can put them side by side.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/hash.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

#include "../access/lazyhash.h"
#include "tools.h"

PG_FUNCTION_INFO_V1(lazyhash_lookup_figures);

/* What pages of a bucket of the built-in hash hold together. */
typedef struct HashBucket
{
	uint32		pages;
	uint32		entries;
} HashBucket;

/* Pages from the root to a leaf.  Nothing is known of an index without a root. */
static bool
btree_figures(Relation index, LazyLookupFigures *figures)
{
	PGAlignedBlock copy;
	BTMetaPageData *meta = BTPageGetMeta(copy.data);

	lazy_tool_copy(index, BTREE_METAPAGE, NULL, copy.data);
	if (meta->btm_magic != BTREE_MAGIC)
		lazy_corrupted(index, BTREE_METAPAGE, "It is not the metapage of a btree.");
	figures->longest_chain = 0;
	figures->pages_per_lookup = meta->btm_fastlevel + 1.0;
	return meta->btm_fastroot != P_NONE;
}

/* Number of buckets of a built-in hash index. */
static uint32
hash_buckets(Relation index)
{
	PGAlignedBlock copy;
	HashMetaPage meta = HashPageGetMeta(copy.data);

	lazy_tool_copy(index, HASH_METAPAGE, NULL, copy.data);
	if (meta->hashm_magic != HASH_MAGIC)
		lazy_corrupted(index, HASH_METAPAGE, "It is not the metapage of a hash index.");
	return meta->hashm_maxbucket + 1;
}

/* Adds one page, of whatever kind, to what its bucket holds. */
static void
add_hash_page(Page page, HashBucket *buckets, uint32 nbuckets)
{
	HashPageOpaque opaque;

	if (PageIsNew(page) || PageGetSpecialSize(page) != MAXALIGN(sizeof(HashPageOpaqueData)))
		return;
	opaque = HashPageGetOpaque(page);
	if ((opaque->hasho_flag & (LH_BUCKET_PAGE | LH_OVERFLOW_PAGE)) == 0 ||
		opaque->hasho_bucket >= nbuckets)
		return;
	buckets[opaque->hasho_bucket].pages++;
	buckets[opaque->hasho_bucket].entries += PageGetMaxOffsetNumber(page);
}

/*
 * Reads all pages in the order of the file: which bucket each belongs to is said
 * on it, so the chains need not be followed.
 */
static bool
hash_figures(Relation index, LazyLookupFigures *figures)
{
	uint32		nbuckets = hash_buckets(index);
	HashBucket *buckets = palloc_extended(nbuckets * sizeof(HashBucket),
										  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);
	double		entries = 0;
	double		lookup_pages = 0;
	PGAlignedBlock copy;

	for (BlockNumber block = HASH_METAPAGE + 1; block < nblocks; block++)
	{
		CHECK_FOR_INTERRUPTS();
		lazy_tool_copy(index, block, strategy, copy.data);
		add_hash_page(copy.data, buckets, nbuckets);
	}

	figures->longest_chain = 0;
	for (uint32 i = 0; i < nbuckets; i++)
	{
		figures->longest_chain = Max(figures->longest_chain, (int64) buckets[i].pages);
		entries += buckets[i].entries;
		lookup_pages += (double) buckets[i].entries * buckets[i].pages;
	}
	pfree(buckets);
	figures->pages_per_lookup = entries > 0 ? lookup_pages / entries : 0;
	return entries > 0;
}

/*
 * Opens an index that the user may rebuild, its table locked against writers
 * until the end of the transaction, so that what is reckoned of one index of the
 * table and what of another is of the same rows.
 */
static Relation
open_with_table_locked(Oid indexoid)
{
	Oid			heapoid = IndexGetRelation(indexoid, true);
	Relation	heap;

	if (!OidIsValid(heapoid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("there is no index with OID %u", indexoid)));
	if (!lazy_owns_relation(heapoid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(heapoid));
	heap = table_open(heapoid, ShareLock);
	table_close(heap, NoLock);
	return index_open(indexoid, AccessShareLock);
}

static bool
figures_of(Relation index, LazyLookupFigures *figures)
{
	switch (index->rd_rel->relam)
	{
		case BTREE_AM_OID:
			return btree_figures(index, figures);
		case HASH_AM_OID:
			return hash_figures(index, figures);
		default:
			lazy_require_lazyhash(index);
			return lazy_lookup_figures(index, figures);
	}
}

Datum
lazyhash_lookup_figures(PG_FUNCTION_ARGS)
{
	Relation	index = open_with_table_locked(PG_GETARG_OID(0));
	LazyLookupFigures figures;
	TupleDesc	desc;
	Datum		values[2];
	bool		nulls[2];

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(desc);

	nulls[0] = !figures_of(index, &figures);
	values[0] = Float8GetDatum(figures.pages_per_lookup);
	nulls[1] = figures.longest_chain == 0;
	values[1] = Int64GetDatum(figures.longest_chain);
	index_close(index, AccessShareLock);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, nulls)));
}

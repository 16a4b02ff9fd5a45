/*
 * inspect.c
 *		What is in an index: its metapage, a page, the entries of a page.
 *
 * Only AccessShareLock on the index is taken, and one page at a time is locked
 * for as long as it takes to copy it.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/tuplestore.h"

#include "../access/lazyhash.h"
#include "tools.h"

PG_FUNCTION_INFO_V1(lazyhash_metapage_info);
PG_FUNCTION_INFO_V1(lazyhash_page_info);
PG_FUNCTION_INFO_V1(lazyhash_page_entries);

/* The row that a function is to return is described where it was declared. */
static TupleDesc
result_type(FunctionCallInfo fcinfo)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return BlessTupleDesc(desc);
}

/* ---- the metapage ---- */

#define METAPAGE_INFO_COLUMNS	10

static Datum
phases_as_array(const LazyMetaData *meta)
{
	Datum	   *elements = palloc(meta->nphases * sizeof(Datum));

	for (uint32 i = 0; i < meta->nphases; i++)
		elements[i] = Int64GetDatum((int64) meta->phase_start[i]);
	return PointerGetDatum(construct_array(elements, meta->nphases, INT8OID, sizeof(int64),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

Datum
lazyhash_metapage_info(PG_FUNCTION_ARGS)
{
	Relation	index = lazy_tool_open(PG_GETARG_OID(0), AccessShareLock);
	TupleDesc	desc = result_type(fcinfo);
	LazyMetaData meta;
	Datum		values[METAPAGE_INFO_COLUMNS];
	bool		nulls[METAPAGE_INFO_COLUMNS] = {false};
	int			i = 0;

	lazy_tool_meta(index, &meta);
	lazy_tool_close(index, AccessShareLock);

	values[i++] = CStringGetTextDatum(psprintf("%08x", meta.magic));
	values[i++] = Int32GetDatum((int32) meta.version);
	values[i++] = Int64GetDatum((int64) meta.features);
	values[i++] = Int32GetDatum((int32) meta.ffactor);
	values[i++] = Int64GetDatum(meta.ntuples);
	values[i++] = Int64GetDatum((int64) meta.maxbucket);
	values[i++] = Int64GetDatum((int64) meta.highmask);
	values[i++] = Int64GetDatum((int64) meta.lowmask);
	values[i++] = Int32GetDatum((int32) meta.nphases);
	values[i++] = phases_as_array(&meta);
	Assert(i == METAPAGE_INFO_COLUMNS);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, nulls)));
}

/* ---- one page ---- */

/*
 * Copies the block of the index that a caller asks for, and tells what it is:
 * 0 for a page of zeroes.  A page that is not in order is an error.
 */
static uint16
copy_block(Relation index, int64 block, Page copy)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);
	const char *problem;

	if (block < 0 || block >= (int64) nblocks)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("block number " INT64_FORMAT " is out of range", block),
				 errhint("Index \"%s\" has %u blocks, counted from 0.",
						 RelationGetRelationName(index), nblocks)));
	lazy_tool_copy(index, (BlockNumber) block, NULL, copy);
	if (lazy_page_is_zeroes(copy))
		return 0;
	if (block == LAZY_METAPAGE)
	{
		lazy_meta_verify(index, copy);
		return LAZY_KIND_META;
	}
	problem = lazy_page_problem(copy);
	if (problem != NULL)
		lazy_corrupted(index, (BlockNumber) block, "%s", problem);
	return lazy_page_kind(copy);
}

#define PAGE_INFO_COLUMNS	20

/* Column by column: those that say nothing about this kind of page are null. */
typedef struct RowBuilder
{
	Datum		values[PAGE_INFO_COLUMNS];
	bool		nulls[PAGE_INFO_COLUMNS];
	int			n;
} RowBuilder;

static void
add_column(RowBuilder *row, bool known, Datum value)
{
	Assert(row->n < PAGE_INFO_COLUMNS);
	row->values[row->n] = known ? value : (Datum) 0;
	row->nulls[row->n] = !known;
	row->n++;
}

static void
add_block_column(RowBuilder *row, bool known, BlockNumber block)
{
	add_column(row, known && block != InvalidBlockNumber, Int64GetDatum((int64) block));
}

static Datum
page_info(TupleDesc desc, Page page, uint16 kind)
{
	LazyPageSpecial special = lazy_special(page);
	bool		in_bucket = kind == LAZY_KIND_PRIMARY || kind == LAZY_KIND_OVERFLOW;
	bool		primary = kind == LAZY_KIND_PRIMARY;
	bool		special_area = in_bucket || kind == LAZY_KIND_FREE || kind == LAZY_KIND_RESERVED;
	RowBuilder	row = {.n = 0};

	add_column(&row, true, CStringGetTextDatum(kind == 0 ? "zeroes" : lazy_kind_name(kind)));
	add_column(&row, kind != 0, LSNGetDatum(PageGetLSN(page)));
	add_column(&row, in_bucket, Int64GetDatum((int64) special->bucket));
	add_column(&row, in_bucket, Int32GetDatum(lazy_page_count(page)));
	add_column(&row, in_bucket, Int32GetDatum(lazy_page_room(page)));
	add_column(&row, in_bucket, Int32GetDatum(special->nsorted));
	add_column(&row, in_bucket, Int32GetDatum(special->nruns));
	if (in_bucket)
	{
		uint16		positions[LAZY_PAGE_CAPACITY];

		add_column(&row, true, Int32GetDatum(lazy_page_dead(page, positions)));
	}
	else
		add_column(&row, false, 0);
	add_column(&row, special_area, Int32GetDatum(special->posted));
	add_column(&row, in_bucket, Int32GetDatum(lazy_page_pending(page)));
	add_block_column(&row, in_bucket, special->next);
	add_block_column(&row, primary, special->tail);
	add_column(&row, primary, Int64GetDatum((int64) special->stamp));
	add_column(&row, primary, Int64GetDatum((int64) special->version));
	add_column(&row, special_area, Int64GetDatum((int64) special->deletions));
	add_block_column(&row, primary, special->split_next);
	add_column(&row, primary, BoolGetDatum(lazy_page_has(page, LAZY_BEING_SPLIT)));
	add_column(&row, primary, BoolGetDatum(lazy_page_has(page, LAZY_BEING_POPULATED)));
	add_column(&row, in_bucket, BoolGetDatum(lazy_page_has(page, LAZY_HAS_DEAD)));
	add_column(&row, special_area, Int32GetDatum(special->flags));
	Assert(row.n == PAGE_INFO_COLUMNS);
	return HeapTupleGetDatum(heap_form_tuple(desc, row.values, row.nulls));
}

Datum
lazyhash_page_info(PG_FUNCTION_ARGS)
{
	Relation	index = lazy_tool_open(PG_GETARG_OID(0), AccessShareLock);
	TupleDesc	desc = result_type(fcinfo);
	PGAlignedBlock copy;
	uint16		kind = copy_block(index, PG_GETARG_INT64(1), copy.data);

	lazy_tool_close(index, AccessShareLock);
	PG_RETURN_DATUM(page_info(desc, copy.data, kind));
}

/* ---- the entries of a page ---- */

#define PAGE_ENTRIES_COLUMNS	5

static void
put_entry(ReturnSetInfo *result, const LazyEntry *entry, int position, bool sorted)
{
	ItemPointerData tid = lazy_entry_tid(entry);
	Datum		values[PAGE_ENTRIES_COLUMNS];
	bool		nulls[PAGE_ENTRIES_COLUMNS] = {false};

	values[0] = Int32GetDatum(position);
	values[1] = Int64GetDatum((int64) lazy_entry_hash(entry));
	values[2] = PointerGetDatum(&tid);
	values[3] = BoolGetDatum(sorted);
	values[4] = BoolGetDatum(lazy_entry_is_dead(entry));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum
lazyhash_page_entries(PG_FUNCTION_ARGS)
{
	Relation	index = lazy_tool_open(PG_GETARG_OID(0), AccessShareLock);
	int64		block = PG_GETARG_INT64(1);
	PGAlignedBlock copy;
	Page		page = copy.data;
	uint16		kind = copy_block(index, block, page);

	if (kind != LAZY_KIND_PRIMARY && kind != LAZY_KIND_OVERFLOW)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("block " INT64_FORMAT " of index \"%s\" holds no entries",
						block, RelationGetRelationName(index)),
				 errdetail("It is of kind %s.", kind == 0 ? "zeroes" : lazy_kind_name(kind)),
				 errhint("Only primary and overflow pages hold entries.")));
	lazy_tool_close(index, AccessShareLock);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < lazy_page_count(page); i++)
		put_entry((ReturnSetInfo *) fcinfo->resultinfo, &lazy_entries(page)[i], i,
				  i < lazy_special(page)->nsorted);
	PG_RETURN_NULL();
}

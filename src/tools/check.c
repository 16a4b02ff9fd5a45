/*
 * check.c
 *		lazyhash_check(): proves the invariants of an index.
 *
 * On a primary server the table and the index are locked in ShareLock mode:
 * reads go on, whoever wants to write waits, and so does VACUUM.  Nothing can
 * change then but dead bits, which are hints.
 *
 * On a standby replay cannot be locked out.  Each bucket is checked by itself,
 * and again if replay has changed it meanwhile.  What only the whole index can
 * show (the ledger, that each block is of some use) is checked if nothing was
 * replayed during the pass; so some passes are made, and if replay never paused
 * for one, a NOTICE says what was left out.
 *
 * An unfinished split is not an error: a crash leaves one.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "utils/guc.h"

#include "../access/lazyhash.h"
#include "check.h"

PG_FUNCTION_INFO_V1(lazyhash_check);

/* Passes to make on a standby in the hope that nothing is replayed meanwhile. */
#define MAX_PASSES		3

/* ---- has the index moved? ---- */

/*
 * Replay announces a record before it applies it, and says so again when it is
 * done.  If what is announced now is what was done when the pass began, nothing
 * was applied in between.
 */
bool
lazy_check_moved(const LazyCheck *check)
{
	if (check->writers_locked_out)
		return false;
	/* promoted meanwhile: there may be writers */
	if (!RecoveryInProgress())
		return true;
	return GetCurrentReplayRecPtr(NULL) != check->pass_start;
}

void
lazy_check_reload(LazyCheck *check)
{
	lazy_tool_meta(check->index, &check->meta);
}

/* The highest of the bucket's own number and those of buckets that came out of it. */
static uint32
last_split(uint32 bucket, uint32 maxbucket)
{
	uint32		last = bucket;

	for (uint64 bit = (uint64) lazy_highmask(bucket) + 1; bucket + bit <= maxbucket; bit *= 2)
		last = bucket + (uint32) bit;
	return last;
}

/*
 * A stamp that is too low would let a backend with an old copy of the metapage
 * look for entries where they have been once.  The bucket was read after our
 * copy, so whatever split the copy knows of shows in the stamp.
 */
void
lazy_check_stamp(LazyCheck *check, LazyWalk *walk)
{
	uint32		least = last_split(walk->bucket, check->meta.maxbucket);

	if (walk->state.stamp < least)
		lazy_corrupted(check->index, walk->primary,
					   "Bucket %u has stamp %u, but took part in the split that made bucket %u.",
					   walk->bucket, walk->state.stamp, least);
	if (walk->state.stamp <= check->meta.maxbucket)
		return;
	lazy_check_reload(check);
	if (walk->state.stamp > check->meta.maxbucket)
		lazy_corrupted(check->index, walk->primary,
					   "Bucket %u has stamp %u, but the highest bucket is %u.",
					   walk->bucket, walk->state.stamp, check->meta.maxbucket);
}

/* ---- blocks that are in no chain ---- */

/*
 * The phases lie one behind the other, or the metapage would have been refused;
 * the last is to end within the file.
 */
static void
check_phases(const LazyCheck *check)
{
	uint32		last = check->meta.nphases - 1;
	uint64		end = (uint64) check->meta.phase_start[last] + lazy_phase_length(last);

	if (end > check->nblocks)
		lazy_corrupted(check->index, LAZY_METAPAGE,
					   "The phase of bucket %u is to end before block " UINT64_FORMAT
					   ", but the index has %u blocks.",
					   lazy_phase_first_bucket(last), end, check->nblocks);
}

static inline bool
is_reached(const LazyCheck *check, BlockNumber block)
{
	return (check->reached[block / 64] & ((uint64) 1 << (block % 64))) != 0;
}

/*
 * A block of a phase whose bucket does not exist yet: zeroes, or, at the end of
 * the phase, reserved.
 */
static void
check_future_bucket(LazyCheck *check, Page page, BlockNumber block, bool last)
{
	const char *problem;

	if (lazy_page_is_zeroes(page) && !last)
		return;
	problem = lazy_page_problem(page);
	if (lazy_check_moved(check))
		return;
	if (problem != NULL)
		lazy_corrupted(check->index, block, "%s", problem);
	if (!last)
		lazy_corrupted(check->index, block,
					   "The block is kept for a bucket to come, but the page is of kind %s.",
					   lazy_kind_name(lazy_page_kind(page)));
	if (lazy_page_kind(page) != LAZY_KIND_RESERVED)
		lazy_corrupted(check->index, block,
					   "The block ends a phase and is to be reserved, but the page is of kind %s.",
					   lazy_kind_name(lazy_page_kind(page)));
	if (lazy_special(page)->posted != 0)
		lazy_corrupted(check->index, block, "The page is reserved, but has posted %d entries.",
					   lazy_special(page)->posted);
}

/*
 * A block outside phases that no chain leads to: free, or of zeroes, as a crash
 * leaves it just after the file was extended.
 */
static void
check_spare_block(LazyCheck *check, Page page, BlockNumber block)
{
	const char *problem;

	if (lazy_page_is_zeroes(page))
	{
		check->orphans++;
		return;
	}
	problem = lazy_page_problem(page);
	if (lazy_check_moved(check))
		return;
	if (problem != NULL)
		lazy_corrupted(check->index, block, "%s", problem);
	switch (lazy_page_kind(page))
	{
		case LAZY_KIND_FREE:
			if (lazy_special(page)->posted != 0)
				lazy_corrupted(check->index, block,
							   "The page is free, but has posted %d entries.",
							   lazy_special(page)->posted);
			check->free_pages++;
			break;
		case LAZY_KIND_OVERFLOW:
			lazy_corrupted(check->index, block,
						   "The overflow page says that it belongs to bucket %u, "
						   "but is not in that bucket's chain.",
						   lazy_special(page)->bucket);
		default:
			lazy_corrupted(check->index, block,
						   "The block lies in no phase, but the page is of kind %s.",
						   lazy_kind_name(lazy_page_kind(page)));
	}
}

/* Goes through the blocks that the walks through the buckets have not come by. */
static void
check_other_blocks(LazyCheck *check)
{
	const LazyMetaData *meta = &check->meta;
	uint32		phase = 0;
	PGAlignedBlock copy;

	for (BlockNumber block = LAZY_METAPAGE + 1; block < check->nblocks; block++)
	{
		while (phase < meta->nphases &&
			   block >= meta->phase_start[phase] + lazy_phase_length(phase))
			phase++;
		if (is_reached(check, block))
			continue;
		CHECK_FOR_INTERRUPTS();
		lazy_tool_copy(check->index, block, check->strategy, copy.data);
		if (phase < meta->nphases && block >= meta->phase_start[phase])
			check_future_bucket(check, copy.data, block,
								block == meta->phase_start[phase] + lazy_phase_length(phase) - 1);
		else
			check_spare_block(check, copy.data, block);
		if (lazy_check_moved(check))
			break;
	}
}

/* The sum of what the pages have posted is what the metapage counts. */
static void
check_ledger(LazyCheck *check)
{
	if (check->posted != check->meta.ntuples && !lazy_check_moved(check))
		lazy_corrupted(check->index, LAZY_METAPAGE,
					   "The metapage counts " INT64_FORMAT " entries, but the pages have posted "
					   INT64_FORMAT ".",
					   check->meta.ntuples, check->posted);
}

/* ---- passes ---- */

static void
start_pass(LazyCheck *check)
{
	Size		words;

	if (!check->writers_locked_out)
		check->pass_start = GetXLogReplayRecPtr(NULL);
	lazy_check_reload(check);
	check->nblocks = RelationGetNumberOfBlocks(check->index);
	check_phases(check);

	if (check->reached != NULL)
		pfree(check->reached);
	words = (Size) check->nblocks / 64 + 1;
	check->reached = MemoryContextAllocExtended(CurrentMemoryContext, words * sizeof(uint64),
												MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	check->posted = 0;
	check->entries = 0;
	check->dead = 0;
	check->overflow_pages = 0;
	check->free_pages = 0;
	check->orphans = 0;
}

/* One pass over all buckets and blocks.  False if the index moved meanwhile. */
static bool
check_pass(LazyCheck *check)
{
	start_pass(check);
	for (uint32 bucket = 0; bucket <= check->meta.maxbucket; bucket++)
		lazy_check_bucket(check, bucket);
	if (lazy_check_moved(check))
		return false;
	check_ledger(check);
	check_other_blocks(check);
	return !lazy_check_moved(check);
}

static void
check_index(LazyCheck *check)
{
	int			passes = 1;

	while (!check_pass(check))
	{
		if (passes++ < MAX_PASSES)
			continue;
		ereport(NOTICE,
				(errmsg("index \"%s\" was checked bucket by bucket only",
						RelationGetRelationName(check->index)),
				 errdetail("WAL was replayed meanwhile, so the count in the metapage and the use "
						   "of blocks outside buckets could not be verified."),
				 errhint("Pause replay, with pg_wal_replay_pause(), and check again.")));
		return;
	}
	ereport(DEBUG1,
			(errmsg_internal("index \"%s\": %u buckets, %u overflow pages, %u free pages, "
							 "%u blocks of zeroes outside phases, " INT64_FORMAT " entries, "
							 INT64_FORMAT " marked dead, " INT64_FORMAT " pending",
							 RelationGetRelationName(check->index), check->meta.maxbucket + 1,
							 check->overflow_pages, check->free_pages, check->orphans,
							 check->entries, check->dead, check->entries - check->posted)));
}

/* ---- locks ---- */

/* Locks the table and the index, in this order; refuses what cannot be checked. */
static void
open_relations(LazyCheck *check, Oid indexoid, LOCKMODE lockmode)
{
	Oid			heapoid = IndexGetRelation(indexoid, true);

	if (OidIsValid(heapoid))
		check->heap = try_table_open(heapoid, lockmode);
	check->index = lazy_tool_open(indexoid, lockmode);
	if (!check->index->rd_index->indisvalid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot check index \"%s\"", RelationGetRelationName(check->index)),
				 errdetail("The index is not valid."),
				 errhint("REINDEX it, or drop it, if no CREATE INDEX CONCURRENTLY "
						 "is at work on it.")));
	if (check->heap == NULL || heapoid != IndexGetRelation(indexoid, true))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("could not open the table of index \"%s\"",
						RelationGetRelationName(check->index))));
}

/*
 * Locks are let go at once.  Nothing was changed, so nobody needs to learn of
 * it at commit, and who checks all indexes holds but one table at a time.
 */
static void
close_relations(LazyCheck *check, LOCKMODE lockmode)
{
	lazy_tool_close(check->index, lockmode);
	table_close(check->heap, lockmode);
}

/*
 * Index expressions and hash functions are the table owner's code; run them
 * with no more rights than that, as the server does when it builds an index.
 */
static void
check_as_owner(LazyCheck *check, bool heapallindexed)
{
	Oid			user;
	int			context;
	int			nestlevel;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(check->heap->rd_rel->relowner,
						   context | SECURITY_RESTRICTED_OPERATION);
	nestlevel = NewGUCNestLevel();
	lazy_restrict_search_path();

	check_index(check);
	if (heapallindexed)
		lazy_check_heap(check);

	AtEOXact_GUC(false, nestlevel);
	SetUserIdAndSecContext(user, context);
}

Datum
lazyhash_check(PG_FUNCTION_ARGS)
{
	Oid			indexoid = PG_GETARG_OID(0);
	bool		heapallindexed = PG_GETARG_BOOL(1);
	LazyCheck  *check = palloc0(sizeof(LazyCheck));
	LOCKMODE	lockmode;

	/* a standby grants no stronger lock that would be of use */
	check->writers_locked_out = !RecoveryInProgress();
	lockmode = check->writers_locked_out ? ShareLock : AccessShareLock;
	open_relations(check, indexoid, lockmode);

	check->strategy = GetAccessStrategy(BAS_BULKREAD);
	check->heap_is_standard = check->heap->rd_rel->relam == HEAP_TABLE_AM_OID;
	if (check->heap_is_standard)
		check->heap_blocks = RelationGetNumberOfBlocks(check->heap);
	lazy_batch_init(&check->batch);
	check_as_owner(check, heapallindexed);

	close_relations(check, lockmode);
	PG_RETURN_VOID();
}

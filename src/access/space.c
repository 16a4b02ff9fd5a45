/*
 * space.c
 *		Where pages come from: overflow pages out of the free space map or from
 *		the end of the file, and phases of primary pages.
 *
 * The map is the server's own and may lie: it is not logged.  A block that it
 * names is used only if the page itself says that it is free.  A page of zeroes
 * is never free; somebody may be about to initialise it, or it belongs to a
 * phase.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/freespace.h"
#include "storage/indexfsm.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"

#include "../stats/stats.h"
#include "lazyhash.h"
#include "testpoint.h"

/* Candidates of the map to look at before the relation is extended. */
#define MAX_CANDIDATES		8

/*
 * Blocks that this backend has added beyond what it needed.  They are zeroes
 * until lazy_space_flush() makes free pages of them; should it never come to
 * that, VACUUM will.
 */
static struct
{
	RelFileLocator locator;
	BlockNumber first;
	BlockNumber count;
}			spare;

/* Takes the block, exclusively locked, if it is a free page that nobody uses. */
static Buffer
try_candidate(Relation index, BlockNumber block, uint32 *deletions)
{
	Buffer		buffer = lazy_read(index, block, NULL);
	Page		page = BufferGetPage(buffer);

	if (!ConditionalLockBuffer(buffer))
	{
		ReleaseBuffer(buffer);
		return InvalidBuffer;
	}
	if (lazy_page_problem(page) == NULL && lazy_page_kind(page) == LAZY_KIND_FREE)
	{
		*deletions = lazy_special(page)->deletions + 1;
		return buffer;
	}
	UnlockReleaseBuffer(buffer);
	return InvalidBuffer;
}

static Buffer
overflow_from_map(Relation index, uint32 *deletions)
{
	for (int i = 0; i < MAX_CANDIDATES; i++)
	{
		BlockNumber block = GetFreeIndexPage(index);
		Buffer		buffer;

		if (block == InvalidBlockNumber)
			break;
		/* the map survives a crash that the end of the file did not */
		if (block >= RelationGetNumberOfBlocks(index))
			continue;
		buffer = try_candidate(index, block, deletions);
		if (BufferIsValid(buffer))
			return buffer;
	}
	return InvalidBuffer;
}

/*
 * Adds blocks to the relation and returns the first, exclusively locked: locked
 * before the extension lock is let go, lest somebody take the page of zeroes
 * for an orphan.  The more backends wait for the lock, the more blocks.
 */
static Buffer
overflow_from_extension(Relation index)
{
	bool		lock = !RELATION_IS_LOCAL(index);
	uint32		wanted = 1;
	uint32		added;
	Buffer		buffer;

	if (lock && !ConditionalLockRelationForExtension(index, ExclusiveLock))
	{
		LockRelationForExtension(index, ExclusiveLock);
		wanted += 2 * (uint32) RelationExtensionLockWaiterCount(index);
	}

	buffer = lazy_extend(index, wanted, &added);

	if (lock)
		UnlockRelationForExtension(index, ExclusiveLock);
	if (added > 1)
	{
		spare.locator = index->rd_locator;
		spare.first = BufferGetBlockNumber(buffer) + 1;
		spare.count = added - 1;
	}
	LAZY_TEST_POINT("overflow-new");
	return buffer;
}

Buffer
lazy_overflow_new(Relation index, uint32 *deletions)
{
	Buffer		buffer = overflow_from_map(index, deletions);

	lazy_count(index, LAZY_OVERFLOW_ADDED, 1);
	if (BufferIsValid(buffer))
		return buffer;
	*deletions = 0;
	return overflow_from_extension(index);
}

bool
lazy_space_make_free(Relation index, BlockNumber block, BufferAccessStrategy strategy)
{
	Buffer		buffer = lazy_read(index, block, strategy);
	Page		page = BufferGetPage(buffer);
	bool		made = false;

	/* a page of zeroes that somebody has locked is about to be used */
	if (!ConditionalLockBuffer(buffer))
	{
		ReleaseBuffer(buffer);
		return false;
	}
	if (lazy_page_is_zeroes(page) ||
		(lazy_page_problem(page) == NULL && lazy_page_kind(page) == LAZY_KIND_RESERVED))
	{
		LazyChange	change;

		lazy_change_start(&change, index, LAZY_WAL_FREE);
		lazy_op_init(lazy_change_page(&change, buffer, true), LAZY_KIND_FREE, 0,
					 InvalidBlockNumber, 0, 0, 0);
		lazy_change_finish(&change);
		made = true;
	}
	else if (lazy_page_problem(page) == NULL && lazy_page_kind(page) == LAZY_KIND_FREE)
		made = true;
	UnlockReleaseBuffer(buffer);
	return made;
}

void
lazy_space_freed(Relation index, BlockNumber block)
{
	RecordFreeIndexPage(index, block);
	FreeSpaceMapVacuumRange(index, block, block + 1);
	lazy_count(index, LAZY_OVERFLOW_FREED, 1);
}

void
lazy_space_flush(Relation index)
{
	BlockNumber first = spare.first;
	BlockNumber count = spare.count;

	if (count == 0)
		return;
	spare.count = 0;
	if (memcmp(&spare.locator, &index->rd_locator, sizeof(RelFileLocator)) != 0)
		return;
	for (BlockNumber block = first; block < first + count; block++)
	{
		if (lazy_space_make_free(index, block, NULL))
			RecordFreeIndexPage(index, block);
	}
	FreeSpaceMapVacuumRange(index, first, first + count);
}

/*
 * Makes one phase at the end of the file: extends the file sparsely, then
 * reserves its last block and publishes the phase, in one change.  File length
 * is not logged, but the logged last block sees to it that after a crash the
 * end of the file never falls inside a phase.  The extension lock is held.
 */
static bool
make_phase(Relation index, uint32 phase)
{
	static PGIOAlignedBlock zeroes;
	const LazyCache *cache = lazy_cache_load(index);
	BlockNumber start = RelationGetNumberOfBlocks(index);
	uint32		length = lazy_phase_length(phase);
	BlockNumber last;
	LazyChange	change;
	Buffer		lastbuf;
	Buffer		metabuf;

	if (phase >= LAZY_MAX_PHASES || (uint64) start + length >= MaxBlockNumber)
		return false;
	if (phase > 0 && start < cache->phase_start[phase - 1] + lazy_phase_length(phase - 1))
		lazy_corrupted(index, LAZY_METAPAGE,
					   "A phase is to begin at block %u, but the file has only %u blocks.",
					   cache->phase_start[phase - 1], start);
	last = start + length - 1;
	smgrextend(RelationGetSmgr(index), MAIN_FORKNUM, last, zeroes.data, false);
	LAZY_TEST_POINT("phase-new");

	lastbuf = ReadBufferExtended(index, MAIN_FORKNUM, last, RBM_ZERO_AND_LOCK, NULL);
	metabuf = lazy_meta_lock(index, BUFFER_LOCK_EXCLUSIVE);
	lazy_change_start(&change, index, LAZY_WAL_PHASE);
	lazy_op_init(lazy_change_page(&change, lastbuf, true), LAZY_KIND_RESERVED,
				 lazy_phase_first_bucket(phase) + length - 1, InvalidBlockNumber, 0, 0, 0);
	lazy_op_meta_phase(lazy_change_page(&change, metabuf, false), start);
	lazy_change_finish(&change);
	UnlockReleaseBuffer(metabuf);
	UnlockReleaseBuffer(lastbuf);
	lazy_count(index, LAZY_PHASES_ADDED, 1);
	return true;
}

bool
lazy_phase_ensure(Relation index, uint32 bucket)
{
	bool		lock = !RELATION_IS_LOCAL(index);
	uint32		offset;
	uint32		phase = lazy_bucket_phase(bucket, &offset);
	bool		ok = true;

	if (phase < lazy_cache(index)->nphases)
		return true;
	if (lock)
		LockRelationForExtension(index, ExclusiveLock);
	/* under the lock: somebody else may have made it */
	for (uint32 next = lazy_cache_load(index)->nphases; ok && next <= phase; next++)
		ok = make_phase(index, next);
	if (lock)
		UnlockRelationForExtension(index, ExclusiveLock);
	lazy_cache_load(index);
	return ok;
}

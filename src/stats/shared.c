/*
 * shared.c
 *		The counters in shared memory.
 *
 * A table of fixed size, of which an index takes a slot when something is first
 * counted for it.  A hash table of the server would have to be another one for
 * each of the two kinds of shared memory that this may lie in, and is not
 * needed: each backend knows the slot of an index from the last time, and looks
 * through the keys, 32 kB, only if it is not that one any more.  Counters are
 * added to under a share lock, for they are atomic; slots come and go under an
 * exclusive one.
 *
 * A dropped index leaves its slot behind.  Whoever reads the statistics sees to
 * that.  Should nobody, and the slots run out, then the index for which nothing
 * was counted for the longest time loses its slot; what is counted for it later
 * starts anew, and "since" tells.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "../compat.h"
#include "stats.h"

/* Indexes of the whole cluster that are counted. */
#define SLOTS			4096

/* Of the memory and its lock.  The number is that of the layout. */
#define MEMORY_NAME		"lazyhash statistics 1"
#define TRANCHE_NAME	"lazyhash_stats"

typedef struct Key
{
	Oid			database;
	Oid			index;			/* invalid: the slot is free */
} Key;

typedef struct Slot
{
	pg_atomic_uint64 count[LAZY_NCOUNTERS];
	pg_atomic_uint64 last_used; /* when the transaction began that last counted something */
	TimestampTz since;
} Slot;

/* Two indexes in one cache line would keep each other waiting. */
typedef union PaddedSlot
{
	Slot		slot;
	char		pad[PG_CACHE_LINE_SIZE];
} PaddedSlot;

StaticAssertDecl(sizeof(PaddedSlot) == PG_CACHE_LINE_SIZE, "a slot is one cache line");

typedef struct Shared
{
	LWLockPadded lock;
	int			nslots;			/* slots from here on have never been used */
	Key			key[SLOTS];
	PaddedSlot	padded[SLOTS];
} Shared;

static Shared *shared = NULL;
static bool unavailable = false;	/* it was tried, and there is none */

static shmem_request_hook_type next_request_hook = NULL;
static shmem_startup_hook_type next_startup_hook = NULL;

/* ---- the memory ---- */

static void
init_memory(void *memory)
{
	Shared	   *new = memory;

	LWLockInitialize(&new->lock.lock, lazy_new_tranche(TRANCHE_NAME));
	new->nslots = 0;
	for (int i = 0; i < SLOTS; i++)
	{
		Slot	   *slot = &new->padded[i].slot;

		new->key[i].index = InvalidOid;
		for (int c = 0; c < LAZY_NCOUNTERS; c++)
			pg_atomic_init_u64(&slot->count[c], 0);
		pg_atomic_init_u64(&slot->last_used, 0);
	}
}

static void
request_memory(void)
{
	if (next_request_hook)
		next_request_hook();
	RequestAddinShmemSpace(MAXALIGN(sizeof(Shared)));
}

static void
start_memory(void)
{
	bool		found;

	if (next_startup_hook)
		next_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct(MEMORY_NAME, sizeof(Shared), &found);
	if (!found)
		init_memory(shared);
	LWLockRelease(AddinShmemInitLock);
	lazy_register_tranche(shared->lock.lock.tranche, TRANCHE_NAME);
}

void
lazy_stats_shared_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	next_request_hook = shmem_request_hook;
	shmem_request_hook = request_memory;
	next_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_memory;
}

bool
lazy_stats_attached(void)
{
	return shared != NULL;
}

bool
lazy_stats_wanted(void)
{
	return shared != NULL || (LAZY_HAS_NAMED_SEGMENTS && IsUnderPostmaster && !unavailable);
}

/* After an error in getting at it: says so, and goes on without. */
static void
give_up(MemoryContext context)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	LWLockReleaseAll();
	unavailable = true;
	ereport(LOG,
			(errmsg("this process does not collect statistics of lazyhash indexes"),
			 errdetail_internal("%s", error->message)));
	FreeErrorData(error);
}

/* Ends the use of a resource owner, with all that it still owns. */
static void
end_owner(ResourceOwner owner, ResourceOwner former)
{
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_BEFORE_LOCKS, false, false);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_LOCKS, false, false);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_AFTER_LOCKS, false, false);
	CurrentResourceOwner = former;
	ResourceOwnerDelete(owner);
}

/*
 * Gets at memory that the server makes as it is asked for.  That it has none
 * left is no reason for an insert to fail.  No lightweight lock was held before,
 * so those that are belong to whoever raised the error.
 */
bool
lazy_stats_attach(void)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner former = CurrentResourceOwner;
	ResourceOwner owner;

	if (shared != NULL || !lazy_stats_wanted())
		return shared != NULL;
	owner = CurrentResourceOwner = ResourceOwnerCreate(former, "lazyhash statistics");
	PG_TRY();
	{
		shared = lazy_named_segment(MEMORY_NAME, sizeof(Shared), init_memory);
		lazy_register_tranche(shared->lock.lock.tranche, TRANCHE_NAME);
	}
	PG_CATCH();
	{
		give_up(context);
	}
	PG_END_TRY();
	end_owner(owner, former);
	return shared != NULL;
}

/* ---- slots ---- */

static bool
slot_is(int slot, Oid database, Oid index)
{
	return shared->key[slot].database == database && shared->key[slot].index == index;
}

/* The slot of an index of this database, or -1. */
static int
find_slot(Oid index)
{
	for (int i = 0; i < shared->nslots; i++)
	{
		if (slot_is(i, MyDatabaseId, index))
			return i;
	}
	return -1;
}

/* A slot to be used anew: one that is free, else the one unused for the longest time. */
static int
vacant_slot(void)
{
	int			oldest = 0;
	uint64		oldest_use = PG_UINT64_MAX;

	if (shared->nslots < SLOTS)
		return shared->nslots++;
	for (int i = 0; i < SLOTS; i++)
	{
		uint64		last_used = pg_atomic_read_u64(&shared->padded[i].slot.last_used);

		if (!OidIsValid(shared->key[i].index))
			return i;
		if (last_used < oldest_use)
		{
			oldest = i;
			oldest_use = last_used;
		}
	}
	return oldest;
}

static void
clear_slot(int i)
{
	Slot	   *slot = &shared->padded[i].slot;

	for (int c = 0; c < LAZY_NCOUNTERS; c++)
		pg_atomic_write_u64(&slot->count[c], 0);
	slot->since = GetCurrentTimestamp();
}

static int
make_slot(Oid index)
{
	int			i = vacant_slot();

	clear_slot(i);
	shared->key[i].database = MyDatabaseId;
	shared->key[i].index = index;
	return i;
}

static void
add_to_slot(LazyStats *stats)
{
	Slot	   *slot = &shared->padded[stats->slot].slot;

	for (int c = 0; c < LAZY_NCOUNTERS; c++)
	{
		if (stats->count[c] > 0)
			pg_atomic_fetch_add_u64(&slot->count[c], stats->count[c]);
		stats->count[c] = 0;
	}
	pg_atomic_write_u64(&slot->last_used, GetCurrentTransactionStartTimestamp());
}

/* Adds what has a slot; the number of those in the list that have none is returned. */
static int
add_existing(LazyStats *list)
{
	int			missing = 0;

	LWLockAcquire(&shared->lock.lock, LW_SHARED);
	for (LazyStats *stats = list; stats != NULL; stats = stats->next)
	{
		if (stats->slot < 0 || !slot_is(stats->slot, MyDatabaseId, stats->index))
			stats->slot = find_slot(stats->index);
		if (stats->slot >= 0)
			add_to_slot(stats);
		else
			missing++;
	}
	LWLockRelease(&shared->lock.lock);
	return missing;
}

void
lazy_stats_add(LazyStats *list)
{
	if (add_existing(list) == 0)
		return;
	LWLockAcquire(&shared->lock.lock, LW_EXCLUSIVE);
	for (LazyStats *stats = list; stats != NULL; stats = stats->next)
	{
		if (stats->slot >= 0)
			continue;

		/* somebody else may have made it meanwhile */
		stats->slot = find_slot(stats->index);
		if (stats->slot < 0)
			stats->slot = make_slot(stats->index);
		add_to_slot(stats);
	}
	LWLockRelease(&shared->lock.lock);
}

int
lazy_stats_copy(LazyStatsRow **rows)
{
	int			n = 0;

	*rows = palloc(SLOTS * sizeof(LazyStatsRow));
	LWLockAcquire(&shared->lock.lock, LW_SHARED);
	for (int i = 0; i < shared->nslots; i++)
	{
		Slot	   *slot = &shared->padded[i].slot;
		LazyStatsRow *row = &(*rows)[n];

		if (!OidIsValid(shared->key[i].index))
			continue;
		row->database = shared->key[i].database;
		row->index = shared->key[i].index;
		row->since = slot->since;
		for (int c = 0; c < LAZY_NCOUNTERS; c++)
			row->count[c] = pg_atomic_read_u64(&slot->count[c]);
		n++;
	}
	LWLockRelease(&shared->lock.lock);
	return n;
}

void
lazy_stats_reset(Oid index)
{
	LWLockAcquire(&shared->lock.lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->nslots; i++)
	{
		if (OidIsValid(shared->key[i].index) && shared->key[i].database == MyDatabaseId &&
			(!OidIsValid(index) || shared->key[i].index == index))
			clear_slot(i);
	}
	LWLockRelease(&shared->lock.lock);
}

void
lazy_stats_forget(Oid database, Oid index)
{
	LWLockAcquire(&shared->lock.lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->nslots; i++)
	{
		if (slot_is(i, database, index))
			shared->key[i].index = InvalidOid;
	}
	LWLockRelease(&shared->lock.lock);
}

/*
 * count.c
 *		What this backend has counted, and when it is added to shared memory.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "stats.h"

/* In lazy_stats_recent, where there is nobody: has no OID that is ever asked for. */
static LazyStats nobody = {.index = InvalidOid};

/* Where there is no shared memory: counts that nobody looks at. */
static LazyStats unwanted;

static HTAB *all_stats = NULL;
static LazyStats *pending_list = NULL;

LazyStats  *lazy_stats_recent[LAZY_STATS_RECENT];

static void
forget_recent(void)
{
	for (int i = 0; i < LAZY_STATS_RECENT; i++)
		lazy_stats_recent[i] = &nobody;
}

static LazyStats *
find_or_make(Oid index)
{
	LazyStats  *stats;
	bool		found;

	if (all_stats == NULL)
	{
		HASHCTL		control = {
			.keysize = sizeof(Oid),
			.entrysize = sizeof(LazyStats),
			.hcxt = TopMemoryContext,
		};

		all_stats = hash_create("lazyhash statistics", 16, &control,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	stats = hash_search(all_stats, &index, HASH_ENTER, &found);
	if (!found)
	{
		stats->slot = 0;
		stats->pending = false;
		memset(stats->count, 0, sizeof(stats->count));
	}
	return stats;
}

/*
 * Whatever is asked for is going to be counted, so from here on it is pending.
 */
LazyStats *
lazy_stats_find(Oid index)
{
	LazyStats  *stats = &unwanted;

	if (!lazy_stats_wanted())
		unwanted.index = index;
	else
	{
		stats = find_or_make(index);
		if (!stats->pending)
		{
			stats->pending = true;
			stats->next = pending_list;
			pending_list = stats;
		}
	}
	lazy_stats_recent[index % LAZY_STATS_RECENT] = stats;
	return stats;
}

void
lazy_stats_flush(void)
{
	if (pending_list == NULL)
		return;
	if (lazy_stats_attach())
		lazy_stats_add(pending_list);
	for (LazyStats *stats = pending_list; stats != NULL; stats = stats->next)
		stats->pending = false;
	pending_list = NULL;

	/* what is counted next is to go by lazy_stats_find() again */
	forget_recent();
}

/*
 * What happened to an index has happened, whatever becomes of the transaction.
 * Getting at shared memory may need what only a transaction in good order has,
 * so one that fails leaves that to the next.  A backend's last transaction ends
 * before the backend does: there is nothing to do at its exit.
 */
static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			lazy_stats_flush();
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			if (lazy_stats_attached())
				lazy_stats_flush();
			break;
		default:
			break;
	}
}

void
lazy_stats_init(void)
{
	forget_recent();
	lazy_stats_shared_init();
	RegisterXactCallback(at_transaction_end, NULL);
}

/*
 * cache.c
 *		The metapage, and the copy of it that each backend keeps.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "catalog/pg_am.h"
#include "commands/defrem.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "../stats/stats.h"
#include "lazyhash.h"

/*
 * Pins and locks the metapage.  All but the phases is verified; who relies on
 * them calls lazy_meta_verify().
 */
Buffer
lazy_meta_lock(Relation index, int lockmode)
{
	Buffer		buffer = lazy_read(index, LAZY_METAPAGE, NULL);
	Page		page = BufferGetPage(buffer);
	bool		newer;

	LockBuffer(buffer, lockmode);
	if (PageIsNew(page) || lazy_meta_header_problem(page, &newer) != NULL)
		lazy_meta_verify(index, page);
	return buffer;
}

/*
 * Raises an error unless the page is a metapage in good order that this library
 * understands.
 */
void
lazy_meta_verify(Relation index, Page page)
{
	bool		newer = false;
	const char *problem = lazy_meta_problem(page, &newer);

	if (problem == NULL)
		return;
	if (newer)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" has an on-disk format unknown to this version of lazyhash",
						RelationGetRelationName(index)),
				 errdetail("The %s.", problem),
				 errhint("Install the version of lazyhash that made the index, or REINDEX it.")));
	lazy_corrupted(index, LAZY_METAPAGE, "%s", problem);
}

/*
 * Reads the metapage into the cache, replacing what was there.
 */
const LazyCache *
lazy_cache_load(Relation index)
{
	Buffer		buffer = lazy_meta_lock(index, BUFFER_LOCK_SHARE);
	LazyMetaData *meta = lazy_meta(BufferGetPage(buffer));
	LazyCache  *cache = index->rd_amcache;
	LazyCache	own = {0};

	/* what is not the metapage's is kept */
	if (cache != NULL)
		own = *cache;
	lazy_meta_verify(index, BufferGetPage(buffer));
	if (cache == NULL || cache->nphases != meta->nphases)
	{
		lazy_cache_reset(index);
		cache = MemoryContextAlloc(index->rd_indexcxt,
								   offsetof(LazyCache, phase_start) +
								   meta->nphases * sizeof(BlockNumber));
	}
	*cache = own;
	cache->maxbucket = meta->maxbucket;
	cache->highmask = meta->highmask;
	cache->lowmask = meta->lowmask;
	cache->ffactor = meta->ffactor;
	cache->nphases = meta->nphases;
	memcpy(cache->phase_start, meta->phase_start, meta->nphases * sizeof(BlockNumber));
	index->rd_amcache = cache;
	UnlockReleaseBuffer(buffer);
	lazy_count(index, LAZY_CACHE_REFRESHES, 1);
	return cache;
}

void
lazy_cache_reset(Relation index)
{
	if (index->rd_amcache != NULL)
		pfree(index->rd_amcache);
	index->rd_amcache = NULL;
}

void
lazy_require_lazyhash(Relation index)
{
	Oid			am = get_am_oid("lazyhash", true);

	if (index->rd_rel->relkind == RELKIND_INDEX && OidIsValid(am) &&
		index->rd_rel->relam == am)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is not a lazyhash index", RelationGetRelationName(index)),
			 index->rd_rel->relkind == RELKIND_PARTITIONED_INDEX
			 ? errhint("Name the index of one partition.")
			 : errhint("Name an index that was created with USING lazyhash.")));
}

/*
 * tools.h
 *		What the functions for administrators share: opening an index, copying
 *		pages, walking the chain of a bucket.
 *
 * All of them work on copies of pages, so that nobody is kept waiting by what is
 * done with a page, and an error may be raised at any point.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_TOOLS_TOOLS_H
#define LAZY_TOOLS_TOOLS_H

#include "postgres.h"

#include "storage/bufmgr.h"
#include "storage/lockdefs.h"
#include "utils/rel.h"

#include "../format/meta.h"
#include "../format/page.h"

/*
 * What of a bucket's primary page must not change while its chain is walked.
 * Whatever takes a page out of a chain, or makes entries move from one page of
 * it to another or to another bucket, changes one of these in the same atomic
 * change; so if they are the same before and after, each page was what the link
 * to it promised.
 */
typedef struct LazyBucketState
{
	uint32		stamp;
	uint32		version;
	uint16		flags;			/* without hints */
	BlockNumber tail;			/* may move on as the chain grows */
	BlockNumber split_next;		/* likewise, while the bucket is being split */
} LazyBucketState;

typedef enum LazyWalkResult
{
	LAZY_WALK_PAGE,				/* a page has been copied */
	LAZY_WALK_END,				/* the chain has ended as it should */
	LAZY_WALK_DISTURBED			/* the bucket was changed meanwhile: start over */
} LazyWalkResult;

typedef struct LazyWalk
{
	Relation	index;
	BufferAccessStrategy strategy;
	BlockNumber nblocks;		/* length of the index when it was last looked at */
	uint32		bucket;
	BlockNumber primary;		/* block of the bucket's primary page */
	LazyBucketState state;		/* of the bucket, when the walk started */
	bool		tail_passed;	/* has the walk come by state.tail? */
	BlockNumber block;			/* the page that has been copied */
	BlockNumber pages;			/* its place in the chain, from 1 */
	PGAlignedBlock copy;
} LazyWalk;

static inline Page
lazy_walk_page(LazyWalk *walk)
{
	return (Page) walk->copy.data;
}

/*
 * Opens and locks an index.  Refuses what is no lazyhash index, or has no pages
 * that this session could read.
 */
extern Relation lazy_tool_open(Oid indexoid, LOCKMODE lockmode);

/* Closes it and lets the lock go. */
extern void lazy_tool_close(Relation index, LOCKMODE lockmode);

/* Copies a block, whatever is in it, under a share lock. */
extern void lazy_tool_copy(Relation index, BlockNumber block, BufferAccessStrategy strategy,
						   Page copy);

/* Copies the metapage's data; verified. */
extern void lazy_tool_meta(Relation index, LazyMetaData *meta);

/* What an index is to whoever looks a key up in it. */
typedef struct LazyLookupFigures
{
	double		pages_per_lookup;	/* read by a lookup, the mean over all entries' keys */
	int64		longest_chain;	/* in pages; 0 where there are no chains */
} LazyLookupFigures;

/* Reckons them of a lazyhash index; false if it has no entries, so no mean (stats.c). */
extern bool lazy_lookup_figures(Relation index, LazyLookupFigures *figures);

/* What a kind of page is called. */
extern const char *lazy_kind_name(uint16 kind);

extern void lazy_walk_init(LazyWalk *walk, Relation index, BufferAccessStrategy strategy);

/* Is this block within the index? */
extern bool lazy_walk_within(LazyWalk *walk, BlockNumber block);

/*
 * Begins with the primary page of a bucket that exists.  Always LAZY_WALK_PAGE:
 * a primary page that is not in order is an error.
 */
extern LazyWalkResult lazy_walk_start(LazyWalk *walk, const LazyMetaData *meta, uint32 bucket);

/* Goes on to the next page of the chain, and verifies that it belongs to it. */
extern LazyWalkResult lazy_walk_next(LazyWalk *walk);

/* Has somebody changed the bucket since the walk started? */
extern bool lazy_walk_disturbed(LazyWalk *walk);

/*
 * Something is wrong with a page of the chain.  Raises an error that names the
 * block, unless the bucket was changed by somebody else meanwhile, which then
 * explains it: returns LAZY_WALK_DISTURBED.
 */
extern LazyWalkResult lazy_walk_problem_at(LazyWalk *walk, BlockNumber block,
										   const char *detail);

#define lazy_walk_problem(walk, block, ...) \
	lazy_walk_problem_at(walk, block, psprintf(__VA_ARGS__))

#endif							/* LAZY_TOOLS_TOOLS_H */

/*
 * collect.h
 *		Collects the entries of an index out of a scan of its table.
 *
 * Entries gather in memory in the order in which the scan brings them.  Should
 * they outgrow it, all of them go to a spill file and memory fills anew.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_BUILD_COLLECT_H
#define LAZY_BUILD_COLLECT_H

#include "postgres.h"

#include "fmgr.h"
#include "storage/itemptr.h"
#include "utils/rel.h"

#include "spill.h"

typedef struct LazyCollector
{
	int64		nentries;		/* collected altogether */

	/* in memory */
	LazyEntry  *entries;
	LazyEntry  *scratch;		/* as large as entries; NULL until needed */
	Size		n;
	Size		allocated;
	Size		capacity;

	/* on disk */
	LazyRadix	partitions;		/* how a spill is to be partitioned */
	LazySpill  *spill;			/* NULL until needed */

	/* hashing */
	FmgrInfo	hash_function;
	Oid			collation;
	MemoryContext hash_context; /* for what the hash function leaves behind */
} LazyCollector;

/*
 * Entries that so many bytes hold, twice over (to distribute them takes room
 * for a copy), beside the pages that are being written.
 */
extern Size lazy_collect_capacity(Size memory);

/*
 * How to partition a spill for an index that may have about so many entries.
 * The estimate may be wrong: too high costs little, too low costs another pass
 * over the entries.
 */
extern void lazy_collect_plan(LazyRadix *partitions, double estimate, uint32 ffactor,
							  Size capacity);

/* With spill NULL, one is made when it is needed. */
extern void lazy_collect_start(LazyCollector *collector, Relation index, Size capacity,
							   double estimate, const LazyRadix *partitions, LazySpill *spill);

/* An IndexBuildCallback; state is the collector. */
extern void lazy_collect(Relation index, ItemPointer tid, Datum *values, bool *isnull,
						 bool alive, void *state);

/* Writes what is in memory to the spill file. */
extern void lazy_collect_spill(LazyCollector *collector);

/* Frees the memory, not the spill. */
extern void lazy_collect_end(LazyCollector *collector);

#endif							/* LAZY_BUILD_COLLECT_H */

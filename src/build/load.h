/*
 * load.h
 *		Makes the pages of a new index out of all its entries.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_BUILD_LOAD_H
#define LAZY_BUILD_LOAD_H

#include "postgres.h"

#include "utils/rel.h"

#include "spill.h"

/*
 * Phases that pg_stat_progress_create_index shows; the server has given 1 to
 * "initializing".
 */
#define LAZY_BUILD_PHASE_SCAN		2
#define LAZY_BUILD_PHASE_BUCKETS	3
#define LAZY_BUILD_PHASE_OVERFLOW	4

/* An index of n entries in memory, which come to be in no particular order. */
extern void lazy_load_memory(Relation index, uint32 ffactor, LazyEntry *entries, Size n);

/*
 * An index of all the entries of some spills that are partitioned alike, using
 * memory for twice so many entries as "capacity".  Returns their number.
 */
extern int64 lazy_load_spills(Relation index, uint32 ffactor, LazySpill *spills, int nspills,
							  Size capacity);

/* An index of nothing, in a fork that is still empty. */
extern void lazy_load_empty(Relation index, ForkNumber fork, uint32 ffactor);

#endif							/* LAZY_BUILD_LOAD_H */

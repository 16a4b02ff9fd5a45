/*
 * spill.h
 *		Entries in a temporary file, in partitions that each hold an equal range
 *		of buckets.
 *
 * A spill is one temporary file.  Each write puts a batch of entries at its
 * end, as one run for each partition that has any; a run says where the
 * previous run of its partition lies.  Thus memory does not grow with the
 * number of runs, a partition costs no file and no buffer of its own, writing
 * is sequential, and reading skips from run to run.
 *
 *		| run of 0 | run of 1 | ... | run of P-1 | run of 0 | run of 1 | ...
 *		      ^_____________________________________/ previous
 *
 * The file is the server's temporary file: temp_tablespaces and temp_file_limit
 * apply, and it goes away with the transaction, or with the shared file set that
 * it is part of.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_BUILD_SPILL_H
#define LAZY_BUILD_SPILL_H

#include "postgres.h"

#include "storage/buffile.h"

#include "radix.h"

/* Most partitions of a spill: a power of two. */
#define LAZY_SPILL_BITS			10
#define LAZY_SPILL_PARTITIONS	(1 << LAZY_SPILL_BITS)

typedef struct LazySpillPlace
{
	int			fileno;			/* -1: none */
	off_t		offset;
} LazySpillPlace;

/* May lie in shared memory. */
typedef struct LazySpillPartition
{
	int64		nentries;
	LazySpillPlace newest;		/* its last run */
} LazySpillPartition;

typedef struct LazySpill
{
	BufFile    *file;
	LazyRadix	radix;			/* its slots are the partitions */
	LazySpillPartition *partition;
} LazySpill;

/* A place in a partition that is being read. */
typedef struct LazySpillReader
{
	LazySpill  *spill;
	LazySpillPlace run;			/* next run */
	LazySpillPlace rest;		/* where the current run goes on */
	uint32		nrest;			/* entries of it still to be read */
} LazySpillReader;

/* Makes all of radix->nslots partitions empty. */
extern void lazy_spill_init(LazySpill *spill, BufFile *file, const LazyRadix *radix,
							LazySpillPartition *partition);

/* Closes, which deletes, a spill whose partitions were palloc'd. */
extern void lazy_spill_close(LazySpill *spill);

/*
 * Writes n entries.  scratch has room for n; both arrays may be used anew.
 */
extern void lazy_spill_write(LazySpill *spill, const LazyEntry *entries, LazyEntry *scratch,
							 Size n);

extern void lazy_spill_read_start(LazySpillReader *reader, LazySpill *spill, uint32 partition);

/* Reads some of the partition, at most n; 0 at its end. */
extern Size lazy_spill_read(LazySpillReader *reader, LazyEntry *entries, Size n);

/*
 * How finely to partition: such that a partition fits well into "capacity"
 * entries of memory when nentries are spread over it evenly, and that runs are
 * not too short.  Returns the log2 of the number of partitions.
 */
extern int	lazy_spill_bits(int64 nentries, Size capacity);

#endif							/* LAZY_BUILD_SPILL_H */

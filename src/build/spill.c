/*
 * spill.c
 *		Entries in a temporary file, in partitions that each hold an equal range
 *		of buckets.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "../compat.h"
#include "spill.h"

/* A run holds at least so many entries on the average. */
#define RUN_LENGTH		128

typedef struct RunHeader
{
	LazySpillPlace previous;
	uint32		nentries;
} RunHeader;

/* A single batch fits one run even if it all goes to one partition. */
#define MAX_BATCH		((Size) PG_UINT32_MAX)

void
lazy_spill_init(LazySpill *spill, BufFile *file, const LazyRadix *radix,
				LazySpillPartition *partition)
{
	Assert(radix->nslots <= LAZY_SPILL_PARTITIONS);

	spill->file = file;
	spill->radix = *radix;
	spill->partition = partition;
	for (uint32 i = 0; i < radix->nslots; i++)
	{
		partition[i].nentries = 0;
		partition[i].newest.fileno = -1;
		partition[i].newest.offset = 0;
	}
}

void
lazy_spill_close(LazySpill *spill)
{
	BufFileClose(spill->file);
	pfree(spill->partition);
}

static void
seek(BufFile *file, LazySpillPlace place)
{
	if (BufFileSeek(file, place.fileno, place.offset, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in a temporary file of an index build: %m")));
}

/* Adds a run at the end of the file, where it stands. */
static void
write_run(LazySpill *spill, LazySpillPartition *partition, LazyEntry *entries, Size n)
{
	RunHeader	header;
	LazySpillPlace place;

	memset(&header, 0, sizeof(header));
	header.previous = partition->newest;
	header.nentries = (uint32) n;

	BufFileTell(spill->file, &place.fileno, &place.offset);
	BufFileWrite(spill->file, &header, sizeof(header));
	BufFileWrite(spill->file, entries, n * sizeof(LazyEntry));
	partition->newest = place;
	partition->nentries += n;
}

void
lazy_spill_write(LazySpill *spill, const LazyEntry *entries, LazyEntry *scratch, Size n)
{
	Size		start[LAZY_SPILL_PARTITIONS + 1];

	Assert(n <= MAX_BATCH);

	lazy_radix_distribute(&spill->radix, entries, scratch, n, start);
	for (uint32 i = 0; i < spill->radix.nslots; i++)
	{
		if (start[i + 1] > start[i])
			write_run(spill, &spill->partition[i], scratch + start[i], start[i + 1] - start[i]);
	}
}

void
lazy_spill_read_start(LazySpillReader *reader, LazySpill *spill, uint32 partition)
{
	reader->spill = spill;
	reader->run = spill->partition[partition].newest;
	reader->nrest = 0;
}

Size
lazy_spill_read(LazySpillReader *reader, LazyEntry *entries, Size n)
{
	BufFile    *file = reader->spill->file;

	if (reader->nrest > 0)
		seek(file, reader->rest);
	else
	{
		RunHeader	header;

		if (reader->run.fileno < 0)
			return 0;
		seek(file, reader->run);
		lazy_buffile_read(file, &header, sizeof(header));
		reader->run = header.previous;
		reader->nrest = header.nentries;
	}
	n = Min(n, (Size) reader->nrest);
	lazy_buffile_read(file, entries, n * sizeof(LazyEntry));
	reader->nrest -= (uint32) n;
	BufFileTell(file, &reader->rest.fileno, &reader->rest.offset);
	return n;
}

int
lazy_spill_bits(int64 nentries, Size capacity)
{
	int			bits = 1;

	while (bits < LAZY_SPILL_BITS &&
		   (nentries >> bits) > (int64) (capacity / 2) &&
		   (capacity >> (bits + 1)) >= RUN_LENGTH)
		bits++;
	return bits;
}

/*
 * compat.h
 *		Everything in which the server's versions differ for us: 15 to 19.
 *
 * The rest of the source is written for the newest of these; what an older
 * server lacks is made up for here.  16 could not be had for testing and takes
 * 17's paths.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_COMPAT_H
#define LAZY_COMPAT_H

#include "postgres.h"

#include "access/genam.h"
#include "storage/buffile.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#if PG_VERSION_NUM < 150000
#error lazyhash needs PostgreSQL 15 or later
#endif

/* 18: stands before the declaration */
#if PG_VERSION_NUM < 180000
#define pg_noreturn				pg_attribute_noreturn()
#endif

/* 16: what is written past the buffer cache is aligned for direct I/O */
#if PG_VERSION_NUM < 160000
#define PGIOAlignedBlock		PGAlignedBlock
#endif

/* 16: relation file "locators" */
#if PG_VERSION_NUM < 160000
#define RelFileLocator			RelFileNode
#define rd_locator				rd_node
#define relNumber				relNode
#endif

/* 17: "snapshot too old" is gone; before, each page read by a scan tests for it */
#if PG_VERSION_NUM < 170000
#define lazy_test_old_snapshot(snapshot, relation, page) \
	TestForOldSnapshot(snapshot, relation, page)
#else
#define lazy_test_old_snapshot(snapshot, relation, page) ((void) 0)
#endif

/* 18: vacuum_delay_point() says whether it is for ANALYZE */
#if PG_VERSION_NUM < 180000
#define lazy_vacuum_delay_point()	vacuum_delay_point()
#else
#define lazy_vacuum_delay_point()	vacuum_delay_point(false)
#endif

/* 18: the access method counts its index searches for EXPLAIN */
#if PG_VERSION_NUM < 180000
#define lazy_count_search(scan)		((void) 0)
#else
#define lazy_count_search(scan) \
	do { if ((scan)->instrument) (scan)->instrument->nsearches++; } while (0)
#endif

/* 16: bool pgstat macros take no trailing change here; const-ness of XLog data */
#if PG_VERSION_NUM < 180000
#define lazy_xlog_data(p)		((char *) (p))
#else
#define lazy_xlog_data(p)		((const void *) (p))
#endif

/*
 * 19: whoever sets hint bits under a share lock asks first.  Between begin
 * (when it returned true) and end, any number of bits may be set.
 */
static inline bool
lazy_begin_hint(Buffer buffer)
{
#if PG_VERSION_NUM >= 190000
	return BufferBeginSetHintBits(buffer);
#else
	(void) buffer;
	return true;
#endif
}

static inline void
lazy_end_hint(Buffer buffer, bool dirty)
{
#if PG_VERSION_NUM >= 190000
	BufferFinishSetHintBits(buffer, dirty, true);
#else
	if (dirty)
		MarkBufferDirtyHint(buffer, true);
#endif
}

/* 17: code of a table's owner runs with a search_path that nobody can have prepared */
#if PG_VERSION_NUM >= 170000
#define lazy_restrict_search_path()	RestrictSearchPath()
#else
#define lazy_restrict_search_path()	((void) 0)
#endif

/* 19: flags */
#if PG_VERSION_NUM >= 190000
#define lazy_index_fetch_begin(heap)	table_index_fetch_begin(heap, 0)
#define lazy_beginscan_parallel(heap, scan) \
	table_beginscan_parallel(heap, scan, 0)
#else
#define lazy_index_fetch_begin(heap)	table_index_fetch_begin(heap)
#define lazy_beginscan_parallel(heap, scan) \
	table_beginscan_parallel(heap, scan)
#endif

/* 16: reading all of it or raising an error */
#if PG_VERSION_NUM >= 160000
#define lazy_buffile_read(file, to, size)	BufFileReadExact(file, to, size)
#else
static inline void
lazy_buffile_read(BufFile *file, void *to, size_t size)
{
	size_t		got = BufFileRead(file, to, size);

	if (got != size)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from temporary file: read only %zu of %zu bytes",
						got, size)));
}
#endif

#endif							/* LAZY_COMPAT_H */

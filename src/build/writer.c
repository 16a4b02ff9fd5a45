/*
 * writer.c
 *		Writes the pages of a new relation fork, past the buffer cache, with
 *		bulk WAL.
 *
 * PostgreSQL 17 has just that in bulk_write.h.  For older servers it is made
 * here out of log_newpages() and smgrextend().  Whether there is WAL is the
 * server's rule: none for unlogged and temporary relations, nor for a relation
 * new in this transaction when wal_level = minimal lets it be skipped; always
 * for an init fork, out of which an unlogged relation is made anew.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/xlogrecord.h"
#include "access/xloginsert.h"
#include "storage/smgr.h"
#if PG_VERSION_NUM >= 170000
#include "storage/bulk_write.h"
#endif

#include "../compat.h"
#include "writer.h"

#if PG_VERSION_NUM >= 170000

struct LazyWriter
{
	BulkWriteState *bulk;
};

LazyWriter *
lazy_writer_start(Relation index, ForkNumber fork)
{
	LazyWriter *writer = palloc(sizeof(LazyWriter));

	writer->bulk = smgr_bulk_start_rel(index, fork);
	return writer;
}

Page
lazy_writer_page(LazyWriter *writer)
{
	return (Page) smgr_bulk_get_buf(writer->bulk);
}

void
lazy_writer_put(LazyWriter *writer, BlockNumber block, Page page)
{
	smgr_bulk_write(writer->bulk, block, (BulkWriteBuffer) page, true);
}

void
lazy_writer_finish(LazyWriter *writer)
{
	smgr_bulk_finish(writer->bulk);
	pfree(writer);
}

#else

#define BATCH		XLR_MAX_BLOCK_ID	/* pages that one WAL record can hold */
#define ALIGNMENT	4096				/* what direct I/O asks for */

struct LazyWriter
{
	Relation	index;
	ForkNumber	fork;
	bool		use_wal;
	int			npending;
	BlockNumber blocks[BATCH];
	char	   *pages[BATCH];
	char	   *memory;
};

LazyWriter *
lazy_writer_start(Relation index, ForkNumber fork)
{
	LazyWriter *writer = palloc(sizeof(LazyWriter));
	char	   *page;

	writer->index = index;
	writer->fork = fork;
	writer->use_wal = RelationNeedsWAL(index) || fork == INIT_FORKNUM;
	writer->npending = 0;
	writer->memory = palloc(BATCH * BLCKSZ + ALIGNMENT);
	page = (char *) TYPEALIGN(ALIGNMENT, writer->memory);
	for (int i = 0; i < BATCH; i++, page += BLCKSZ)
		writer->pages[i] = page;
	return writer;
}

static void
flush(LazyWriter *writer)
{
	SMgrRelation smgr;

	if (writer->npending == 0)
		return;
	if (writer->use_wal)
		log_newpages(&writer->index->rd_locator, writer->fork, writer->npending,
					 writer->blocks, writer->pages, true);
	/* an invalidation may have closed it */
	smgr = RelationGetSmgr(writer->index);
	for (int i = 0; i < writer->npending; i++)
	{
		PageSetChecksumInplace((Page) writer->pages[i], writer->blocks[i]);
		smgrextend(smgr, writer->fork, writer->blocks[i], writer->pages[i], true);
	}
	writer->npending = 0;
}

Page
lazy_writer_page(LazyWriter *writer)
{
	return (Page) writer->pages[writer->npending];
}

void
lazy_writer_put(LazyWriter *writer, BlockNumber block, Page page)
{
	Assert((char *) page == writer->pages[writer->npending]);

	writer->blocks[writer->npending++] = block;
	if (writer->npending == BATCH)
		flush(writer);
}

/*
 * The checkpointer does not know of these writes: a checkpoint that begins
 * after the WAL and ends before the write would leave neither to rely upon.
 * Hence the sync even of what was logged.  An unlogged relation must be on disk
 * after a clean shutdown.  A permanent one without WAL is synced at commit.
 */
void
lazy_writer_finish(LazyWriter *writer)
{
	flush(writer);
	if (writer->use_wal ||
		writer->index->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED)
		smgrimmedsync(RelationGetSmgr(writer->index), writer->fork);
	pfree(writer->memory);
	pfree(writer);
}

#endif

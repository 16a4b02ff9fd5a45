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

#include "access/amapi.h"
#include "access/genam.h"
#include "storage/buffile.h"
#include "storage/bufmgr.h"
#include "storage/lwlock.h"
#if PG_VERSION_NUM >= 170000
#include "storage/dsm_registry.h"
#include "storage/read_stream.h"
#endif
#include "utils/acl.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#if PG_VERSION_NUM < 150000
#error lazyhash needs PostgreSQL 15 or later
#endif

/* ---- names ---- */

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

/* ---- the access method ---- */

/*
 * 19: the server keeps the pointer for good; before, it frees what it gets.
 */
static inline IndexAmRoutine *
lazy_am_routine(void)
{
#if PG_VERSION_NUM < 190000
	return makeNode(IndexAmRoutine);
#else
	static IndexAmRoutine routine = {.type = T_IndexAmRoutine};

	return &routine;
#endif
}

/*
 * What newer servers want to know of an access method.
 *
 * 18's amtranslatestrategy and amtranslatecmptype stay NULL.  With them a
 * subscriber would look for the rows of a table with REPLICA IDENTITY FULL in
 * our indexes, and for NULLs too: those it would not find, and lose changes.
 */
static inline void
lazy_am_describe_newer(IndexAmRoutine *am)
{
#if PG_VERSION_NUM >= 160000
	am->amsummarizing = false;
#endif
#if PG_VERSION_NUM >= 170000
	am->amcanbuildparallel = true;
#endif
#if PG_VERSION_NUM >= 180000
	am->amcanhash = true;
	am->amconsistentequality = true;
	am->amconsistentordering = false;
#endif
}

/* 17: the server plans the workers of a build; before, it thinks so only of btree */
#if PG_VERSION_NUM < 170000
#define lazy_planned_workers(heap, index, info) \
	(IsNormalProcessingMode() ? \
	 plan_create_index_workers(RelationGetRelid(heap), RelationGetRelid(index)) : 0)
#else
#define lazy_planned_workers(heap, index, info)	((info)->ii_ParallelWorkers)
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

/* ---- WAL ---- */

/* 18: what goes into a record is const */
#if PG_VERSION_NUM < 180000
#define lazy_xlog_data(p)		((char *) (p))
#else
#define lazy_xlog_data(p)		((const void *) (p))
#endif

/* 16: so is a resource manager */
#if PG_VERSION_NUM < 160000
#define lazy_register_rmgr(id, rmgr)	RegisterCustomRmgr(id, unconstify(RmgrData *, rmgr))
#else
#define lazy_register_rmgr(id, rmgr)	RegisterCustomRmgr(id, rmgr)
#endif

/* 16: conflicts tell whether they are over a catalog; never with us */
#if PG_VERSION_NUM < 160000
#define lazy_resolve_conflict(horizon, locator) \
	ResolveRecoveryConflictWithSnapshot(horizon, locator)
#else
#define lazy_resolve_conflict(horizon, locator) \
	ResolveRecoveryConflictWithSnapshot(horizon, false, locator)
#endif

/* 16: the same in nbtree's xl_btree_reuse_page, which is zeroes but for this */
#if PG_VERSION_NUM < 160000
#define lazy_reuse_page_set(record, of_locator, horizon) \
	((record)->node = (of_locator), (record)->latestRemovedFullXid = (horizon))
#define LAZY_REUSE_PAGE_SIZE	sizeof(xl_btree_reuse_page)
#else
#define lazy_reuse_page_set(record, of_locator, horizon) \
	((record)->locator = (of_locator), (record)->snapshotConflictHorizon = (horizon))
#define LAZY_REUSE_PAGE_SIZE	SizeOfBtreeReusePage
#endif

/* ---- pages ---- */

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

/*
 * 16: several blocks at once.  Adds at most "wanted" blocks, and no more than
 * LAZY_MAX_EXTEND, to the index, whose extension lock the caller holds.  Returns
 * the first, exclusively locked; *added tells how many there are.
 */
#define LAZY_MAX_EXTEND		64

static inline Buffer
lazy_extend(Relation index, uint32 wanted, uint32 *added)
{
#if PG_VERSION_NUM >= 160000
	Buffer		buffers[LAZY_MAX_EXTEND];

	ExtendBufferedRelBy(BMR_REL(index), MAIN_FORKNUM, NULL,
						EB_SKIP_EXTENSION_LOCK | EB_LOCK_FIRST,
						Min(wanted, LAZY_MAX_EXTEND), buffers, added);
	for (uint32 i = 1; i < *added; i++)
		ReleaseBuffer(buffers[i]);
	return buffers[0];
#else
	Buffer		first = ReadBuffer(index, P_NEW);

	LockBuffer(first, BUFFER_LOCK_EXCLUSIVE);
	*added = Min(wanted, LAZY_MAX_EXTEND);
	for (uint32 i = 1; i < *added; i++)
		ReleaseBuffer(ReadBuffer(index, P_NEW));
	return first;
#endif
}

/*
 * 17: streams, which read ahead of who uses the pages.  Before, a page is read
 * when it is asked for.
 */
#if PG_VERSION_NUM < 170000

#define READ_STREAM_MAINTENANCE	0x01

typedef struct ReadStream ReadStream;
typedef BlockNumber (*ReadStreamBlockNumberCB) (ReadStream *stream, void *state, void *unused);

struct ReadStream
{
	Relation	relation;
	ForkNumber	fork;
	BufferAccessStrategy strategy;
	ReadStreamBlockNumberCB next_block;
	void	   *state;
};

static inline ReadStream *
read_stream_begin_relation(int flags, BufferAccessStrategy strategy, Relation relation,
						   ForkNumber fork, ReadStreamBlockNumberCB next_block, void *state,
						   size_t unused)
{
	ReadStream *stream = palloc(sizeof(ReadStream));

	stream->relation = relation;
	stream->fork = fork;
	stream->strategy = strategy;
	stream->next_block = next_block;
	stream->state = state;
	return stream;
}

static inline Buffer
read_stream_next_buffer(ReadStream *stream, void **unused)
{
	BlockNumber block = stream->next_block(stream, stream->state, NULL);

	if (block == InvalidBlockNumber)
		return InvalidBuffer;
	return ReadBufferExtended(stream->relation, stream->fork, block, RBM_NORMAL,
							  stream->strategy);
}

static inline void
read_stream_end(ReadStream *stream)
{
	pfree(stream);
}

#endif							/* PG_VERSION_NUM < 170000 */

/* 18: reads of a stream whose callback waits for nothing may be handed over together */
#if PG_VERSION_NUM < 180000
#define READ_STREAM_USE_BATCHING	0
#endif

/* ---- building ---- */

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

/* ---- statistics ---- */

/* 19: a tranche of lightweight locks is named once, where it is made */
#if PG_VERSION_NUM >= 190000
#define lazy_new_tranche(name)				LWLockNewTrancheId(name)
#define lazy_register_tranche(id, name)		((void) 0)
#else
#define lazy_new_tranche(name)				LWLockNewTrancheId()
#define lazy_register_tranche(id, name)		LWLockRegisterTranche(id, name)
#endif

/*
 * 17: shared memory that is there for whoever knows its name, without preloading.
 * 19: the function that fills it when it is new is handed an argument.
 */
#define LAZY_HAS_NAMED_SEGMENTS		(PG_VERSION_NUM >= 170000)

typedef void (*LazySegmentInit) (void *memory);

#if PG_VERSION_NUM >= 190000
static inline void
lazy_init_segment(void *memory, void *init)
{
	(*(LazySegmentInit *) init) (memory);
}
#endif

static inline void *
lazy_named_segment(const char *name, size_t size, LazySegmentInit init)
{
#if PG_VERSION_NUM >= 190000
	bool		found;

	return GetNamedDSMSegment(name, size, lazy_init_segment, &found, &init);
#elif PG_VERSION_NUM >= 170000
	bool		found;

	return GetNamedDSMSegment(name, size, init, &found);
#else
	return NULL;
#endif
}

/* 16: one function for all kinds of objects */
#if PG_VERSION_NUM < 160000
#define lazy_owns_relation(relid, role)		pg_class_ownercheck(relid, role)
#else
#define lazy_owns_relation(relid, role)		object_ownercheck(RelationRelationId, relid, role)
#endif

#endif							/* LAZY_COMPAT_H */

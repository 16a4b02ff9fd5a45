/*
 * op.h
 *		A change to a page, written down: a short program of page operations.
 *
 * Every change that lazyhash makes touches at most four pages, and what it does
 * to each is a sequence of the operations below, encoded in a few bytes.  The
 * running server encodes the program, applies it to the page and logs the same
 * bytes; replay applies what it finds in the record.  lazy_ops_apply() is the
 * only interpreter, so that there is one definition of each change and redo
 * needs no code of its own for any kind of record.
 *
 * An operation reads nothing but its arguments and the page itself, and of the
 * page never a dead bit nor LAZY_HAS_DEAD, which are not the same on a standby.
 *
 * Encoding: one byte of opcode, then the arguments, unaligned, in the machine's
 * byte order (WAL is not portable across byte orders anyway).
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_FORMAT_OP_H
#define LAZY_FORMAT_OP_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "storage/bufpage.h"

#include "page.h"

typedef enum LazyOpcode
{
	/* bucket pages */
	LAZY_OP_INIT = 1,			/* flags, bucket, tail, stamp, version, deletions */
	LAZY_OP_APPEND_ONE,			/* entry */
	LAZY_OP_APPEND,				/* n, entries */
	LAZY_OP_APPEND_SORTED,		/* n, entries */
	LAZY_OP_MERGE,
	LAZY_OP_SORT_RUNS,
	LAZY_OP_REMOVE,				/* n, positions */
	LAZY_OP_REMOVE_MATCHING,	/* mask, value */
	LAZY_OP_POST,				/* signed delta of "posted" */
	LAZY_OP_SET_NEXT,			/* block */
	LAZY_OP_SET_TAIL,			/* block */
	LAZY_OP_SET_SPLIT_NEXT,		/* block */
	LAZY_OP_SET_STAMP,			/* stamp */
	LAZY_OP_SET_FLAGS,			/* bits to set, bits to clear */
	LAZY_OP_BUMP_VERSION,
	LAZY_OP_FREE,
	/* the metapage */
	LAZY_OP_META_INIT,			/* ffactor, maxbucket, ntuples */
	LAZY_OP_META_ADD,			/* signed delta of ntuples */
	LAZY_OP_META_MAXBUCKET,		/* maxbucket */
	LAZY_OP_META_PHASE,			/* first block of the next phase */
	LAZY_OP_LAST = LAZY_OP_META_PHASE
} LazyOpcode;

/*
 * A program under construction.  Short ones, which is nearly all, stay in
 * "small"; long ones move to palloc'd memory of the current context.
 */
typedef struct LazyOps
{
	int			len;
	int			size;
	char	   *data;
	char		small[64];
} LazyOps;

extern void lazy_ops_start(LazyOps *ops);
extern void lazy_ops_end(LazyOps *ops);

/* Each of these adds one operation. */
extern void lazy_op_init(LazyOps *ops, uint16 flags, uint32 bucket, BlockNumber tail,
						 uint32 stamp, uint32 version, uint32 deletions);
extern void lazy_op_append(LazyOps *ops, const LazyEntry *entries, int n);
extern void lazy_op_append_sorted(LazyOps *ops, const LazyEntry *entries, int n);
extern void lazy_op_merge(LazyOps *ops);
extern void lazy_op_sort_runs(LazyOps *ops);
extern void lazy_op_remove(LazyOps *ops, const uint16 *positions, int n);
extern void lazy_op_remove_matching(LazyOps *ops, uint32 mask, uint32 value);
extern void lazy_op_post(LazyOps *ops, int32 delta);
extern void lazy_op_set_next(LazyOps *ops, BlockNumber block);
extern void lazy_op_set_tail(LazyOps *ops, BlockNumber block);
extern void lazy_op_set_split_next(LazyOps *ops, BlockNumber block);
extern void lazy_op_set_stamp(LazyOps *ops, uint32 stamp);
extern void lazy_op_set_flags(LazyOps *ops, uint16 set, uint16 clear);
extern void lazy_op_bump_version(LazyOps *ops);
extern void lazy_op_free(LazyOps *ops);
extern void lazy_op_meta_init(LazyOps *ops, uint32 ffactor, uint32 maxbucket, int64 ntuples);
extern void lazy_op_meta_add(LazyOps *ops, int64 delta);
extern void lazy_op_meta_maxbucket(LazyOps *ops, uint32 maxbucket);
extern void lazy_op_meta_phase(LazyOps *ops, BlockNumber start);

/*
 * Applies a program to a page.  Returns NULL, or, in words, why it cannot be
 * applied (a malformed program, or one that does not fit the page); the page
 * may then be half changed, so the caller must treat that as fatal.  Allocates
 * nothing and raises no error: it runs in critical sections and in replay.
 */
extern const char *lazy_ops_apply(Page page, const char *data, Size len);

/* Describes a program for people (pg_walinspect).  Stops at malformed bytes. */
extern void lazy_ops_describe(StringInfo buf, const char *data, Size len);

#endif							/* LAZY_FORMAT_OP_H */

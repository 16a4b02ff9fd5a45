/*
 * unit.h
 *		What the tests of src/format share: checks, random numbers, and a model
 *		of a page in a plain array.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_UNIT_H
#define LAZY_UNIT_H

#include "postgres.h"

#include "../../src/format/meta.h"
#include "../../src/format/op.h"
#include "../../src/format/page.h"

/* ---- tests and checks ---- */

typedef struct Test
{
	const char *promise;		/* what the test shows to be so */
	void		(*run) (void);
} Test;

extern const Test page_tests[];
extern const Test op_tests[];
extern const Test meta_tests[];

extern void check_failed(const char *file, int line, const char *what);

/* A check that fails is told, and its test goes on. */
#define CHECK(condition) \
	((condition) ? (void) 0 : check_failed(__FILE__, __LINE__, #condition))

/* Both are messages, or neither is. */
extern bool same_text(const char *a, const char *b);

/* ---- random numbers ---- */

extern uint32 random32(void);
extern uint64 random64(void);
extern uint32 random_below(uint32 limit);	/* 0 .. limit - 1 */

/* Kinds of hash codes, good and bad. */
typedef enum HashKind
{
	HASH_UNIFORM,				/* as a good function makes them */
	HASH_BUCKET,				/* of one bucket: the same low bits */
	HASH_FEW,					/* many entries of few hashes */
	HASH_EQUAL,					/* all the same */
	HASH_LOW,					/* all but few near zero */
	HASH_EXTREMES,				/* zero, the largest, and next to them */
	HASH_HALVING,				/* each half as likely as the one before */
	HASH_KINDS
} HashKind;

extern uint32 random_hash(HashKind kind);

/* A TID that no earlier call has returned in this test. */
extern ItemPointerData fresh_tid(void);

/* ---- pages ---- */

/* A page with bytes on either side that nothing may write to. */
typedef struct GuardedPage
{
	char		before[64];
	union
	{
		char		page[BLCKSZ];
		int64		force_align;
	}			u;
	char		after[64];
} GuardedPage;

extern GuardedPage *guarded_new(void);
extern bool guarded_intact(const GuardedPage *guarded);

/* What a replica may differ in: dead bits, has-dead, bytes not in use. */
extern void mask_page(Page page);
extern bool same_masked(Page a, Page b);

/* ---- model ---- */

typedef struct Model
{
	int			count;
	int			nsorted;
	int			nruns;
	LazyEntry	entry[LAZY_PAGE_CAPACITY];
} Model;

/* Does the page hold the model's entries, in this order, dead bits and all? */
extern bool same_as_model(Page page, const Model *model);

extern int	model_compare(const void *a, const void *b);

/*
 * A page of some number of entries of this kind, some of them dead, part of
 * them sorted, perhaps with sorted runs; and its model, if wanted.
 */
extern void random_page(Page page, HashKind kind, Model *model);

#endif							/* LAZY_UNIT_H */

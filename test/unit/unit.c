/*
 * unit.c
 *		Runs the tests of src/format and reports in TAP; and what the tests
 *		share.  Takes a seed as its argument.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include <time.h>

#include "unit.h"

/* ---- tests and checks ---- */

#define MAX_FAILURES_TOLD	5

static int	nfailures;

void
check_failed(const char *file, int line, const char *what)
{
	if (nfailures++ < MAX_FAILURES_TOLD)
		printf("# %s:%d: not so: %s\n", file, line, what);
}

bool
same_text(const char *a, const char *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return strcmp(a, b) == 0;
}

/* ---- random numbers ---- */

static uint64 random_state;
static uint32 tid_count;

uint64
random64(void)
{
	uint64		z = (random_state += UINT64CONST(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64CONST(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64CONST(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

uint32
random32(void)
{
	return (uint32) (random64() >> 32);
}

uint32
random_below(uint32 limit)
{
	return (uint32) (((uint64) random32() * limit) >> 32);
}

uint32
random_hash(HashKind kind)
{
	switch (kind)
	{
		case HASH_UNIFORM:
			return random32();
		case HASH_BUCKET:
			return (random32() & 0xFFFFFC00) | 0x155;
		case HASH_FEW:
			return random_below(7) * 0x20000001;
		case HASH_EQUAL:
			return 0xCAFEBABE;
		case HASH_LOW:
			return random_below(50) == 0 ? random32() : random_below(1000);
		case HASH_EXTREMES:
			return random_below(2) == 0 ? random_below(3) : PG_UINT32_MAX - random_below(3);
		case HASH_HALVING:
			return random32() >> random_below(32);
		case HASH_KINDS:
			break;
	}
	abort();
}

ItemPointerData
fresh_tid(void)
{
	ItemPointerData tid;
	uint32		number = tid_count++;

	/* An odd factor makes a permutation: fresh, but in no order. */
	number *= 2654435761u;
	ItemPointerSet(&tid, number / 1000, number % 1000 + 1);
	return tid;
}

/* ---- pages ---- */

#define GUARD	0x5A

GuardedPage *
guarded_new(void)
{
	GuardedPage *guarded = malloc(sizeof(GuardedPage));

	if (guarded == NULL)
		abort();
	memset(guarded, GUARD, sizeof(GuardedPage));
	return guarded;
}

bool
guarded_intact(const GuardedPage *guarded)
{
	for (int i = 0; i < (int) sizeof(guarded->before); i++)
	{
		if (guarded->before[i] != GUARD || guarded->after[i] != GUARD)
			return false;
	}
	return true;
}

void
mask_page(Page page)
{
	int			count = lazy_page_count(page);

	for (int i = 0; i < count; i++)
		lazy_entries(page)[i].tid.ip_posid &= ~LAZY_DEAD_BIT;
	memset(lazy_entries(page) + count, 0,
		   (char *) lazy_special(page) - (char *) (lazy_entries(page) + count));
	lazy_special(page)->flags &= ~LAZY_HAS_DEAD;
}

bool
same_masked(Page a, Page b)
{
	GuardedPage *mine = guarded_new();
	GuardedPage *other = guarded_new();
	bool		same;

	memcpy(mine->u.page, a, BLCKSZ);
	memcpy(other->u.page, b, BLCKSZ);
	mask_page(mine->u.page);
	mask_page(other->u.page);
	same = memcmp(mine->u.page, other->u.page, BLCKSZ) == 0;
	free(mine);
	free(other);
	return same;
}

/* ---- model ---- */

bool
same_as_model(Page page, const Model *model)
{
	return lazy_page_problem(page) == NULL &&
		lazy_page_count(page) == model->count &&
		lazy_special(page)->nsorted == model->nsorted &&
		lazy_special(page)->nruns == model->nruns &&
		memcmp(lazy_entries(page), model->entry, model->count * sizeof(LazyEntry)) == 0;
}

/* (hash, block, offset without its top bit), spelt out independently. */
int
model_compare(const void *a, const void *b)
{
	const LazyEntry *x = a;
	const LazyEntry *y = b;
	uint64		key_x[3] = {x->hash_half[0], 0, 0};
	uint64		key_y[3] = {y->hash_half[0], 0, 0};
	uint32		hash;

	memcpy(&hash, x->hash_half, 4);
	key_x[0] = hash;
	memcpy(&hash, y->hash_half, 4);
	key_y[0] = hash;
	key_x[1] = BlockIdGetBlockNumber(&x->tid.ip_blkid);
	key_y[1] = BlockIdGetBlockNumber(&y->tid.ip_blkid);
	key_x[2] = x->tid.ip_posid % 0x8000;
	key_y[2] = y->tid.ip_posid % 0x8000;
	for (int i = 0; i < 3; i++)
	{
		if (key_x[i] != key_y[i])
			return key_x[i] < key_y[i] ? -1 : 1;
	}
	return 0;
}

void
random_page(Page page, HashKind kind, Model *model)
{
	static Model scratch;
	int			bits = random_below(4);

	if (model == NULL)
		model = &scratch;
	model->count = bits == 0 ? LAZY_PAGE_CAPACITY : (int) random_below(LAZY_PAGE_CAPACITY + 1);
	model->nsorted = bits == 1 ? model->count : (int) random_below(model->count + 1);
	for (int i = 0; i < model->count; i++)
	{
		ItemPointerData tid = fresh_tid();

		lazy_entry_set(&model->entry[i], random_hash(kind), &tid);
		if (random_below(4) == 0)
			model->entry[i].tid.ip_posid |= LAZY_DEAD_BIT;
	}
	model->nruns = random_below((model->count - model->nsorted) / LAZY_RUN + 1);
	qsort(model->entry, model->nsorted, sizeof(LazyEntry), model_compare);
	for (int i = 0; i < model->nruns; i++)
		qsort(model->entry + model->nsorted + i * LAZY_RUN, LAZY_RUN, sizeof(LazyEntry),
			  model_compare);

	lazy_page_init(page, LAZY_KIND_PRIMARY | LAZY_HAS_DEAD, random32(), random32(), random32(),
				   random32(), random32());
	memcpy(lazy_entries(page), model->entry, model->count * sizeof(LazyEntry));
	((PageHeader) page)->pd_lower += model->count * sizeof(LazyEntry);
	lazy_special(page)->nsorted = model->nsorted;
	lazy_special(page)->nruns = model->nruns;
	lazy_special(page)->posted = (int32) random_below(1000) - 500;
}

/* ---- running ---- */

static int
run_tests(const Test *tests, int number, int *nfailed)
{
	for (; tests->promise != NULL; tests++)
	{
		nfailures = 0;
		tid_count = 0;
		tests->run();
		printf("%sok %d - %s (block size %d)\n", nfailures > 0 ? "not " : "", ++number,
			   tests->promise, (int) BLCKSZ);
		fflush(stdout);
		if (nfailures > 0)
			(*nfailed)++;
	}
	return number;
}

int
main(int argc, char **argv)
{
	int			number = 0;
	int			nfailed = 0;

	random_state = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64) time(NULL);
	printf("# block size %d, capacity %d, seed %llu\n", (int) BLCKSZ, LAZY_PAGE_CAPACITY,
		   (unsigned long long) random_state);
	number = run_tests(page_tests, number, &nfailed);
	number = run_tests(op_tests, number, &nfailed);
	number = run_tests(meta_tests, number, &nfailed);
	printf("1..%d\n", number);
	return nfailed > 0 ? 1 : 0;
}

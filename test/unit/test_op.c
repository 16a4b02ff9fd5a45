/*
 * test_op.c
 *		Tests of src/format/op.c: what each operation does, that replay comes to
 *		the same page, and that no program whatever does harm.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "unit.h"

#define GARBAGE_TRIES	200000
#define REPLAY_ROUNDS	600

static GuardedPage *guarded;
static Page page;
static LazyOps ops;

static void
start(void)
{
	if (guarded == NULL)
		guarded = guarded_new();
	page = guarded->u.page;
	random_page(page, HASH_UNIFORM, NULL);
	lazy_ops_start(&ops);
}

/*
 * Applies a program from a copy of exactly its size, at an odd address, so that
 * a byte read too many or by an aligned access is noticed.
 */
static const char *
apply_to(Page target, const char *data, int len)
{
	char	   *copy = malloc(len + 1);
	const char *problem;

	memcpy(copy + 1, data, len);
	problem = lazy_ops_apply(target, copy + 1, len);
	free(copy);
	return problem;
}

/* Applies the program that was written, and starts the next. */
static const char *
apply(void)
{
	const char *problem = apply_to(page, ops.data, ops.len);

	lazy_ops_end(&ops);
	return problem;
}

static LazyEntry
entry_of(uint32 hash)
{
	LazyEntry	entry;
	ItemPointerData tid = fresh_tid();

	lazy_entry_set(&entry, hash, &tid);
	return entry;
}

static void
make_page(uint16 flags, int count, int nsorted)
{
	lazy_page_init(page, flags, 1, 2, 3, 4, 5);
	for (int i = 0; i < count; i++)
	{
		LazyEntry	entry = entry_of(i < nsorted ? 10 * i : random32());

		lazy_page_append(page, &entry, 1);
	}
	lazy_special(page)->nsorted = (uint16) nsorted;
}

/* ---- each operation ---- */

static void
test_fields(void)
{
	LazyPageSpecialData expected;

	start();
	lazy_op_init(&ops, LAZY_KIND_PRIMARY, 11, 12, 13, 14, 15);
	lazy_op_post(&ops, -70000);
	lazy_op_set_next(&ops, 16);
	lazy_op_set_tail(&ops, 17);
	lazy_op_set_split_next(&ops, 18);
	lazy_op_set_stamp(&ops, 19);
	lazy_op_set_flags(&ops, LAZY_BEING_SPLIT, 0);
	lazy_op_bump_version(&ops);
	CHECK(apply() == NULL);

	memset(&expected, 0, sizeof(expected));
	expected.bucket = 11;
	expected.next = 16;
	expected.tail = 17;
	expected.stamp = 19;
	expected.version = 15;
	expected.deletions = 15;
	expected.posted = -70000;
	expected.split_next = 18;
	expected.flags = LAZY_KIND_PRIMARY | LAZY_BEING_SPLIT;
	expected.page_id = LAZY_PAGE_ID;
	CHECK(memcmp(lazy_special(page), &expected, sizeof(expected)) == 0);

	lazy_op_set_flags(&ops, LAZY_BEING_POPULATED, LAZY_BEING_SPLIT);
	lazy_op_post(&ops, 70001);
	CHECK(apply() == NULL);
	CHECK(lazy_special(page)->flags == (LAZY_KIND_PRIMARY | LAZY_BEING_POPULATED));
	CHECK(lazy_special(page)->posted == 1);

	/* What is both set and cleared is set. */
	lazy_op_set_flags(&ops, LAZY_BEING_SPLIT, LAZY_BEING_SPLIT | LAZY_BEING_POPULATED);
	CHECK(apply() == NULL);
	CHECK(lazy_special(page)->flags == (LAZY_KIND_PRIMARY | LAZY_BEING_SPLIT));

	lazy_op_free(&ops);
	CHECK(apply() == NULL);
	CHECK(lazy_special(page)->flags == LAZY_KIND_FREE && lazy_special(page)->deletions == 16);
	CHECK(guarded_intact(guarded));
}

/* A program does to a page what the functions of page.c do, and no more. */
static void
test_entries(void)
{
	GuardedPage *other = guarded_new();
	Page		twin = other->u.page;

	for (int round = 0; round < 200; round++)
	{
		uint16		positions[] = {0, 2, 3};
		static LazyEntry entries[LAZY_PAGE_CAPACITY];
		uint32		mask = (uint32) 1 << random_below(10);
		int			n;

		start();
		lazy_page_remove_matching(page, 0x80000000, 0);
		memcpy(twin, page, BLCKSZ);
		n = random_below(lazy_page_room(page) + 1);
		for (int i = 0; i < n; i++)
		{
			entries[i] = entry_of(random32());
			if (random_below(2) == 0)
				entries[i].tid.ip_posid |= LAZY_DEAD_BIT;
		}
		lazy_op_append(&ops, entries, n);
		lazy_page_append(twin, entries, n);
		if (lazy_page_count(twin) > 3)
		{
			lazy_op_remove(&ops, positions, 3);
			lazy_page_remove(twin, positions, 3);
		}
		if (random_below(2) == 0)
		{
			lazy_op_sort_runs(&ops);
			lazy_page_sort_runs(twin);
		}
		lazy_op_merge(&ops);
		lazy_page_merge(twin);
		lazy_op_remove_matching(&ops, mask, mask);
		lazy_page_remove_matching(twin, mask, mask);
		for (n = 0; n < lazy_page_room(twin); n++)
			entries[n] = entry_of(PG_UINT32_MAX);
		qsort(entries, n, sizeof(LazyEntry), model_compare);
		lazy_op_append_sorted(&ops, entries, n);
		lazy_page_append_sorted(twin, entries, n);
		CHECK(apply() == NULL);
		CHECK(memcmp(page, twin, BLCKSZ) == 0);
		CHECK(guarded_intact(guarded));
	}
	free(other);
}

static void
test_meta_ops(void)
{
	bool		newer;
	LazyMetaData *meta;

	start();
	meta = lazy_meta(page);
	lazy_op_meta_init(&ops, 7, 0, -3);
	lazy_op_meta_add(&ops, INT64CONST(5000000000));
	CHECK(apply() == NULL);
	CHECK(lazy_meta_problem(page, &newer) == NULL);
	CHECK(meta->ffactor == 7 && meta->maxbucket == 0 && meta->nphases == 1);
	CHECK(meta->ntuples == INT64CONST(4999999997));

	lazy_op_meta_phase(&ops, 77);
	lazy_op_meta_maxbucket(&ops, 1);
	CHECK(apply() == NULL);
	CHECK(meta->nphases == 2 && meta->phase_start[1] == 77);
	CHECK(meta->maxbucket == 1 && meta->highmask == 1 && meta->lowmask == 0);
	lazy_op_meta_maxbucket(&ops, 2);
	CHECK(same_text(apply(), "bucket in a phase that does not exist"));
	CHECK(meta->maxbucket == 1);
	CHECK(guarded_intact(guarded));
}

/* ---- misfits ---- */

static void
refused(const char *why)
{
	const char *problem = apply();

	if (!same_text(problem, why))
		printf("# refused because \"%s\", not \"%s\"\n", problem ? problem : "(not)", why);
	CHECK(same_text(problem, why));
	CHECK(guarded_intact(guarded));
}

static void
test_entry_misfits(void)
{
	uint16		up[] = {0, 4, 5};
	uint16		twice[] = {1, 1};
	uint16		down[] = {2, 1};
	uint16		past[] = {0, 5};
	LazyEntry	entries[2];

	start();
	make_page(LAZY_KIND_OVERFLOW, LAZY_PAGE_CAPACITY, 0);
	entries[0] = entry_of(5);
	entries[1] = entry_of(4);
	lazy_op_append(&ops, entries, 1);
	refused("more entries than the page has room for");
	make_page(LAZY_KIND_FREE, 0, 0);
	lazy_op_append(&ops, entries, 1);
	refused("entries for a page that belongs to no bucket");
	make_page(LAZY_KIND_PRIMARY, 3, 2);
	lazy_op_append_sorted(&ops, entries, 1);
	refused("sorted entries for a page that is not sorted");
	make_page(LAZY_KIND_PRIMARY, 3, 3);
	lazy_op_append_sorted(&ops, entries, 1);
	refused("entries that are not in order");
	make_page(LAZY_KIND_PRIMARY, 0, 0);
	lazy_op_append_sorted(&ops, entries, 2);
	refused("entries that are not in order");

	make_page(LAZY_KIND_PRIMARY, 5, 2);
	lazy_op_remove(&ops, past, 2);
	refused("position past the page's last entry");
	lazy_op_remove(&ops, up, 3);
	refused("position past the page's last entry");
	lazy_op_remove(&ops, twice, 2);
	refused("positions that do not ascend");
	lazy_op_remove(&ops, down, 2);
	refused("positions that do not ascend");
	make_page(LAZY_KIND_PRIMARY, 2, 2);
	lazy_op_remove(&ops, up, 3);
	refused("more positions than the page has entries");
	CHECK(lazy_page_count(page) == 2);
}

static void
test_field_misfits(void)
{
	start();
	make_page(LAZY_KIND_PRIMARY, 2, 2);
	/* counts stay within their limits */
	lazy_op_post(&ops, PG_INT32_MAX);
	lazy_op_post(&ops, PG_INT32_MAX);
	CHECK(apply() == NULL && lazy_special(page)->posted == LAZY_POSTED_LIMIT);
	lazy_op_post(&ops, PG_INT32_MIN);
	lazy_op_post(&ops, PG_INT32_MIN);
	CHECK(apply() == NULL && lazy_special(page)->posted == -LAZY_POSTED_LIMIT);
	lazy_op_set_flags(&ops, LAZY_KIND_OVERFLOW, LAZY_KIND_PRIMARY);
	refused("change of a page's kind");
	lazy_op_set_flags(&ops, LAZY_BEING_SPLIT | LAZY_BEING_POPULATED, 0);
	refused("page is being split and being populated at once");
	lazy_op_init(&ops, LAZY_KIND_PRIMARY | LAZY_KIND_FREE, 0, 0, 0, 0, 0);
	refused("page is not of exactly one kind");
	lazy_op_init(&ops, LAZY_KIND_META, 0, 0, 0, 0, 0);
	refused("metapage made as if it were a bucket page");
	lazy_op_meta_add(&ops, 1);
	refused("page is not a metapage");
	memset(page, 0, BLCKSZ);
	lazy_op_merge(&ops);
	refused("page is all zeroes");
	lazy_op_init(&ops, LAZY_KIND_RESERVED, 0, 0, 0, 0, 0);
	lazy_op_meta_add(&ops, 1);
	refused("operation that is not one of a bucket page");
}

static void
test_meta_misfits(void)
{
	start();
	lazy_op_meta_init(&ops, LAZY_PAGE_CAPACITY + 1, 0, 0);
	refused("invalid fill factor");
	lazy_op_meta_init(&ops, 0, 0, 0);
	refused("invalid fill factor");
	lazy_op_meta_init(&ops, 1, (uint32) LAZY_MAX_BUCKETS, 0);
	refused("too many buckets");
	lazy_op_meta_init(&ops, 1, 5, LAZY_NTUPLES_LIMIT + 1);
	refused("number of entries out of range");
	lazy_op_meta_init(&ops, 1, 5, -3);
	lazy_op_meta_add(&ops, PG_INT64_MIN);
	CHECK(apply() == NULL && lazy_meta(page)->ntuples == -LAZY_NTUPLES_LIMIT);
	lazy_op_meta_add(&ops, PG_INT64_MAX);
	CHECK(apply() == NULL && lazy_meta(page)->ntuples == LAZY_NTUPLES_LIMIT);
	lazy_op_meta_maxbucket(&ops, 4);
	refused("fewer buckets than there are");
	lazy_op_meta_phase(&ops, 0);
	refused("phase at blocks that cannot exist");
	lazy_op_meta_phase(&ops, InvalidBlockNumber);
	refused("phase at blocks that cannot exist");
	lazy_op_merge(&ops);
	refused("page is a metapage");
	lazy_op_meta_init(&ops, 1, (uint32) LAZY_MAX_BUCKETS - 1, 0);
	lazy_op_meta_phase(&ops, 5);
	refused("too many phases");
	lazy_op_meta_init(&ops, 1, 0, 0);
	lazy_op_bump_version(&ops);
	refused("operation that is not one of the metapage");

	/* The next phase has two blocks: the last block number is one too few. */
	lazy_op_meta_init(&ops, 1, 2 * LAZY_PHASES_PER_DOUBLING - 1, 0);
	lazy_op_meta_phase(&ops, MaxBlockNumber);
	refused("phase at blocks that cannot exist");
}

/* Every proper beginning of an operation is refused. */
static void
test_truncated(void)
{
	LazyEntry	entry;
	uint16		position = 0;

	start();
	entry = entry_of(1);
	for (int op = 0; op < 4; op++)
	{
		if (op == 0)
			lazy_op_init(&ops, LAZY_KIND_PRIMARY, 0, 0, 0, 0, 0);
		else if (op == 1)
			lazy_op_append(&ops, &entry, 1);
		else if (op == 2)
			lazy_op_remove(&ops, &position, 1);
		else
			lazy_op_meta_init(&ops, 1, 0, 0);
		for (int len = 1; len < ops.len; len++)
		{
			make_page(LAZY_KIND_PRIMARY, 1, 0);
			CHECK(same_text(apply_to(page, ops.data, len),
							"malformed program of page operations"));
		}
		CHECK(apply() == NULL);
	}
	CHECK(apply_to(page, "", 0) == NULL);
	CHECK(apply_to(page, "\0", 1) != NULL);
	CHECK(apply_to(page, "\x14", 1) != NULL);
	CHECK(apply_to(page, "\xFF", 1) != NULL);
}

/* ---- random programs ---- */

static void
random_entry_op(LazyOpcode opcode, int count, int room)
{
	static LazyEntry entries[LAZY_PAGE_CAPACITY];
	static uint16 positions[LAZY_PAGE_CAPACITY];
	int			n = 0;

	if (opcode == LAZY_OP_REMOVE)
	{
		for (int at = 0; at < count; at++)
		{
			if (random_below(8) == 0)
				positions[n++] = (uint16) at;
		}
		lazy_op_remove(&ops, positions, n);
		return;
	}
	n = random_below(room + 1);
	for (int i = 0; i < n; i++)
		entries[i] = entry_of(random32());
	if (opcode == LAZY_OP_APPEND_SORTED)
	{
		lazy_entries_sort(entries, n);
		lazy_op_append_sorted(&ops, entries, n);
	}
	else
		lazy_op_append(&ops, entries, n);
}

static void
random_op(LazyOpcode opcode, int count, int room)
{
	static const uint16 flags[] = {
		LAZY_KIND_PRIMARY, LAZY_KIND_OVERFLOW, LAZY_KIND_FREE, LAZY_KIND_RESERVED,
		LAZY_BEING_SPLIT, LAZY_BEING_POPULATED, 0, 0x8000
	};

	switch (opcode)
	{
		case LAZY_OP_INIT:
			lazy_op_init(&ops, flags[random_below(4)], random32(), random32(), random32(),
						 random32(), random32());
			break;
		case LAZY_OP_APPEND_ONE:
			random_entry_op(LAZY_OP_APPEND, count, Min(room, 1));
			break;
		case LAZY_OP_APPEND:
		case LAZY_OP_APPEND_SORTED:
		case LAZY_OP_REMOVE:
			random_entry_op(opcode, count, room);
			break;
		case LAZY_OP_MERGE:
			lazy_op_merge(&ops);
			break;
		case LAZY_OP_SORT_RUNS:
			lazy_op_sort_runs(&ops);
			break;
		case LAZY_OP_REMOVE_MATCHING:
			lazy_op_remove_matching(&ops, 5, random_below(8) & 5);
			break;
		case LAZY_OP_POST:
			lazy_op_post(&ops, (int32) random32() / 64);
			break;
		case LAZY_OP_SET_NEXT:
			lazy_op_set_next(&ops, random32());
			break;
		case LAZY_OP_SET_TAIL:
			lazy_op_set_tail(&ops, random32());
			break;
		case LAZY_OP_SET_SPLIT_NEXT:
			lazy_op_set_split_next(&ops, random32());
			break;
		case LAZY_OP_SET_STAMP:
			lazy_op_set_stamp(&ops, random32());
			break;
		case LAZY_OP_SET_FLAGS:
			lazy_op_set_flags(&ops, flags[4 + random_below(4)], flags[4 + random_below(4)]);
			break;
		case LAZY_OP_BUMP_VERSION:
			lazy_op_bump_version(&ops);
			break;
		case LAZY_OP_FREE:
			lazy_op_free(&ops);
			break;
		case LAZY_OP_META_INIT:
			lazy_op_meta_init(&ops, random_below(LAZY_PAGE_CAPACITY) + 1,
							  random32() >> random_below(32), (int64) random64());
			break;
		case LAZY_OP_META_ADD:
			lazy_op_meta_add(&ops, (int64) random64());
			break;
		case LAZY_OP_META_MAXBUCKET:
			lazy_op_meta_maxbucket(&ops, random32() >> random_below(32));
			break;
		case LAZY_OP_META_PHASE:
			lazy_op_meta_phase(&ops, random32());
			break;
	}
}

/*
 * A page and its replica differ in dead bits, has-dead and the bytes not in
 * use.  Each operation is tried on a copy; those that fit make up the program.
 */
static void
test_replay(void)
{
	GuardedPage *replica = guarded_new();
	int			napplied = 0;

	for (int round = 0; round < REPLAY_ROUNDS; round++)
	{
		Page		twin = replica->u.page;
		int			count;

		start();
		memcpy(twin, page, BLCKSZ);
		count = lazy_page_count(page);
		for (int i = 0; i < count; i++)
		{
			if (random_below(3) == 0)
				lazy_entries(twin)[i].tid.ip_posid ^= LAZY_DEAD_BIT;
		}
		for (char *p = (char *) (lazy_entries(twin) + count); p < (char *) lazy_special(twin); p++)
			*p = (char) random32();
		if (random_below(2) == 0)
			lazy_special(twin)->flags ^= LAZY_HAS_DEAD;
		CHECK(same_masked(page, twin));

		for (int i = 0; i < 12; i++)
		{
			LazyOpcode	opcode = LAZY_OP_INIT + random_below(LAZY_OP_FREE);
			const char *problem;

			/* What empties the page comes seldom. */
			if ((opcode == LAZY_OP_INIT || opcode == LAZY_OP_FREE) && random_below(8) > 0)
				opcode = LAZY_OP_APPEND;
			random_op(opcode, lazy_page_count(page), Min(lazy_page_room(page), 60));
			problem = apply_to(page, ops.data, ops.len);
			CHECK(same_text(apply_to(twin, ops.data, ops.len), problem));
			lazy_ops_end(&ops);
			if (problem != NULL)
				break;
			napplied++;
			CHECK(same_masked(page, twin));
			CHECK(lazy_page_problem(page) == NULL);
			CHECK(lazy_page_in_order(page));
		}
		CHECK(guarded_intact(guarded) && guarded_intact(replica));
	}
	CHECK(napplied > 2 * REPLAY_ROUNDS);
	free(replica);
}

/* ---- garbage ---- */

/* Pages of every sort, in order and not. */
static void
garbage_page(void)
{
	switch (random_below(8))
	{
		case 0:
			memset(page, 0, BLCKSZ);
			break;
		case 1:
			for (int i = 0; i < BLCKSZ; i += 4)
				memcpy(page + i, &(uint32) {random32()}, 4);
			break;
		case 2:
			random_page(page, HASH_UNIFORM, NULL);
			for (int i = random_below(8); i > 0; i--)
				page[random_below(2) ? random_below(LAZY_PAGE_START) :
					 LAZY_SPECIAL_OFFSET + random_below(40)] = (char) random32();
			break;
		case 3:
		case 4:
			lazy_meta_init(page, 1 + random_below(LAZY_PAGE_CAPACITY),
						   random32() >> (1 + random_below(31)), (int64) random64());
			break;
		default:
			random_page(page, random_below(HASH_KINDS), NULL);
	}
}

/* Programs of every sort: of random bytes, of random operations, and damaged. */
static void
garbage_program(void)
{
	int			sort = random_below(8);

	if (sort == 0)
	{
		ops.len = random_below(sizeof(ops.small) + 1);
		for (int i = 0; i < ops.len; i++)
			ops.data[i] = (char) random32();
		if (ops.len > 0)
			ops.data[0] = (char) random_below(LAZY_OP_LAST + 2);
		return;
	}
	for (int i = random_below(5); i >= 0; i--)
		random_op(LAZY_OP_INIT + random_below(LAZY_OP_LAST), random_below(LAZY_PAGE_CAPACITY),
				  random_below(20));
	if (sort > 4)
		return;
	for (int i = random_below(4); i >= 0 && ops.len > 0; i--)
		ops.data[random_below(ops.len)] = (char) random32();
	if (random_below(4) == 0)
		ops.len = random_below(ops.len + 1);
}

static void
test_garbage(void)
{
	int			naccepted = 0;
	int			nrefused = 0;
	bool		newer;
	StringInfoData text;

	start();
	initStringInfo(&text);
	for (int try = 0; try < GARBAGE_TRIES; try++)
	{
		const char *problem;

		/* Each page has a few programs to bear, one upon the other. */
		if (try % 8 == 0)
			garbage_page();
		garbage_program();
		problem = apply_to(page, ops.data, ops.len);
		CHECK(guarded_intact(guarded));
		if (problem == NULL && ops.len > 0)
		{
			CHECK(lazy_page_problem(page) == NULL ||
				  lazy_meta_header_problem(page, &newer) == NULL);
			naccepted++;
		}
		else
			nrefused++;
		resetStringInfo(&text);
		lazy_ops_describe(&text, ops.data, ops.len);
		CHECK((problem != NULL &&
			   strcmp(problem, "malformed program of page operations") == 0) <=
			  (strstr(text.data, "malformed at byte ") != NULL));
		lazy_ops_end(&ops);
	}
	CHECK(naccepted > GARBAGE_TRIES / 20 && nrefused > GARBAGE_TRIES / 20);
	pfree(text.data);
}

/* ---- writing and describing ---- */

/* A program outgrows its small buffer, byte for byte the same. */
static void
test_growth(void)
{
	char	   *expected = malloc(7 * 10000);

	start();
	for (int i = 0; i < 10000; i++)
	{
		lazy_op_set_next(&ops, i);
		CHECK(ops.len == 5 * (i + 1));
		if (i < 12)
			CHECK(ops.data == ops.small);
		memcpy(expected + 5 * i, ops.data + 5 * i, 5);
		CHECK(memcmp(expected, ops.data, 5 * (i < 100 ? i + 1 : 100)) == 0);
	}
	CHECK(memcmp(expected, ops.data, ops.len) == 0);
	CHECK(apply() == NULL);
	CHECK(lazy_special(page)->next == 9999);
	CHECK(ops.data == ops.small && ops.len == 0);
	lazy_op_append(&ops, NULL, 0);
	lazy_op_append_sorted(&ops, NULL, 0);
	lazy_op_remove(&ops, NULL, 0);
	CHECK(ops.len == 0);
	free(expected);
}

static void
described(const char *expected)
{
	StringInfoData text;

	initStringInfo(&text);
	lazy_ops_describe(&text, ops.data, ops.len);
	if (!same_text(text.data, expected))
		printf("# described as \"%s\"\n", text.data);
	CHECK(same_text(text.data, expected));
	pfree(text.data);
	lazy_ops_end(&ops);
}

static void
test_describe(void)
{
	LazyEntry	entries[2];
	uint16		positions[] = {1, 2, 3};

	start();
	entries[0] = entry_of(1);
	entries[1] = entry_of(2);
	described("");
	lazy_op_append(&ops, entries, 1);
	lazy_op_merge(&ops);
	lazy_op_sort_runs(&ops);
	lazy_op_post(&ops, 64);
	described("append; merge; sort_runs; post +64");
	lazy_op_init(&ops, LAZY_KIND_PRIMARY | LAZY_BEING_POPULATED, 1, InvalidBlockNumber, 3, 4, 5);
	lazy_op_append_sorted(&ops, entries, 2);
	described("init flags=0x0202 bucket=1 tail=none stamp=3 version=4 deletions=5; "
			  "append_sorted n=2");
	lazy_op_remove(&ops, positions, 3);
	lazy_op_remove_matching(&ops, 0x3FF, 0x1AB);
	lazy_op_post(&ops, -3);
	described("remove n=3; remove_matching mask=0x000003FF value=0x000001AB; post -3");
	lazy_op_set_next(&ops, InvalidBlockNumber);
	lazy_op_set_tail(&ops, 7);
	lazy_op_set_split_next(&ops, 8);
	lazy_op_set_stamp(&ops, 9);
	lazy_op_set_flags(&ops, 0, LAZY_HAS_DEAD);
	lazy_op_bump_version(&ops);
	lazy_op_free(&ops);
	described("next none; tail 7; split_next 8; stamp 9; flags set=0x0000 clear=0x0400; "
			  "bump_version; free");
	lazy_op_meta_init(&ops, 600, 1023, 5000000000);
	lazy_op_meta_add(&ops, -64);
	lazy_op_meta_maxbucket(&ops, 1024);
	lazy_op_meta_phase(&ops, 1025);
	described("meta_init ffactor=600 maxbucket=1023 ntuples=5000000000; ntuples -64; "
			  "maxbucket 1024; phase 1025");
	lazy_op_merge(&ops);
	ops.data[ops.len++] = 99;
	described("merge; malformed at byte 1");
}

const Test	op_tests[] = {
	{"each operation on fields does what it says", test_fields},
	{"each operation on entries does what the page's functions do", test_entries},
	{"each operation on the metapage does what it says", test_meta_ops},
	{"entries and positions that do not fit are refused", test_entry_misfits},
	{"fields that do not fit are refused", test_field_misfits},
	{"metapage operations that do not fit are refused", test_meta_misfits},
	{"truncated and unknown operations are refused", test_truncated},
	{"replay is blind to dead bits and comes to the same page", test_replay},
	{"no program writes outside the page or leaves it in disorder", test_garbage},
	{"a program may grow", test_growth},
	{"programs are described", test_describe},
	{NULL, NULL}
};

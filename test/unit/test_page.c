/*
 * test_page.c
 *		Tests of src/format/page.c, most of them against a model of the page in
 *		a plain array.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "unit.h"

#define ROUNDS	400

static GuardedPage *guarded;
static Page page;
static Model model;

static void
start(HashKind kind)
{
	if (guarded == NULL)
		guarded = guarded_new();
	page = guarded->u.page;
	random_page(page, kind, &model);
}

/* A hash that is on the page, or one that probably is not. */
static uint32
some_hash(HashKind kind)
{
	if (model.count > 0 && random_below(2) == 0)
		return lazy_entry_hash(&model.entry[random_below(model.count)]);
	return random_hash(kind) + random_below(3) - 1;
}

/* ---- searching ---- */

static void
test_lower_bound(void)
{
	for (int round = 0; round < ROUNDS; round++)
	{
		HashKind	kind = round % HASH_KINDS;

		start(kind);
		for (int i = 0; i < 50; i++)
		{
			uint32		hash = some_hash(kind);
			int			expected = 0;

			while (expected < model.nsorted && lazy_entry_hash(&model.entry[expected]) < hash)
				expected++;
			CHECK(lazy_page_lower_bound(page, hash) == expected);
		}
		CHECK(lazy_page_lower_bound(page, 0) == 0);
	}
}

static void
test_find(void)
{
	static uint16 positions[LAZY_PAGE_CAPACITY];

	for (int round = 0; round < ROUNDS; round++)
	{
		HashKind	kind = round % HASH_KINDS;

		start(kind);
		for (int i = 0; i < 20; i++)
		{
			uint32		hash = some_hash(kind);
			int			nfound = lazy_page_find(page, hash, positions);
			int			expected = 0;

			for (int at = 0; at < model.count; at++)
			{
				if (lazy_entry_hash(&model.entry[at]) != hash)
					continue;
				CHECK(expected < nfound && positions[expected] == at);
				expected++;
			}
			CHECK(nfound == expected);
		}
		CHECK(same_as_model(page, &model));
	}
}

static void
test_find_entry(void)
{
	for (int round = 0; round < ROUNDS; round++)
	{
		HashKind	kind = round % HASH_KINDS;

		start(kind);
		for (int i = 0; i < 20 && model.count > 0; i++)
		{
			int			at = random_below(model.count);
			uint32		hash = lazy_entry_hash(&model.entry[at]);
			ItemPointerData tid = lazy_entry_tid(&model.entry[at]);

			CHECK(lazy_page_find_entry(page, hash, &tid) == at);
			CHECK(lazy_page_find_entry(page, hash + 1, &tid) == -1);
			tid = fresh_tid();
			CHECK(lazy_page_find_entry(page, hash, &tid) == -1);
		}
	}
}

static void
test_matching(void)
{
	static uint16 positions[LAZY_PAGE_CAPACITY];

	for (int round = 0; round < ROUNDS; round++)
	{
		uint32		mask = random32() & random32() & random32();
		uint32		value;
		int			expected = 0;

		start(round % HASH_KINDS);
		value = some_hash(round % HASH_KINDS) & mask;
		CHECK(lazy_page_matching(page, mask, value, NULL) ==
			  lazy_page_matching(page, mask, value, positions));
		for (int at = 0; at < model.count; at++)
		{
			if ((lazy_entry_hash(&model.entry[at]) & mask) == value)
				CHECK(positions[expected++] == at);
		}
		CHECK(lazy_page_matching(page, mask, value, NULL) == expected);
	}
}

static void
test_dead(void)
{
	static uint16 positions[LAZY_PAGE_CAPACITY];
	ItemPointerData tid;
	LazyEntry	entry;

	for (int round = 0; round < ROUNDS; round++)
	{
		int			ndead;
		int			expected = 0;

		start(round % HASH_KINDS);
		ndead = lazy_page_dead(page, positions);
		for (int at = 0; at < model.count; at++)
		{
			if (model.entry[at].tid.ip_posid >= 0x8000)
				CHECK(expected < ndead && positions[expected++] == at);
		}
		CHECK(ndead == expected);
	}

	/* No TID that is handed out has the bit, nor does one that comes in. */
	ItemPointerSet(&tid, 17, 5 | LAZY_DEAD_BIT);
	lazy_entry_set(&entry, 1, &tid);
	CHECK(!lazy_entry_is_dead(&entry));
	entry.tid.ip_posid |= LAZY_DEAD_BIT;
	tid = lazy_entry_tid(&entry);
	CHECK(lazy_entry_is_dead(&entry));
	CHECK(ItemPointerGetBlockNumber(&tid) == 17 && ItemPointerGetOffsetNumber(&tid) == 5);
}

/* ---- changing ---- */

/* Some entries to add, dead bits among them. */
static int
random_entries(LazyEntry *entries, HashKind kind, int most)
{
	int			n = random_below(most + 1);

	for (int i = 0; i < n; i++)
	{
		ItemPointerData tid = fresh_tid();

		lazy_entry_set(&entries[i], random_hash(kind), &tid);
		if (random_below(3) == 0)
			entries[i].tid.ip_posid |= LAZY_DEAD_BIT;
	}
	return n;
}

static void
model_append(const LazyEntry *entries, int n)
{
	for (int i = 0; i < n; i++)
	{
		model.entry[model.count] = entries[i];
		model.entry[model.count++].tid.ip_posid &= 0x7FFF;
	}
}

static void
change_append(HashKind kind)
{
	static LazyEntry entries[LAZY_PAGE_CAPACITY];
	int			n = random_entries(entries, kind, lazy_page_room(page));

	lazy_page_append(page, entries, n);
	model_append(entries, n);
}

/* Entries above all that the page has: the hashes are moved up, if need be. */
static void
change_append_sorted(HashKind kind)
{
	static LazyEntry entries[LAZY_PAGE_CAPACITY];
	uint32		least = 0;
	int			n;

	lazy_page_merge(page);
	qsort(model.entry, model.count, sizeof(LazyEntry), model_compare);
	model.nsorted = model.count;
	model.nruns = 0;
	if (model.count > 0)
		least = lazy_entry_hash(&model.entry[model.count - 1]);
	if (least == PG_UINT32_MAX)
		return;
	n = random_entries(entries, kind, lazy_page_room(page));
	for (int i = 0; i < n; i++)
	{
		uint32		hash = Max(lazy_entry_hash(&entries[i]), least + 1);

		memcpy(entries[i].hash_half, &hash, sizeof(hash));
	}
	qsort(entries, n, sizeof(LazyEntry), model_compare);
	lazy_page_append_sorted(page, entries, n);
	model_append(entries, n);
	model.nsorted = model.count;
	model.nruns = 0;
}

static void
change_merge(HashKind kind)
{
	lazy_page_merge(page);
	qsort(model.entry, model.count, sizeof(LazyEntry), model_compare);
	model.nsorted = model.count;
	model.nruns = 0;
}

static void
change_sort_runs(HashKind kind)
{
	int			start = model.nsorted + model.nruns * LAZY_RUN;

	lazy_page_sort_runs(page);
	for (; start + LAZY_RUN <= model.count; start += LAZY_RUN)
	{
		qsort(model.entry + start, LAZY_RUN, sizeof(LazyEntry), model_compare);
		model.nruns++;
	}
}

static void
model_remove(const bool *gone)
{
	int			kept = 0;
	int			nsorted = model.nsorted;

	for (int at = 0; at < model.count; at++)
	{
		if (!gone[at])
			model.entry[kept++] = model.entry[at];
		else if (at < nsorted)
			model.nsorted--;
		else if (model.nruns > (at - nsorted) / LAZY_RUN)
			model.nruns = (at - nsorted) / LAZY_RUN;
	}
	model.count = kept;
}

static void
change_remove(HashKind kind)
{
	static uint16 positions[LAZY_PAGE_CAPACITY];
	static bool gone[LAZY_PAGE_CAPACITY];
	int			one_in = 1 + random_below(20);
	uint32		deletions = lazy_special(page)->deletions;
	int			n = 0;

	for (int at = 0; at < model.count; at++)
	{
		if ((gone[at] = (random_below(one_in) == 0)))
			positions[n++] = (uint16) at;
	}
	lazy_page_remove(page, positions, n);
	model_remove(gone);
	CHECK(lazy_special(page)->deletions == deletions + (n > 0));
}

static void
change_remove_matching(HashKind kind)
{
	static bool gone[LAZY_PAGE_CAPACITY];
	uint32		mask = (uint32) 1 << random_below(32);
	uint32		value = random32() & mask;
	uint32		deletions = lazy_special(page)->deletions;
	int			n = 0;

	for (int at = 0; at < model.count; at++)
		n += (gone[at] = ((lazy_entry_hash(&model.entry[at]) & mask) == value));
	lazy_page_remove_matching(page, mask, value);
	model_remove(gone);
	CHECK(lazy_special(page)->deletions == deletions + (n > 0));
}

static void (*const changes[]) (HashKind) = {
	change_append, change_append_sorted, change_merge, change_sort_runs, change_remove,
	change_remove_matching
};

static void
test_changes(void)
{
	for (int round = 0; round < ROUNDS; round++)
	{
		HashKind	kind = round % HASH_KINDS;

		start(kind);
		for (int i = 0; i < 20; i++)
		{
			LazyPageSpecialData before = *lazy_special(page);
			LazyPageSpecialData after;

			changes[random_below(lengthof(changes))] (kind);
			CHECK(same_as_model(page, &model));
			CHECK(lazy_page_in_order(page));

			/* Nothing else of the special area has changed. */
			after = *lazy_special(page);
			after.nsorted = before.nsorted;
			after.nruns = before.nruns;
			after.deletions = before.deletions;
			CHECK(memcmp(&before, &after, sizeof(before)) == 0);
		}
		CHECK(guarded_intact(guarded));
	}
}

/* One entry at a time, merged now and then, as inserts do it. */
static void
test_inserts(void)
{
	for (HashKind kind = 0; kind < HASH_KINDS; kind++)
	{
		start(kind);
		lazy_page_init(page, LAZY_KIND_OVERFLOW, 3, InvalidBlockNumber, 0, 0, 0);
		model.count = model.nsorted = model.nruns = 0;
		while (lazy_page_room(page) > 0)
		{
			LazyEntry	entry;
			ItemPointerData tid = fresh_tid();

			lazy_entry_set(&entry, random_hash(kind), &tid);
			lazy_page_append(page, &entry, 1);
			model_append(&entry, 1);
			if (random_below(64) == 0)
				change_sort_runs(kind);
			if (random_below(200) == 0)
				change_merge(kind);
		}
		CHECK(model.count == LAZY_PAGE_CAPACITY);
		CHECK(same_as_model(page, &model));
		change_merge(kind);
		CHECK(same_as_model(page, &model));
		CHECK(guarded_intact(guarded));
	}
}

static void
test_in_order(void)
{
	int			nseen = 0;

	for (int round = 0; round < ROUNDS; round++)
	{
		LazyEntry  *entries;
		LazyEntry	entry;
		int			at;

		start(round % HASH_KINDS);
		CHECK(lazy_page_in_order(page));
		/* two neighbours that are to be in order, of the prefix or of a run */
		if (model.nruns > 0)
			at = model.nsorted + random_below(model.nruns) * LAZY_RUN + random_below(LAZY_RUN - 1);
		else if (model.nsorted > 1)
			at = random_below(model.nsorted - 1);
		else
			continue;
		entries = lazy_entries(page);
		entry = entries[at];
		entries[at] = entries[at + 1];
		entries[at + 1] = entry;
		CHECK(!lazy_page_in_order(page));
		nseen++;
	}
	CHECK(nseen > ROUNDS / 2);
}

/* Of any number of entries, a page's and more. */
static void
test_sort(void)
{
	int			most = 3 * LAZY_PAGE_CAPACITY;
	LazyEntry  *entries = malloc(most * sizeof(LazyEntry));
	LazyEntry  *expected = malloc(most * sizeof(LazyEntry));
	LazyEntry  *sorted = malloc(most * sizeof(LazyEntry));

	for (int round = 0; round < ROUNDS; round++)
	{
		int			n = random_below(round % 2 ? LAZY_PAGE_CAPACITY + 1 : most + 1);

		if (round < 20)
			n = round / 2;
		for (int i = 0; i < n; i++)
		{
			ItemPointerData tid = fresh_tid();

			lazy_entry_set(&entries[i], random_hash(round % HASH_KINDS), &tid);
		}
		memcpy(expected, entries, n * sizeof(LazyEntry));
		qsort(expected, n, sizeof(LazyEntry), model_compare);
		if (n <= LAZY_PAGE_CAPACITY)
		{
			lazy_entries_sort_to(sorted, entries, n);
			CHECK(memcmp(sorted, expected, n * sizeof(LazyEntry)) == 0);
		}
		lazy_entries_sort(entries, n);
		CHECK(memcmp(entries, expected, n * sizeof(LazyEntry)) == 0);
	}
	free(entries);
	free(expected);
	free(sorted);
}

/* ---- making, freeing, and what is wrong with a page ---- */

static void
test_init(void)
{
	LazyPageSpecial special;

	start(HASH_UNIFORM);
	lazy_page_init(page, LAZY_KIND_PRIMARY | LAZY_BEING_POPULATED, 5, 6, 7, 8, 9);
	special = lazy_special(page);
	CHECK(lazy_page_problem(page) == NULL);
	CHECK(lazy_page_count(page) == 0 && lazy_page_room(page) == LAZY_PAGE_CAPACITY);
	CHECK(special->bucket == 5 && special->tail == 6 && special->stamp == 7);
	CHECK(special->version == 8 && special->deletions == 9);
	CHECK(special->next == InvalidBlockNumber && special->split_next == InvalidBlockNumber);
	CHECK(special->posted == 0 && special->nsorted == 0 && special->nruns == 0);
	CHECK(special->flags == (LAZY_KIND_PRIMARY | LAZY_BEING_POPULATED));
	CHECK(page[BLCKSZ - 2] == (char) (LAZY_PAGE_ID & 0xFF) ||
		  page[BLCKSZ - 1] == (char) (LAZY_PAGE_ID & 0xFF));
	CHECK(lazy_page_kind(page) == LAZY_KIND_PRIMARY);
	CHECK(lazy_page_has(page, LAZY_BEING_POPULATED) && !lazy_page_has(page, LAZY_BEING_SPLIT));
	CHECK(guarded_intact(guarded));
}

static void
test_free(void)
{
	LazyPageSpecialData before;
	LazyPageSpecial special;

	start(HASH_UNIFORM);
	special = lazy_special(page);
	special->next = 12;
	special->split_next = 13;
	before = *special;
	lazy_page_free(page);
	CHECK(lazy_page_problem(page) == NULL);
	CHECK(lazy_page_count(page) == 0 && special->nsorted == 0 && special->nruns == 0);
	CHECK(special->posted == 0);
	CHECK(special->flags == LAZY_KIND_FREE);
	CHECK(special->next == InvalidBlockNumber && special->split_next == InvalidBlockNumber);
	CHECK(special->deletions == before.deletions + 1 && special->version == before.version);
}

static void
problem_is(const char *expected)
{
	CHECK(same_text(lazy_page_problem(page), expected));
	random_page(page, HASH_UNIFORM, &model);
}

static void
test_problem(void)
{
	PageHeader	header;
	LazyPageSpecial special;

	start(HASH_UNIFORM);
	header = (PageHeader) page;
	special = lazy_special(page);
	problem_is(NULL);

	memset(page, 0, BLCKSZ);
	problem_is("page is all zeroes");
	memset(page, 0, BLCKSZ);
	page[BLCKSZ / 2] = 1;
	problem_is("page does not bear the mark of a lazyhash page");
	special->page_id ^= 1;
	problem_is("page does not bear the mark of a lazyhash page");
	header->pd_special -= 8;
	problem_is("special area is not where it should be");
	header->pd_upper = header->pd_lower;
	if (header->pd_lower != LAZY_SPECIAL_OFFSET)
		problem_is("special area is not where it should be");
	header->pd_lower = LAZY_PAGE_START - sizeof(LazyEntry);
	problem_is("end of the entries is not where an entry can end");
	header->pd_lower = LAZY_PAGE_START + (LAZY_PAGE_CAPACITY + 1) * sizeof(LazyEntry);
	problem_is("end of the entries is not where an entry can end");
	header->pd_lower = LAZY_PAGE_START + 5;
	problem_is("end of the entries is not where an entry can end");
	special->nsorted = lazy_page_count(page) + 1;
	special->nruns = 0;
	problem_is("sorted entries are more than the page's entries");
	special->nruns = (lazy_page_count(page) - special->nsorted) / LAZY_RUN + 1;
	problem_is("sorted entries are more than the page's entries");
	special->flags |= 0x8000;
	problem_is("page has flags that are not known");
	special->flags |= LAZY_KIND_OVERFLOW;
	problem_is("page is not of exactly one kind");
	special->flags &= ~LAZY_KIND_MASK;
	problem_is("page is not of exactly one kind");
	special->flags = LAZY_KIND_OVERFLOW | LAZY_BEING_SPLIT;
	problem_is("page takes part in a split but is not a primary page");
	special->flags |= LAZY_BEING_SPLIT | LAZY_BEING_POPULATED;
	problem_is("page is being split and being populated at once");
	special->flags = LAZY_KIND_META;
	problem_is("page is a metapage");
	header->pd_lower = LAZY_PAGE_START + sizeof(LazyEntry);
	special->nsorted = special->nruns = 0;
	special->flags = LAZY_KIND_FREE;
	problem_is("page belongs to no bucket but has entries");
	header->pd_lower = LAZY_PAGE_START + sizeof(LazyEntry);
	special->nsorted = special->nruns = 0;
	special->flags = LAZY_KIND_RESERVED;
	problem_is("page belongs to no bucket but has entries");
}

/* After lazy_page_problem() says NULL, nonsense entries harm no memory. */
static void
test_nonsense_entries(void)
{
	static uint16 positions[LAZY_PAGE_CAPACITY];

	for (int round = 0; round < ROUNDS; round++)
	{
		ItemPointerData tid = fresh_tid();

		start(HASH_UNIFORM);
		for (int i = 0; i < LAZY_PAGE_CAPACITY * (int) sizeof(LazyEntry); i++)
			((char *) lazy_entries(page))[i] = (char) random32();
		for (int i = 0; i < 20; i++)
		{
			uint32		hash = random32();
			int			at = lazy_page_lower_bound(page, hash);

			CHECK(at >= 0 && at <= model.nsorted);
			CHECK(lazy_page_find(page, hash, positions) <= model.count);
			CHECK(lazy_page_find_entry(page, hash, &tid) < model.count);
		}
		lazy_page_merge(page);
		CHECK(lazy_page_problem(page) == NULL);
		CHECK(lazy_page_count(page) == model.count);
		CHECK(guarded_intact(guarded));
	}
}

const Test	page_tests[] = {
	{"lower bound is the first entry not less, whatever the hashes", test_lower_bound},
	{"find returns all entries of a hash and no other", test_find},
	{"an entry is found by hash and TID", test_find_entry},
	{"entries that match a mask are found", test_matching},
	{"dead entries are found, and the dead bit stays inside", test_dead},
	{"append, merge and remove agree with a model", test_changes},
	{"single inserts with runs and merges agree with a model", test_inserts},
	{"a prefix or a run out of order is noticed", test_in_order},
	{"an array of entries is sorted", test_sort},
	{"a page that is made is as asked for", test_init},
	{"a freed page keeps its count of deletions, plus one", test_free},
	{"each fault of a page is named", test_problem},
	{"nonsense entries harm no memory", test_nonsense_entries},
	{NULL, NULL}
};

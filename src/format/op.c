/*
 * op.c
 *		Writing programs of page operations, applying them and describing them.
 *
 * The table of shapes says what follows each opcode.  Encoding, decoding and
 * describing all go by it, so that they cannot disagree.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "common/int.h"

#include "meta.h"
#include "op.h"
#include "page.h"

/* ---- shapes ---- */

typedef enum ArgType
{
	ARG_NONE = 0,				/* ends a list of arguments */
	ARG_FLAGS,					/* uint16 */
	ARG_NUMBER,					/* uint32 */
	ARG_MASK,					/* uint32, of hash bits */
	ARG_BLOCK,					/* uint32, block number or invalid */
	ARG_DELTA,					/* int32 */
	ARG_LONG,					/* int64 */
	ARG_LONG_DELTA,				/* int64 */
	ARG_COUNT					/* uint16, at least 1: of the items that follow */
} ArgType;

static const uint8 arg_width[] = {
	[ARG_NONE] = 0,
	[ARG_FLAGS] = sizeof(uint16),
	[ARG_NUMBER] = sizeof(uint32),
	[ARG_MASK] = sizeof(uint32),
	[ARG_BLOCK] = sizeof(uint32),
	[ARG_DELTA] = sizeof(int32),
	[ARG_LONG] = sizeof(int64),
	[ARG_LONG_DELTA] = sizeof(int64),
	[ARG_COUNT] = sizeof(uint16),
};

#define MAX_ARGS	6

typedef struct OpShape
{
	const char *name;
	uint8		item_size;		/* size of an item, if it ends in a list, or in one item */
	struct
	{
		ArgType		type;
		const char *label;		/* for people */
	}			arg[MAX_ARGS];
} OpShape;

static const OpShape shapes[LAZY_OP_LAST + 1] = {
	[LAZY_OP_INIT] = {"init", 0, {
		{ARG_FLAGS, "flags"}, {ARG_NUMBER, "bucket"}, {ARG_BLOCK, "tail"},
		{ARG_NUMBER, "stamp"}, {ARG_NUMBER, "version"}, {ARG_NUMBER, "deletions"}
	}},
	[LAZY_OP_APPEND_ONE] = {"append", sizeof(LazyEntry)},
	[LAZY_OP_APPEND] = {"append", sizeof(LazyEntry), {{ARG_COUNT, "n"}}},
	[LAZY_OP_APPEND_SORTED] = {"append_sorted", sizeof(LazyEntry), {{ARG_COUNT, "n"}}},
	[LAZY_OP_MERGE] = {"merge"},
	[LAZY_OP_SORT_RUNS] = {"sort_runs"},
	[LAZY_OP_REMOVE] = {"remove", sizeof(uint16), {{ARG_COUNT, "n"}}},
	[LAZY_OP_REMOVE_MATCHING] = {"remove_matching", 0, {{ARG_MASK, "mask"}, {ARG_MASK, "value"}}},
	[LAZY_OP_POST] = {"post", 0, {{ARG_DELTA}}},
	[LAZY_OP_SET_NEXT] = {"next", 0, {{ARG_BLOCK}}},
	[LAZY_OP_SET_TAIL] = {"tail", 0, {{ARG_BLOCK}}},
	[LAZY_OP_SET_SPLIT_NEXT] = {"split_next", 0, {{ARG_BLOCK}}},
	[LAZY_OP_SET_STAMP] = {"stamp", 0, {{ARG_NUMBER}}},
	[LAZY_OP_SET_FLAGS] = {"flags", 0, {{ARG_FLAGS, "set"}, {ARG_FLAGS, "clear"}}},
	[LAZY_OP_BUMP_VERSION] = {"bump_version"},
	[LAZY_OP_FREE] = {"free"},
	[LAZY_OP_META_INIT] = {"meta_init", 0, {
		{ARG_NUMBER, "ffactor"}, {ARG_NUMBER, "maxbucket"}, {ARG_LONG, "ntuples"}
	}},
	[LAZY_OP_META_ADD] = {"ntuples", 0, {{ARG_LONG_DELTA}}},
	[LAZY_OP_META_MAXBUCKET] = {"maxbucket", 0, {{ARG_NUMBER}}},
	[LAZY_OP_META_PHASE] = {"phase", 0, {{ARG_BLOCK}}},
};

/* ---- writing ---- */

void
lazy_ops_start(LazyOps *ops)
{
	ops->len = 0;
	ops->size = sizeof(ops->small);
	ops->data = ops->small;
}

void
lazy_ops_end(LazyOps *ops)
{
	if (ops->data != ops->small)
		pfree(ops->data);
	lazy_ops_start(ops);
}

/* Makes room for so many bytes more, and takes them. */
static char *
reserve(LazyOps *ops, int bytes)
{
	int			start = ops->len;

	if (bytes > ops->size - ops->len)
	{
		int			size = Max(2 * ops->size, ops->len + bytes);

		if (ops->data == ops->small)
		{
			ops->data = palloc(size);
			memcpy(ops->data, ops->small, ops->len);
		}
		else
			ops->data = repalloc(ops->data, size);
		ops->size = size;
	}
	ops->len += bytes;
	return ops->data + start;
}

/*
 * Adds an opcode and its arguments, and reserves what its list of items takes.
 * Returns where the items go.
 */
static char *
emit(LazyOps *ops, LazyOpcode opcode, const uint64 *args)
{
	const OpShape *shape = &shapes[opcode];
	int			nargs = 0;
	int			nitems = 1;
	int			bytes = 1;
	char	   *to;

	for (; nargs < MAX_ARGS && shape->arg[nargs].type != ARG_NONE; nargs++)
	{
		bytes += arg_width[shape->arg[nargs].type];
		if (shape->arg[nargs].type == ARG_COUNT)
			nitems = (int) args[nargs];
	}
	to = reserve(ops, bytes + nitems * shape->item_size);
	*to++ = (char) opcode;
	for (int i = 0; i < nargs; i++)
	{
		int			width = arg_width[shape->arg[i].type];
		uint16		arg16 = (uint16) args[i];
		uint32		arg32 = (uint32) args[i];

		if (width == sizeof(uint16))
			memcpy(to, &arg16, sizeof(uint16));
		else if (width == sizeof(uint32))
			memcpy(to, &arg32, sizeof(uint32));
		else
			memcpy(to, &args[i], sizeof(uint64));
		to += width;
	}
	return to;
}

#define EMIT(ops, opcode, ...) \
	emit(ops, opcode, (const uint64[MAX_ARGS]) {__VA_ARGS__})

void
lazy_op_init(LazyOps *ops, uint16 flags, uint32 bucket, BlockNumber tail,
			 uint32 stamp, uint32 version, uint32 deletions)
{
	EMIT(ops, LAZY_OP_INIT, flags, bucket, tail, stamp, version, deletions);
}

/* Entries go into WAL without their dead bits, which mean nothing there. */
static void
emit_entries(LazyOps *ops, LazyOpcode opcode, const LazyEntry *entries, int n)
{
	char	   *to;

	Assert(n >= 0 && n <= LAZY_PAGE_CAPACITY);

	if (n == 0)
		return;
	to = EMIT(ops, opcode, (uint64) n);
	for (int i = 0; i < n; i++)
	{
		LazyEntry	entry;

		lazy_entries_copy(&entry, &entries[i], 1);
		memcpy(to, &entry, sizeof(LazyEntry));
		to += sizeof(LazyEntry);
	}
}

/* What nearly every program consists of, hence without the table of shapes. */
#define APPEND_ONE_SIZE		(1 + (int) sizeof(LazyEntry))

static void
emit_append_one(LazyOps *ops, const LazyEntry *from)
{
	char	   *to = reserve(ops, APPEND_ONE_SIZE);
	LazyEntry	entry;

	lazy_entries_copy(&entry, from, 1);
	*to = (char) LAZY_OP_APPEND_ONE;
	memcpy(to + 1, &entry, sizeof(LazyEntry));
}

void
lazy_op_append(LazyOps *ops, const LazyEntry *entries, int n)
{
	if (n == 1)
		emit_append_one(ops, entries);
	else
		emit_entries(ops, LAZY_OP_APPEND, entries, n);
}

void
lazy_op_append_sorted(LazyOps *ops, const LazyEntry *entries, int n)
{
	emit_entries(ops, LAZY_OP_APPEND_SORTED, entries, n);
}

void
lazy_op_merge(LazyOps *ops)
{
	EMIT(ops, LAZY_OP_MERGE, 0);
}

void
lazy_op_sort_runs(LazyOps *ops)
{
	EMIT(ops, LAZY_OP_SORT_RUNS, 0);
}

void
lazy_op_remove(LazyOps *ops, const uint16 *positions, int n)
{
	Assert(n >= 0 && n <= LAZY_PAGE_CAPACITY);

	if (n > 0)
		memcpy(EMIT(ops, LAZY_OP_REMOVE, (uint64) n), positions, n * sizeof(uint16));
}

void
lazy_op_remove_matching(LazyOps *ops, uint32 mask, uint32 value)
{
	EMIT(ops, LAZY_OP_REMOVE_MATCHING, mask, value);
}

void
lazy_op_post(LazyOps *ops, int32 delta)
{
	EMIT(ops, LAZY_OP_POST, (uint64) delta);
}

void
lazy_op_set_next(LazyOps *ops, BlockNumber block)
{
	EMIT(ops, LAZY_OP_SET_NEXT, block);
}

void
lazy_op_set_tail(LazyOps *ops, BlockNumber block)
{
	EMIT(ops, LAZY_OP_SET_TAIL, block);
}

void
lazy_op_set_split_next(LazyOps *ops, BlockNumber block)
{
	EMIT(ops, LAZY_OP_SET_SPLIT_NEXT, block);
}

void
lazy_op_set_stamp(LazyOps *ops, uint32 stamp)
{
	EMIT(ops, LAZY_OP_SET_STAMP, stamp);
}

void
lazy_op_set_flags(LazyOps *ops, uint16 set, uint16 clear)
{
	EMIT(ops, LAZY_OP_SET_FLAGS, set, clear);
}

void
lazy_op_bump_version(LazyOps *ops)
{
	EMIT(ops, LAZY_OP_BUMP_VERSION, 0);
}

void
lazy_op_free(LazyOps *ops)
{
	EMIT(ops, LAZY_OP_FREE, 0);
}

void
lazy_op_meta_init(LazyOps *ops, uint32 ffactor, uint32 maxbucket, int64 ntuples)
{
	EMIT(ops, LAZY_OP_META_INIT, ffactor, maxbucket, (uint64) ntuples);
}

void
lazy_op_meta_add(LazyOps *ops, int64 delta)
{
	EMIT(ops, LAZY_OP_META_ADD, (uint64) delta);
}

void
lazy_op_meta_maxbucket(LazyOps *ops, uint32 maxbucket)
{
	EMIT(ops, LAZY_OP_META_MAXBUCKET, maxbucket);
}

void
lazy_op_meta_phase(LazyOps *ops, BlockNumber start)
{
	EMIT(ops, LAZY_OP_META_PHASE, start);
}

/* ---- reading ---- */

typedef struct DecodedOp
{
	LazyOpcode	opcode;
	uint64		arg[MAX_ARGS];	/* signed ones are not sign-extended */
	int			n;				/* number of items */
	const char *items;			/* unaligned, inside the program */
} DecodedOp;

/*
 * Decodes the operation at *p and moves *p past it.  False if the bytes up to
 * end are none.
 */
static bool
decode(const char **p, const char *end, DecodedOp *op)
{
	const OpShape *shape;
	const char *from = *p;
	uint8		opcode;

	if (from >= end)
		return false;
	opcode = (uint8) *from++;
	if (opcode > LAZY_OP_LAST || shapes[opcode].name == NULL)
		return false;
	op->opcode = (LazyOpcode) opcode;
	shape = &shapes[opcode];
	op->n = shape->item_size > 0 ? 1 : 0;
	for (int i = 0; i < MAX_ARGS && shape->arg[i].type != ARG_NONE; i++)
	{
		int			width = arg_width[shape->arg[i].type];
		uint16		arg16;
		uint32		arg32;

		if (end - from < width)
			return false;
		if (width == sizeof(uint16))
		{
			memcpy(&arg16, from, sizeof(uint16));
			op->arg[i] = arg16;
		}
		else if (width == sizeof(uint32))
		{
			memcpy(&arg32, from, sizeof(uint32));
			op->arg[i] = arg32;
		}
		else
			memcpy(&op->arg[i], from, sizeof(uint64));
		from += width;
		if (shape->arg[i].type == ARG_COUNT)
			op->n = (int) op->arg[i];
	}
	if (shape->item_size > 0)
	{
		if (op->n == 0 || end - from < (ptrdiff_t) op->n * shape->item_size)
			return false;
		op->items = from;
		from += op->n * shape->item_size;
	}
	*p = from;
	return true;
}

/* ---- applying ---- */

/*
 * Entries in a program lie at any address, so they are handed on by way of an
 * aligned buffer, some at a time.
 */
#define ENTRIES_AT_A_TIME	32

/* Why n entries cannot be added to the page, or NULL. */
static inline const char *
append_problem(Page page, int n)
{
	if (!(lazy_special(page)->flags & (LAZY_KIND_PRIMARY | LAZY_KIND_OVERFLOW)))
		return "entries for a page that belongs to no bucket";
	if (n > lazy_page_room(page))
		return "more entries than the page has room for";
	return NULL;
}

static const char *
apply_append_one(Page page, const char *item)
{
	const char *problem = append_problem(page, 1);
	LazyEntry	entry;

	if (unlikely(problem != NULL))
		return problem;
	memcpy(&entry, item, sizeof(LazyEntry));
	lazy_page_append(page, &entry, 1);
	return NULL;
}

static const char *
apply_append(Page page, const DecodedOp *op)
{
	bool		sorted = (op->opcode == LAZY_OP_APPEND_SORTED);
	const char *problem = append_problem(page, op->n);
	LazyEntry	entries[ENTRIES_AT_A_TIME];
	LazyEntry	last;
	bool		has_last = false;

	if (problem != NULL)
		return problem;
	if (sorted)
	{
		int			count = lazy_page_count(page);

		if (lazy_special(page)->nsorted != count)
			return "sorted entries for a page that is not sorted";
		if ((has_last = (count > 0)))
			last = lazy_entries(page)[count - 1];
	}
	for (int done = 0; done < op->n; done += ENTRIES_AT_A_TIME)
	{
		int			n = Min(op->n - done, ENTRIES_AT_A_TIME);

		memcpy(entries, op->items + done * sizeof(LazyEntry), n * sizeof(LazyEntry));
		if (!sorted)
		{
			lazy_page_append(page, entries, n);
			continue;
		}
		for (int i = 0; i < n; i++)
		{
			if (has_last && lazy_entry_compare(&last, &entries[i]) > 0)
				return "entries that are not in order";
			last = entries[i];
			has_last = true;
		}
		lazy_page_append_sorted(page, entries, n);
	}
	return NULL;
}

static const char *
apply_remove(Page page, const DecodedOp *op)
{
	uint16		positions[LAZY_PAGE_CAPACITY];
	int			count = lazy_page_count(page);

	if (op->n > count)
		return "more positions than the page has entries";
	memcpy(positions, op->items, op->n * sizeof(uint16));
	for (int i = 0; i < op->n; i++)
	{
		if (positions[i] >= count)
			return "position past the page's last entry";
		if (i > 0 && positions[i] <= positions[i - 1])
			return "positions that do not ascend";
	}
	lazy_page_remove(page, positions, op->n);
	return NULL;
}

static const char *
apply_init(Page page, const DecodedOp *op)
{
	uint16		flags = (uint16) op->arg[0];
	const char *problem = lazy_flags_problem(flags);

	if (problem != NULL)
		return problem;
	if (flags & LAZY_KIND_META)
		return "metapage made as if it were a bucket page";
	lazy_page_init(page, flags, (uint32) op->arg[1], (BlockNumber) op->arg[2],
				   (uint32) op->arg[3], (uint32) op->arg[4], (uint32) op->arg[5]);
	return NULL;
}

/* A page's kind changes by initialization and by freeing only. */
static const char *
apply_flags(Page page, const DecodedOp *op)
{
	LazyPageSpecial special = lazy_special(page);
	uint16		set = (uint16) op->arg[0];
	uint16		clear = (uint16) op->arg[1];
	uint16		flags = (special->flags & ~clear) | set;
	const char *problem = lazy_flags_problem(flags);

	if ((set | clear) & LAZY_KIND_MASK)
		return "change of a page's kind";
	if (problem == NULL)
		special->flags = flags;
	return problem;
}

/*
 * The sum, or the limit that it would go beyond.  Only a corrupted count comes
 * near its limit, and a wrong count is no reason to bring the server down.
 */
static int64
add_within(int64 value, int64 delta, int64 limit)
{
	int64		sum;

	if (pg_add_s64_overflow(value, delta, &sum))
		sum = delta > 0 ? limit : -limit;
	return Max(-limit, Min(sum, limit));
}

static const char *
apply_bucket_op(Page page, const DecodedOp *op)
{
	LazyPageSpecial special = lazy_special(page);

	switch (op->opcode)
	{
		case LAZY_OP_INIT:
			return apply_init(page, op);
		case LAZY_OP_APPEND_ONE:
			return apply_append_one(page, op->items);
		case LAZY_OP_APPEND:
		case LAZY_OP_APPEND_SORTED:
			return apply_append(page, op);
		case LAZY_OP_MERGE:
			lazy_page_merge(page);
			return NULL;
		case LAZY_OP_SORT_RUNS:
			lazy_page_sort_runs(page);
			return NULL;
		case LAZY_OP_REMOVE:
			return apply_remove(page, op);
		case LAZY_OP_REMOVE_MATCHING:
			lazy_page_remove_matching(page, (uint32) op->arg[0], (uint32) op->arg[1]);
			return NULL;
		case LAZY_OP_POST:
			special->posted = (int32) add_within(special->posted, (int32) op->arg[0],
												 LAZY_POSTED_LIMIT);
			return NULL;
		case LAZY_OP_SET_NEXT:
			special->next = (BlockNumber) op->arg[0];
			return NULL;
		case LAZY_OP_SET_TAIL:
			special->tail = (BlockNumber) op->arg[0];
			return NULL;
		case LAZY_OP_SET_SPLIT_NEXT:
			special->split_next = (BlockNumber) op->arg[0];
			return NULL;
		case LAZY_OP_SET_STAMP:
			special->stamp = (uint32) op->arg[0];
			return NULL;
		case LAZY_OP_SET_FLAGS:
			return apply_flags(page, op);
		case LAZY_OP_BUMP_VERSION:
			special->version++;
			return NULL;
		case LAZY_OP_FREE:
			lazy_page_free(page);
			return NULL;
		default:
			return "operation that is not one of a bucket page";
	}
}

static const char *
apply_meta_init(Page page, const DecodedOp *op)
{
	uint32		ffactor = (uint32) op->arg[0];
	uint32		maxbucket = (uint32) op->arg[1];
	int64		ntuples = (int64) op->arg[2];

	if (ntuples > LAZY_NTUPLES_LIMIT || ntuples < -LAZY_NTUPLES_LIMIT)
		return "number of entries out of range";
	if (ffactor < 1 || ffactor > LAZY_PAGE_CAPACITY)
		return "invalid fill factor";
	if (maxbucket >= LAZY_MAX_BUCKETS)
		return "too many buckets";
	lazy_meta_init(page, ffactor, maxbucket, ntuples);
	return NULL;
}

static const char *
apply_meta_maxbucket(Page page, uint32 maxbucket)
{
	LazyMetaData *meta = lazy_meta(page);

	if (maxbucket < meta->maxbucket)
		return "fewer buckets than there are";
	if (maxbucket >= LAZY_MAX_BUCKETS)
		return "too many buckets";
	if (lazy_bucket_block(maxbucket, meta->phase_start, meta->nphases) == InvalidBlockNumber)
		return "bucket in a phase that does not exist";
	lazy_meta_set_maxbucket(page, maxbucket);
	return NULL;
}

static const char *
apply_meta_phase(Page page, BlockNumber start)
{
	uint32		phase = lazy_meta(page)->nphases;

	if (phase >= LAZY_MAX_PHASES)
		return "too many phases";
	if (start == LAZY_METAPAGE || start > MaxBlockNumber ||
		MaxBlockNumber - start < lazy_phase_length(phase) - 1)
		return "phase at blocks that cannot exist";
	lazy_meta_add_phase(page, start);
	return NULL;
}

static const char *
apply_meta_op(Page page, const DecodedOp *op)
{
	LazyMetaData *meta = lazy_meta(page);

	switch (op->opcode)
	{
		case LAZY_OP_META_INIT:
			return apply_meta_init(page, op);
		case LAZY_OP_META_ADD:
			meta->ntuples = add_within(meta->ntuples, (int64) op->arg[0], LAZY_NTUPLES_LIMIT);
			return NULL;
		case LAZY_OP_META_MAXBUCKET:
			return apply_meta_maxbucket(page, (uint32) op->arg[0]);
		case LAZY_OP_META_PHASE:
			return apply_meta_phase(page, (BlockNumber) op->arg[0]);
		default:
			return "operation that is not one of the metapage";
	}
}

static inline bool
is_meta_op(LazyOpcode opcode)
{
	return opcode >= LAZY_OP_META_INIT;
}

/*
 * The first operation is checked against the page as it is found, unless it
 * makes the page anew.  Each operation leaves a page of its own kind in good
 * order, so the ones after need only be for that kind.
 */
static const char *
apply_program(Page page, const char *data, Size len)
{
	const char *p = data;
	const char *end = data + len;
	bool		known = false;
	bool		is_meta = false;

	while (p < end)
	{
		DecodedOp	op;
		const char *problem;

		if (!decode(&p, end, &op))
			return "malformed program of page operations";
		if (op.opcode == LAZY_OP_INIT || op.opcode == LAZY_OP_META_INIT)
			is_meta = is_meta_op(op.opcode);
		else if (!known)
		{
			bool		newer;

			is_meta = is_meta_op(op.opcode);
			problem = is_meta ? lazy_meta_header_problem(page, &newer) : lazy_page_problem(page);
			if (problem != NULL)
				return problem;
		}
		known = true;
		problem = is_meta ? apply_meta_op(page, &op) : apply_bucket_op(page, &op);
		if (problem != NULL)
			return problem;
	}
	return NULL;
}

/* The program that most are, one append, needs no decoding. */
const char *
lazy_ops_apply(Page page, const char *data, Size len)
{
	const char *problem;

	if (len != APPEND_ONE_SIZE || (uint8) data[0] != LAZY_OP_APPEND_ONE)
		return apply_program(page, data, len);
	problem = lazy_page_problem(page);
	if (likely(problem == NULL))
		problem = apply_append_one(page, data + 1);
	return problem;
}

/* ---- describing ---- */

static void
describe_arg(StringInfo buf, ArgType type, const char *label, uint64 arg)
{
	appendStringInfoChar(buf, ' ');
	if (label != NULL)
		appendStringInfo(buf, "%s=", label);
	switch (type)
	{
		case ARG_FLAGS:
			appendStringInfo(buf, "0x%04X", (unsigned int) arg);
			break;
		case ARG_MASK:
			appendStringInfo(buf, "0x%08X", (unsigned int) arg);
			break;
		case ARG_BLOCK:
			if ((BlockNumber) arg == InvalidBlockNumber)
				appendStringInfoString(buf, "none");
			else
				appendStringInfo(buf, "%u", (unsigned int) arg);
			break;
		case ARG_DELTA:
			appendStringInfo(buf, "%+d", (int) (int32) arg);
			break;
		case ARG_LONG:
			appendStringInfo(buf, "%lld", (long long) (int64) arg);
			break;
		case ARG_LONG_DELTA:
			appendStringInfo(buf, "%+lld", (long long) (int64) arg);
			break;
		case ARG_NUMBER:
		case ARG_COUNT:
		case ARG_NONE:
			appendStringInfo(buf, "%u", (unsigned int) arg);
			break;
	}
}

void
lazy_ops_describe(StringInfo buf, const char *data, Size len)
{
	const char *p = data;
	const char *end = data + len;

	while (p < end)
	{
		DecodedOp	op;
		const OpShape *shape;

		if (p > data)
			appendStringInfoString(buf, "; ");
		if (!decode(&p, end, &op))
		{
			appendStringInfo(buf, "malformed at byte %d", (int) (p - data));
			return;
		}
		shape = &shapes[op.opcode];
		appendStringInfoString(buf, shape->name);
		for (int i = 0; i < MAX_ARGS && shape->arg[i].type != ARG_NONE; i++)
			describe_arg(buf, shape->arg[i].type, shape->arg[i].label, op.arg[i]);
	}
}

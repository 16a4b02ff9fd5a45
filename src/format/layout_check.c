/*
 * layout_check.c
 *		Asserts, at compile time, what the on-disk format promises.
 *
 * What depends on the block size is asserted for every size that PostgreSQL
 * can be built with, whichever this build has: the formulas of the headers are
 * written once more here with the size as a parameter, and compared with the
 * headers at the size of this build.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "storage/itemid.h"
#include "storage/off.h"

#include "meta.h"
#include "op.h"
#include "page.h"

#define ASSERT_OFFSET(type, field, offset) \
	StaticAssertDecl(offsetof(type, field) == (offset), #type "." #field " has moved")
#define ASSERT_SIZE(type, size) \
	StaticAssertDecl(sizeof(type) == (size), #type " has changed its size")

/* ---- entry ---- */

typedef struct EntryAligned
{
	char		byte;
	LazyEntry	entry;
} EntryAligned;

ASSERT_SIZE(LazyEntry, 10);
ASSERT_OFFSET(EntryAligned, entry, 2);
ASSERT_OFFSET(LazyEntry, hash_half, 0);
ASSERT_OFFSET(LazyEntry, tid, 4);
StaticAssertDecl(LAZY_PAGE_START == 24, "entries do not start after the page header");
StaticAssertDecl(LAZY_PAGE_START % 2 == 0, "entries are not aligned");

/* ---- special area of a bucket page ---- */

ASSERT_SIZE(LazyPageSpecialData, 40);
ASSERT_OFFSET(LazyPageSpecialData, bucket, 0);
ASSERT_OFFSET(LazyPageSpecialData, next, 4);
ASSERT_OFFSET(LazyPageSpecialData, tail, 8);
ASSERT_OFFSET(LazyPageSpecialData, stamp, 12);
ASSERT_OFFSET(LazyPageSpecialData, version, 16);
ASSERT_OFFSET(LazyPageSpecialData, deletions, 20);
ASSERT_OFFSET(LazyPageSpecialData, posted, 24);
ASSERT_OFFSET(LazyPageSpecialData, split_next, 28);
ASSERT_OFFSET(LazyPageSpecialData, nsorted, 32);
ASSERT_OFFSET(LazyPageSpecialData, nruns, 34);
ASSERT_OFFSET(LazyPageSpecialData, flags, 36);
ASSERT_OFFSET(LazyPageSpecialData, page_id, 38);
StaticAssertDecl(MAXALIGN(sizeof(LazyPageSpecialData)) == sizeof(LazyPageSpecialData),
				 "page id would not be the last two bytes of the page");

/* ---- metapage ---- */

ASSERT_SIZE(LazyMetaSpecialData, 8);
ASSERT_OFFSET(LazyMetaSpecialData, unused, 0);
ASSERT_OFFSET(LazyMetaSpecialData, flags, 4);
ASSERT_OFFSET(LazyMetaSpecialData, page_id, 6);
StaticAssertDecl(MAXALIGN(sizeof(LazyMetaSpecialData)) == sizeof(LazyMetaSpecialData),
				 "page id would not be the last two bytes of the metapage");
StaticAssertDecl(sizeof(LazyPageSpecialData) - offsetof(LazyPageSpecialData, flags) ==
				 sizeof(LazyMetaSpecialData) - offsetof(LazyMetaSpecialData, flags),
				 "flags are not at the same place of every page");

ASSERT_OFFSET(LazyMetaData, magic, 0);
ASSERT_OFFSET(LazyMetaData, version, 4);
ASSERT_OFFSET(LazyMetaData, features, 8);
ASSERT_OFFSET(LazyMetaData, ffactor, 12);
ASSERT_OFFSET(LazyMetaData, ntuples, 16);
ASSERT_OFFSET(LazyMetaData, maxbucket, 24);
ASSERT_OFFSET(LazyMetaData, highmask, 28);
ASSERT_OFFSET(LazyMetaData, lowmask, 32);
ASSERT_OFFSET(LazyMetaData, nphases, 36);
ASSERT_OFFSET(LazyMetaData, phase_start, 40);

/* ---- flags and opcodes: part of the format ---- */

StaticAssertDecl((LAZY_KIND_META | LAZY_KIND_PRIMARY | LAZY_KIND_OVERFLOW |
				  LAZY_KIND_FREE | LAZY_KIND_RESERVED) == LAZY_KIND_MASK,
				 "a kind outside the mask");
StaticAssertDecl((LAZY_KIND_MASK & (LAZY_BEING_SPLIT | LAZY_BEING_POPULATED | LAZY_HAS_DEAD)) == 0,
				 "a state inside the mask of kinds");
StaticAssertDecl(LAZY_OP_INIT == 1 && LAZY_OP_FREE == 16 && LAZY_OP_META_PHASE == 20,
				 "opcodes have changed");

/* ---- what depends on the block size ---- */

#define ROOM(size)			((size) - 24 - 40)
#define CAPACITY(size)		(ROOM(size) / 10)
#define PHASE_BITS(size)	((size) >= 8192 ? 6 : (size) >= 4096 ? 5 : (size) >= 2048 ? 4 : 3)
#define MAX_PHASES(size)	((1 << PHASE_BITS(size)) * (32 - PHASE_BITS(size)))
#define META_SIZE(size)		(40 + 4 * MAX_PHASES(size))

/* Phase of a bucket that is the last of a doubling. */
#define LAST_PHASE(size, doubling) \
	((((doubling) - PHASE_BITS(size) + 2) << PHASE_BITS(size)) - 1)

/*
 * In this order: an entry is left no room for between capacity and special
 * area; positions fit the int16 of TM_IndexDelete; no heap offset has the dead
 * bit, nor do two of them meet in it; the metapage holds its data; the last of
 * 2^31 buckets has a phase, and no phase is left over.
 */
#define ASSERT_BLOCK_SIZE(size) \
	StaticAssertDecl(ROOM(size) - 10 * CAPACITY(size) < 10, "wasted room"); \
	StaticAssertDecl(CAPACITY(size) > 0 && CAPACITY(size) <= PG_INT16_MAX, "capacity"); \
	StaticAssertDecl((size) / sizeof(ItemIdData) < LAZY_DEAD_BIT, "dead bit"); \
	StaticAssertDecl(META_SIZE(size) <= (size) - 24 - 8, "metapage overflows"); \
	StaticAssertDecl(LAST_PHASE(size, 30) == MAX_PHASES(size) - 1, "too few phases")

ASSERT_BLOCK_SIZE(1024);
ASSERT_BLOCK_SIZE(2048);
ASSERT_BLOCK_SIZE(4096);
ASSERT_BLOCK_SIZE(8192);
ASSERT_BLOCK_SIZE(16384);
ASSERT_BLOCK_SIZE(32768);

StaticAssertDecl(BLCKSZ >= 1024 && BLCKSZ <= 32768, "block size not among those asserted");
StaticAssertDecl(LAZY_SPECIAL_OFFSET == BLCKSZ - 40, "special area is not at the page's end");
StaticAssertDecl(LAZY_PAGE_CAPACITY == CAPACITY(BLCKSZ), "capacity differs from the formula");
StaticAssertDecl(LAZY_PHASE_BITS == PHASE_BITS(BLCKSZ), "phases a doubling differ");
StaticAssertDecl(LAZY_MAX_PHASES == MAX_PHASES(BLCKSZ), "number of phases differs");
ASSERT_SIZE(LazyMetaData, META_SIZE(BLCKSZ));
StaticAssertDecl(LAZY_MAX_BUCKETS == (uint64) 1 << 31, "number of buckets differs");

/*
 * writer.h
 *		Writes the pages of a new relation fork, past the buffer cache, with
 *		bulk WAL.
 *
 * Each block is written once, in ascending order; blocks left out read as
 * zeroes.  Nobody else may look at the fork meanwhile.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_BUILD_WRITER_H
#define LAZY_BUILD_WRITER_H

#include "postgres.h"

#include "common/relpath.h"
#include "storage/bufpage.h"
#include "utils/rel.h"

/* What a writer takes, nearly all of it pages that wait to be written. */
#define LAZY_WRITER_MEMORY	(33 * BLCKSZ)

typedef struct LazyWriter LazyWriter;

/* Begins writing an empty fork. */
extern LazyWriter *lazy_writer_start(Relation index, ForkNumber fork);

/* A page to be filled in; its contents are undefined.  One at a time. */
extern Page lazy_writer_page(LazyWriter *writer);

/* Takes back the page, to be written as this block. */
extern void lazy_writer_put(LazyWriter *writer, BlockNumber block, Page page);

/* Writes what is left and sees to it that the fork survives a crash. */
extern void lazy_writer_finish(LazyWriter *writer);

#endif							/* LAZY_BUILD_WRITER_H */

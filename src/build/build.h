/*
 * build.h
 *		What the parts of an index build have in common.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_BUILD_BUILD_H
#define LAZY_BUILD_BUILD_H

#include "postgres.h"

#include "utils/rel.h"

/* How many rows the table may have. */
extern double lazy_build_estimate(Relation heap);

/* maintenance_work_mem in bytes. */
extern Size lazy_build_memory(void);

#endif							/* LAZY_BUILD_BUILD_H */

/*
 * conflict.h
 *		A snapshot conflict horizon that travels ahead of a generic record.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_WAL_CONFLICT_H
#define LAZY_WAL_CONFLICT_H

#include "postgres.h"

#include "utils/rel.h"

/*
 * Logs that queries on a standby whose snapshots are at or before the horizon
 * must be cancelled.  Generic records cannot say so, hence a record that every
 * stock server replays as just that, and nothing else: nbtree's "page is about
 * to be re-used", which names our relation but touches no block.
 */
extern void lazy_log_conflict(Relation index, TransactionId horizon);

#endif							/* LAZY_WAL_CONFLICT_H */

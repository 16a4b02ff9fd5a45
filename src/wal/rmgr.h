/*
 * rmgr.h
 *		lazyhash's own WAL resource manager.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#ifndef LAZY_WAL_RMGR_H
#define LAZY_WAL_RMGR_H

#include "postgres.h"

/*
 * Number of the resource manager, part of every record.  All servers that
 * replay each other's WAL must agree on it.  128 is for experiments and 129 to
 * 141 and 241 were claimed by others when this was written; should it clash with another library
 * of yours, build with "make LAZYHASH_RMGR_ID=n", n from 128 to 255.
 */
#ifndef LAZYHASH_RMGR_ID
#define LAZYHASH_RMGR_ID	177
#endif

/* Main data of a record, present when the change may conflict with queries. */
typedef struct LazyRecordConflict
{
	TransactionId horizon;
} LazyRecordConflict;

extern bool lazy_rmgr_registered;

/* Registers it if shared_preload_libraries are being loaded, else does nothing. */
extern void lazy_rmgr_register(void);

#endif							/* LAZY_WAL_RMGR_H */

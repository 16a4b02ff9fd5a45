/*
 * options.c
 *		Storage parameters: fillfactor and batch.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "access/reloptions.h"

#include "lazyhash.h"

static relopt_kind lazy_relopt_kind;

/*
 * Defines the parameters.  ALTER INDEX ... SET needs no stronger lock than
 * VACUUM does: fillfactor is looked at by builds only, and a backend that still
 * posts by an old batch does no harm.
 */
void
lazy_options_init(void)
{
	lazy_relopt_kind = add_reloption_kind();
	add_int_reloption(lazy_relopt_kind, "fillfactor",
					  "Percent of a page that a bucket should hold, from the next REINDEX on",
					  LAZY_DEFAULT_FILLFACTOR, LAZY_MIN_FILLFACTOR, 100,
					  ShareUpdateExclusiveLock);
	add_int_reloption(lazy_relopt_kind, "batch",
					  "Number of inserts on a page before the metapage is told of them",
					  LAZY_DEFAULT_BATCH, 1, LAZY_MAX_BATCH,
					  ShareUpdateExclusiveLock);
}

bytea *
lazy_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt table[] = {
		{"fillfactor", RELOPT_TYPE_INT, offsetof(LazyOptions, fillfactor)},
		{"batch", RELOPT_TYPE_INT, offsetof(LazyOptions, batch)},
	};

	return (bytea *) build_reloptions(reloptions, validate, lazy_relopt_kind,
									  sizeof(LazyOptions), table, lengthof(table));
}

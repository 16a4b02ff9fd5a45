/*
 * testpoint.c
 *		See testpoint.h.  Nothing, unless built with -DLAZY_TEST_POINTS.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "testpoint.h"

#ifdef LAZY_TEST_POINTS

#include "miscadmin.h"
#include "utils/guc.h"

#define WAIT_MICROSECONDS	20000

static char *fail_at = NULL;
static char *wait_at = NULL;
static int	times_passed = 0;

static void
forget_count(const char *newval, void *extra)
{
	times_passed = 0;
}

void
lazy_test_points_init(void)
{
	DefineCustomStringVariable("lazyhash.fail_at",
							   "Point at which to raise an error, for tests.",
							   "Name, or name:n for the n-th time.",
							   &fail_at, "", PGC_SUSET, 0,
							   NULL, forget_count, NULL);
	DefineCustomStringVariable("lazyhash.wait_at",
							   "Point at which to wait a while each time, for tests.",
							   NULL,
							   &wait_at, "", PGC_SUSET, 0,
							   NULL, NULL, NULL);
}

static void
fail_here(const char *name)
{
	Size		len = strlen(name);
	int			nth = 1;

	if (fail_at == NULL || strncmp(fail_at, name, len) != 0 ||
		(fail_at[len] != '\0' && fail_at[len] != ':'))
		return;
	if (fail_at[len] == ':')
		nth = atoi(fail_at + len + 1);
	if (++times_passed == nth)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("test failure at \"%s\"", name)));
}

void
lazy_test_point(const char *name)
{
	if (wait_at != NULL && strcmp(wait_at, name) == 0)
	{
		pg_usleep(WAIT_MICROSECONDS);
		/* does nothing while content locks are held */
		CHECK_FOR_INTERRUPTS();
	}
	fail_here(name);
}

#endif

/*
 * server.c
 *		The few functions of the server that src/format calls, for a program
 *		that is not a server.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "postgres.h"

#include "storage/bufpage.h"

/* Empties a page and lays out its header, as the server's function promises. */
void
PageInit(Page page, Size pageSize, Size specialSize)
{
	PageHeader	header = (PageHeader) page;

	memset(page, 0, pageSize);
	header->pd_lower = SizeOfPageHeaderData;
	header->pd_upper = (LocationIndex) (pageSize - MAXALIGN(specialSize));
	header->pd_special = header->pd_upper;
	PageSetPageSizeAndVersion(page, pageSize, PG_PAGE_LAYOUT_VERSION);
}

#if PG_VERSION_NUM >= 160000
void
ExceptionalCondition(const char *conditionName, const char *fileName, int lineNumber)
#else
void
ExceptionalCondition(const char *conditionName, const char *errorType, const char *fileName,
					 int lineNumber)
#endif
{
	printf("Bail out! %s:%d: assertion failed: %s\n", fileName, lineNumber, conditionName);
	fflush(stdout);
	abort();
}

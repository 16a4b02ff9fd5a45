/*
 * blcksz.h
 *		Included before all else: gives BLCKSZ the value that is to be tested.
 *
 * c.h is what takes in the server's own value; once it has been read it is not
 * read again.  Nothing of c.h that depends on the block size is used here.
 *
 * Copyright (c) 2026, The lazyhash developers
 */
#include "c.h"

#undef BLCKSZ
#define BLCKSZ UNIT_BLCKSZ

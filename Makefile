# lazyhash: a hash index access method for PostgreSQL.
#
#	make && make install		builds against the server that PG_CONFIG names
#	make unit			tests the page format alone, without a server
#	scripts/test.sh			all tests
#
# LAZYHASH_RMGR_ID=n	another number (128..255) for the WAL resource manager, should the
#			default clash with another library of yours.  All servers that
#			replay each other's WAL must have been built with the same one.
# TEST_POINTS=1		has the library fail where tests tell it to; not for production.

EXTENSION = lazyhash
MODULE_big = lazyhash
DATA = $(wildcard sql/lazyhash--*.sql)
OBJS = $(patsubst %.c,%.o,$(wildcard src/*/*.c))

REGRESS = $(sort $(patsubst sql/%.sql,%,$(filter-out sql/lazyhash--%,$(wildcard sql/*.sql))))
REGRESS_OPTS = --load-extension=lazyhash
ISOLATION = $(sort $(patsubst specs/%.spec,%,$(wildcard specs/*.spec)))
ISOLATION_OPTS = --load-extension=lazyhash
TAP_TESTS = 1

# PGXS looks at this as it is read
EXTRA_CLEAN = $(wildcard src/*/*.d)

ifdef LAZYHASH_RMGR_ID
PG_CPPFLAGS += -DLAZYHASH_RMGR_ID=$(LAZYHASH_RMGR_ID)
endif
ifdef TEST_POINTS
PG_CPPFLAGS += -DLAZY_TEST_POINTS
endif

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# Each source file knows its headers by gcc's own lists.
CFLAGS += -MMD
-include $(OBJS:.o=.d)
include test/unit/unit.mk

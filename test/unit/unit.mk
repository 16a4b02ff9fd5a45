# unit.mk
#	"make unit": the tests of src/format, which need no server.  The format is
#	compiled and tested once for each block size that PostgreSQL can be built
#	with, with assertions, and under the compiler's address and undefined
#	behaviour checks (UNIT_SANITIZE= turns these off, for valgrind).
#
#	Output is TAP.  UNIT_SEED=n repeats a run; each run tells its seed.

PG_CONFIG ?= pg_config

UNIT_SIZES = 1024 2048 4096 8192 16384 32768
UNIT_OUT = test/unit/out
UNIT_SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=all
UNIT_SOURCES = $(wildcard test/unit/*.c) $(wildcard src/format/*.c)
UNIT_HEADERS = $(wildcard test/unit/*.h) $(wildcard src/format/*.h)
UNIT_PROGRAMS = $(UNIT_SIZES:%=$(UNIT_OUT)/unit-%)

UNIT_CFLAGS = -std=gnu99 -g -O1 -fwrapv -fno-strict-aliasing -Wall -Wmissing-prototypes \
	-Wpointer-arith -Werror=vla -DUSE_ASSERT_CHECKING=1 -D_GNU_SOURCE $(UNIT_SANITIZE)
UNIT_INCLUDES = -include test/unit/blcksz.h -I$(shell $(PG_CONFIG) --includedir-server)
UNIT_LIBS = -L$(shell $(PG_CONFIG) --pkglibdir) -L$(shell $(PG_CONFIG) --libdir) \
	-lpgcommon -lpgport -lm

.PHONY: unit unit-clean clean

unit: $(UNIT_PROGRAMS)
	@status=0; \
	for program in $(UNIT_PROGRAMS); do $$program $(UNIT_SEED) || status=1; done; \
	exit $$status

$(UNIT_OUT)/unit-%: $(UNIT_SOURCES) $(UNIT_HEADERS)
	@mkdir -p $(UNIT_OUT)
	$(CC) $(UNIT_CFLAGS) -DUNIT_BLCKSZ=$* $(UNIT_INCLUDES) -o $@ $(UNIT_SOURCES) $(UNIT_LIBS)

clean: unit-clean

unit-clean:
	rm -rf $(UNIT_OUT)

#!/usr/bin/env bash
#
# Tests that pg_upgrade carries lazyhash indexes from one version of PostgreSQL to a later one.
#
#     scripts/test-upgrade.sh OLD NEW
#
#     OLD, NEW    a major version that is installed in Debian's place, or a path of pg_config
#
# In a cluster of the old version it makes indexes of several types and shapes, fills them, deletes
# and inserts again, and upgrades the cluster.  In the new one each index must pass lazyhash_check,
# give the same answers, and take more rows; lazyhash_refresh_opclasses() must bring the types that
# are new.  Once for each WAL mode.
#
# The last line is "N passed, N failed"; the exit status is 0 only if none failed.

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

passed=0
failed=0

# pg_config_of VERSION-OR-PATH: prints the path of that pg_config.
pg_config_of()
{
	case $1 in
		*/*) echo "$1" ;;
		*) echo "/usr/lib/postgresql/$1/bin/pg_config" ;;
	esac
}

# same NAME EXPECTED GOT: one test.
same()
{
	if [ "$2" = "$3" ]; then
		printf 'ok       %s\n' "$1"
		passed=$((passed + 1))
	else
		printf 'FAILED   %s\n--- expected\n%s\n--- got\n%s\n---\n' "$1" "$2" "$3"
		failed=$((failed + 1))
	fi
}

# query SQL [VERBOSITY]: the unaligned result; errors are part of it, for "same" to show.
query()
{
	psql -XAtq -v ON_ERROR_STOP=1 -v VERBOSITY="${2:-default}" <<<"$1" 2>&1
}

# install_both: a private copy of either server, with lazyhash in it, each built with -Werror.
# Sets old_bindir and new_bindir.
install_both()
{
	PG_CONFIG=$(pg_config_of "$1")
	need_packages
	make_workdir
	private_server
	build_and_install COPT=-Werror
	old_bindir=$bindir
	echo "tested with $("$PG_CONFIG" --version | sed 's/ (.*//') to $(
		"$(pg_config_of "$2")" --version | sed 's/ (.*//; s/.* //')"

	# nothing of the first build may get into the second
	rm -rf "$source_dir"
	PG_CONFIG=$(pg_config_of "$2")
	private_server
	build_and_install COPT=-Werror
	new_bindir=$bindir
}

# Indexes of several types, of one page and of many, with chains of equal keys; entries of rows that
# are dead, and places of entries that VACUUM has removed.
make_indexes()
{
	psql -Xq -v ON_ERROR_STOP=1 <<-'SQL'
		CREATE EXTENSION lazyhash;
		CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
		CREATE TABLE t (n int, b bigint, s text, u uuid, a int[], m mood, ts timestamptz,
			d numeric, bp char(8));
		CREATE TABLE few (k int, EXCLUDE USING lazyhash (k WITH =));
		CREATE UNLOGGED TABLE unlogged (k int);
		CREATE INDEX ON t USING lazyhash (n) WITH (fillfactor = 90, batch = 1);
		CREATE INDEX ON t USING lazyhash (s);
		CREATE INDEX ON t USING lazyhash (bp);
		CREATE INDEX ON t USING lazyhash (u) WHERE n % 2 = 0;
		CREATE INDEX ON t USING lazyhash (a);
		CREATE INDEX ON t USING lazyhash (m);
		CREATE INDEX ON t USING lazyhash (ts);
		CREATE INDEX ON t USING lazyhash (d);
		CREATE INDEX ON t USING lazyhash ((b % 100));
		CREATE INDEX ON unlogged USING lazyhash (k);
		INSERT INTO t SELECT i, i * 5000000000, 'row ' || i, md5(i::text)::uuid, ARRAY[i % 10, i],
			(enum_range(NULL::mood))[i % 3 + 1], '2000-01-01 UTC'::timestamptz + i * interval '1 h',
			i / 8.0, i FROM generate_series(1, 60000) i;
		CREATE INDEX built ON t USING lazyhash (b);
		INSERT INTO few SELECT generate_series(1, 100);
		INSERT INTO unlogged SELECT generate_series(1, 100);
		DELETE FROM t WHERE n % 7 = 0;
		VACUUM t;
		INSERT INTO t SELECT n + 100000, b + 1, s, u, a, m, ts, d, bp FROM t WHERE n % 5 = 0;
		DELETE FROM t WHERE n % 11 = 0;
	SQL
}

# What each index finds; rows that it misses or finds twice change the sums.
answers()
{
	query "
		SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
		SET enable_material = off; SET enable_memoize = off; SET jit = off;
		SELECT 'n', count(*), sum(x.n) FROM generate_series(1, 170000, 3) i JOIN t x ON x.n = i;
		SELECT 's', count(*), sum(x.n) FROM generate_series(1, 60000, 11) i
			JOIN t x ON x.s = 'row ' || i;
		SELECT 'bp', count(*), sum(x.n) FROM generate_series(1, 60000, 13) i
			JOIN t x ON x.bp = i::text::bpchar;
		SELECT 'u', count(*), sum(x.n) FROM generate_series(1, 60000, 17) i
			JOIN t x ON x.u = md5(i::text)::uuid AND x.n % 2 = 0;
		SELECT 'a', count(*), sum(x.n) FROM generate_series(1, 60000, 19) i
			JOIN t x ON x.a = ARRAY[i % 10, i];
		SELECT 'm', count(*), sum(n) FROM t WHERE m = 'ok';
		SELECT 'ts', count(*), sum(n) FROM t WHERE ts = '2000-01-02 UTC';
		SELECT 'd', count(*), sum(x.n) FROM generate_series(1, 60000, 23) i
			JOIN t x ON x.d = i / 8.0;
		SELECT 'b % 100', count(*), sum(n) FROM t WHERE b % 100 = 1;
		SELECT 'b', count(*), sum(x.n) FROM generate_series(1, 60000, 29) i
			JOIN t x ON x.b = i * 5000000000;
		SELECT 'few', count(*) FROM generate_series(1, 200) i JOIN few ON k = i;
		SELECT 'unlogged', count(*) FROM generate_series(1, 200) i JOIN unlogged ON k = i;"
}

# The same, without an index.
plain_answers()
{
	PGOPTIONS='-c enable_indexscan=off -c enable_bitmapscan=off' query "
		SELECT 'n', count(*), sum(n) FROM t WHERE n % 3 = 1 AND n <= 170000;
		SELECT 's', count(*), sum(n) FROM t WHERE substr(s, 5)::int % 11 = 1;
		SELECT 'bp', count(*), sum(n) FROM t WHERE bp::int % 13 = 1;
		SELECT 'u', count(*), sum(n) FROM t WHERE substr(s, 5)::int % 17 = 1 AND n % 2 = 0;
		SELECT 'a', count(*), sum(n) FROM t WHERE a[2] % 19 = 1;
		SELECT 'm', count(*), sum(n) FROM t WHERE m = 'ok';
		SELECT 'ts', count(*), sum(n) FROM t WHERE ts = '2000-01-02 UTC';
		SELECT 'd', count(*), sum(n) FROM t WHERE (d * 8)::int % 23 = 1;
		SELECT 'b % 100', count(*), sum(n) FROM t WHERE b % 100 = 1;
		SELECT 'b', count(*), sum(n) FROM t WHERE b % 5000000000 = 0 AND b / 5000000000 % 29 = 1;
		SELECT 'few', count(*) FROM few WHERE k <= 200;
		SELECT 'unlogged', count(*) FROM unlogged WHERE k <= 200;"
}

# check_all NAME: every index passes the check.
check_all()
{
	same "$1" 12 \
		"$(PGOPTIONS='-c client_min_messages=warning' query 'SELECT lazyhash_check_all(true)')"
}

# Makes and fills the cluster $mode-old with the old server, and leaves it stopped.
old_cluster()
{
	bindir=$old_bindir
	start_server "$mode-old" "$@"
	make_indexes
	check_all "$mode: indexes of the old server are in order"
	before=$(answers)
	same "$mode: the old server finds through its indexes what there is" "$(plain_answers)" \
		"$before"
	stop_server "$mode-old"
}

# Makes an empty cluster $mode-new with the new server.
new_cluster()
{
	local options=() data

	data=$(data_dir "$mode-new")
	# both clusters must have checksums, or neither; from 18 on they have them unless told otherwise
	if [ "$("$new_bindir/pg_config" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')" -ge 18 ] &&
		LC_ALL=C run_as "$old_bindir/pg_controldata" "$(data_dir "$mode-old")" |
		grep -E '^Data page checksum version: +0$' >/dev/null; then
		options+=(--no-data-checksums)
	fi
	run_as "$new_bindir/initdb" -D "$data" -U postgres -A trust --no-sync --encoding=UTF8 \
		--locale=C.UTF-8 --lc-messages=C "${options[@]}" >"$workdir/initdb.log" 2>&1 || {
		cat "$workdir/initdb.log" >&2
		return 1
	}
	printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$workdir/s'" \
		"port = $(free_port)" "fsync = off" "$@" | add_configuration "$data"
}

# Upgrades $mode-old to $mode-new.
upgrade()
{
	local status=0

	mkdir -p "$workdir/$mode"
	[ -z "$test_user" ] || chown "$test_user" "$workdir/$mode"
	run_limited 600 env -C "$workdir/$mode" "$new_bindir/pg_upgrade" \
		--old-bindir="$old_bindir" --new-bindir="$new_bindir" \
		--old-datadir="$(data_dir "$mode-old")" --new-datadir="$(data_dir "$mode-new")" \
		--socketdir="$workdir/s" --username=postgres >"$workdir/upgrade.log" 2>&1 || status=$?
	[ "$status" -eq 0 ] || {
		cat "$workdir/upgrade.log"
		find "$(data_dir "$mode-new")/pg_upgrade_output.d" -name '*.log' \
			-exec tail -n 20 {} + || true
	}
	same "$mode: pg_upgrade" 0 "$status"
	return "$status"
}

# Operator classes that hash has in this database and lazyhash has not, and those of ours that are
# not valid.
classes_that_lack()
{
	query "
		SELECT opcname FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
		WHERE amname = 'hash' AND NOT EXISTS (
			SELECT FROM pg_opclass o JOIN pg_am m ON m.oid = o.opcmethod
			WHERE m.amname = 'lazyhash' AND o.opcname = c.opcname)
		UNION ALL
		SELECT opcname || ' is not valid' FROM pg_opclass JOIN pg_am a ON a.oid = opcmethod
		WHERE amname = 'lazyhash' AND NOT amvalidate(pg_opclass.oid)
		ORDER BY 1"
}

# What pg_upgrade has left must be in order, and stay so in use.
new_server_works()
{
	local missing

	bindir=$new_bindir
	start_server "$mode-new"
	check_all "$mode: indexes are in order after the upgrade"
	same "$mode: each finds what it found before" "$before" "$(answers)"

	missing=$(classes_that_lack)
	printf '         without a class as yet: %s\n' "${missing:-none}"
	# of the server's own classes all come; those of the new server's types are named in what it did
	query 'SELECT lazyhash_refresh_opclasses()' >"$workdir/commands"
	same "$mode: lazyhash_refresh_opclasses() brings what is missing" "" "$(classes_that_lack)"
	same "$mode: and makes no more than that" "$(grep -c . <<<"$missing")" \
		"$(grep -c 'CREATE OPERATOR CLASS' "$workdir/commands")"
	same "$mode: nothing is left for a second call" "" \
		"$(query 'SELECT lazyhash_refresh_opclasses()')"
	if [ "$(query "SELECT to_regtype('oid8') IS NOT NULL")" = t ]; then
		same "$mode: a type that only the new server has" "1" "$(query "
			CREATE TABLE o AS SELECT i::text::oid8 AS k FROM generate_series(1, 1000) i;
			CREATE INDEX ON o USING lazyhash (k); SET enable_seqscan = off;
			SELECT count(*) FROM o WHERE k = '77'; DROP TABLE o;")"
	fi

	same "$mode: more changes" "" "$(query "
		INSERT INTO t SELECT n + 200000, b + 2, s, u, a, m, ts, d, bp FROM t WHERE n % 2 = 0;
		INSERT INTO t SELECT n + 200000, b + 2, s, u, a, m, ts, d, bp FROM t WHERE n < 300000;
		DELETE FROM t WHERE n % 13 = 0; VACUUM t;
		INSERT INTO few SELECT generate_series(101, 2000);
		INSERT INTO unlogged SELECT generate_series(101, 2000);")"
	same "$mode: an exclusion constraint still excludes" "23P01" \
		"$(query 'INSERT INTO few VALUES (7)' sqlstate | sed 's/.*ERROR:  //')"
	same "$mode: the answers after more changes" "$(plain_answers)" "$(answers)"
	check_all "$mode: indexes are in order after more changes"
	same "$mode: REINDEX" "" "$(query 'REINDEX TABLE t')"
	check_all "$mode: indexes are in order after REINDEX"
	stop_server "$mode-new"
	same "$mode: no crash" "" "$(grep -E 'TRAP: |PANIC: |terminated by signal' \
		"$workdir/$mode-old.log" "$workdir/$mode-new.log" || true)"
}

# test_mode NAME LINE...: all of it, on servers that are configured with the lines.
test_mode()
{
	mode=$1
	shift
	old_cluster "$@"
	new_cluster "$@"
	! upgrade || new_server_works
	[ -n "${KEEP:-}" ] || rm -rf "$(data_dir "$mode-old")" "$(data_dir "$mode-new")"
}

[ $# -eq 2 ] || { sed -n '3,16{s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2; exit 2; }
install_both "$@"
test_mode generic
test_mode custom "shared_preload_libraries = 'lazyhash'"
echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]

#!/usr/bin/env bash
#
# Runs the project's tests, against a private copy of a PostgreSQL server:
#
#     scripts/test.sh [unit|regress|isolation|tap|shell|FILE]...
#
#     unit        test/unit: the page format alone, without a server (make unit)
#     regress     sql/ and expected/, by pg_regress
#     isolation   specs/ and expected/, by pg_isolation_regress
#     tap         t/*.pl: crashes, replay, standbys, by prove and PostgreSQL's Perl modules
#     shell       test/shell/*.sh: one test each, exit status 77 means skipped
#     FILE        a single test: sql/NAME.sql, specs/NAME.spec, t/NAME.pl or test/shell/NAME.sh
#
# Without arguments, all of it.  regress and isolation run twice: as on a server that does not
# preload the library (generic WAL records), and as on one that does (custom records).  Each time a
# standby replays everything under wal_consistency_checking, which is a test of its own.
#
# Another server:  PG_CONFIG=/path/to/pg_config scripts/test.sh
# What else the environment can set is described at the head of lib.sh.
#
# Missing packages are installed when run as root.  The last line is "N passed, N failed"; the
# exit status is 0 only if none failed and at least one ran.

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

passed=0
failed=0
failures=()

# What to run: the parts, and for each part the single tests when only some are wanted.
parts=
declare -A only=([regress]="" [isolation]="" [tap]="" [shell]="")

parse_arguments()
{
	local argument name

	[ $# -gt 0 ] || set -- unit regress isolation tap shell
	for argument in "$@"; do
		name=$(basename "${argument%.*}")
		case $argument in
			unit | regress | isolation | tap | shell) parts+=" $argument" ;;
			*.sql) parts+=" regress" only[regress]+=" $name" ;;
			*.spec) parts+=" isolation" only[isolation]+=" $name" ;;
			*.pl) parts+=" tap" only[tap]+=" t/$name.pl" ;;
			*.sh) parts+=" shell" only[shell]+=" test/shell/$name.sh" ;;
			*) sed -n '3,23{s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
		esac
	done
}

wanted()
{
	case " $parts " in *" $1 "*) return 0 ;; esac
	return 1
}

heading()
{
	printf '\n== %s\n' "$*"
}

# record NAME PASSED FAILED: adds to the totals.
record()
{
	passed=$((passed + $2))
	failed=$((failed + $3))
	[ "$3" -eq 0 ] || failures+=("$1")
}

# show FILE [LINES]: the end of a log, after a failure.
show()
{
	[ -s "$1" ] || return 0
	printf -- '---- %s, last lines:\n' "${1#"$workdir/"}"
	tail -n "${2:-60}" "$1"
	printf -- '----\n'
}

# record_tap NAME LOG STATUS: counts the numbered test points at the top level of TAP output.
# A program that ended badly without a failed test point, that did not keep to its plan, or that
# tested nothing without saying that it skips, counts as one failure.  Returns non-zero on failure.
record_tap()
{
	local good bad plan skip

	good=$(grep -E '^ok [0-9]' "$2" | grep -cviE '# *skip\b' || true)
	bad=$(grep -E '^not ok [0-9]' "$2" | grep -cviE '# *todo\b' || true)
	# several programs may have written to the log, each with a plan of its own
	plan=$(sed -n 's/^1\.\.\([0-9]\{1,\}\).*/\1/p' "$2" | awk '{ n += $1 } END { if (NR) print n }')
	# so says prove of a program that skips all
	skip=$(sed -n 's/^[^ ]* \.* *\(skipped: .*\)/\1/p' "$2")
	if [ "$bad" -eq 0 ] && { [ "$3" -ne 0 ] || [ -z "$skip" ]; }; then
		if [ "$3" -ne 0 ] || [ -z "$plan" ] || [ "$plan" -eq 0 ] ||
			[ "$(grep -cE '^(not )?ok [0-9]' "$2" || true)" -ne "$plan" ]; then
			bad=1
		fi
	fi
	printf '%-50s %4d ok, %d failed  %s\n' "$1" "$good" "$bad" "$skip"
	record "$1" "$good" "$bad"
	[ "$bad" -gt 0 ] || return 0
	[ "$3" -ne 124 ] || echo "the time limit was reached"
	grep -vE '^ok [0-9]|^ *$' "$2" | tail -n 80 || true
	return 1
}

unit_tests()
{
	local status=0 log=$workdir/unit.log

	heading "unit tests"
	run_limited 600 make -s -C "$source_dir" "${make_arguments[@]}" unit >"$log" 2>&1 || status=$?
	record_tap unit "$log" "$status" || true
}

# record_regress NAME LOG STATUS: counts the tests from the summary of pg_regress or
# pg_isolation_regress, of which there are two formats: until 15 in words, from 16 on TAP with the
# same words in a comment.
record_regress()
{
	local bad all

	cat "$2"
	read -r bad all <<<"$(sed -n \
		-e 's/.*[^0-9]\([0-9]\{1,\}\) of \([0-9]\{1,\}\) tests failed.*/\1 \2/p' \
		-e 's/.*All \([0-9]\{1,\}\) tests passed.*/0 \1/p' "$2" | tail -n 1)" || true
	if [ -z "$all" ]; then
		all=1 bad=1
		[ "$3" -ne 124 ] || echo "the time limit was reached"
	elif [ "$3" -ne 0 ] && [ "$bad" -eq 0 ]; then
		all=$((all + 1)) bad=1
	fi
	record "$1" $((all - bad)) "$bad"
	[ "$bad" -eq 0 ]
}

# Without a file to compare with, pg_regress would end at that test; with an empty one the test
# fails like others, and shows what it wrote.
add_missing_expected()
{
	local test

	for test in "$@"; do
		compgen -G "$source_dir/expected/$test*.out" >/dev/null ||
			run_as touch "$source_dir/expected/$test.out"
	done
}

# run_suite regress|isolation PASS SERVER: one of the two suites, against the running server.
run_suite()
{
	local part=$1 pass=$2 server=$3 program tests options status=0 output
	output=$workdir/$pass.$part

	case $part in
		regress)
			program=$pgxs_dir/src/test/regress/pg_regress
			tests=${only[regress]:-$(make_variable REGRESS)}
			options=$(make_variable REGRESS_OPTS)
			;;
		isolation)
			program=$pgxs_dir/src/test/isolation/pg_isolation_regress
			tests=${only[isolation]:-$(make_variable ISOLATION)}
			options=$(make_variable ISOLATION_OPTS)
			;;
	esac
	[ -n "${tests// /}" ] || return 0
	heading "$part tests, $pass"
	run_as mkdir -p "$output"
	# shellcheck disable=SC2086
	add_missing_expected $tests
	# shellcheck disable=SC2086	# lists of words
	run_limited 900 env -C "$source_dir" "$program" --inputdir="$source_dir" \
		--outputdir="$output" --bindir="$bindir" --host="$PGHOST" --port="$PGPORT" \
		--user=postgres $options $tests >"$output/log" 2>&1 || status=$?
	if ! record_regress "$part, $pass" "$output/log" "$status"; then
		show "$output/regression.diffs" 400
		show "$workdir/$server.log"
	fi
}

# standby_caught_up PRIMARY STANDBY: whether the standby replays all that the primary has logged.
# It ends by itself when a page differs from what wal_consistency_checking expects.
standby_caught_up()
{
	local target standby_port try

	use_server "$1"
	# the checkpoint flushes what transactions without an xid have logged
	target=$(psql -XAtqc 'CHECKPOINT' -c 'SELECT pg_current_wal_flush_lsn()') || return 1
	for try in {1..600}; do
		standby_port=$(sed -n 4p "$(data_dir "$2")/postmaster.pid" 2>/dev/null) || return 1
		if [ "$(PGPORT=$standby_port psql -XAtqc \
			"SELECT pg_last_wal_replay_lsn() >= '$target'" 2>/dev/null)" = t ]; then
			return 0
		fi
		[ "$try" -lt 600 ] || return 1
		sleep 0.2
	done
}

# server_crashed NAME...: whether a log tells of a crash, which a test's expected output may not.
server_crashed()
{
	local name found=1

	for name in "$@"; do
		! grep -E 'TRAP: |PANIC: |was terminated by signal|inconsistent page found' \
			"$workdir/$name.log" || found=0
	done
	return "$found"
}

# test_pass PASS LINE...: the regress and the isolation tests on a primary with a standby, both
# configured with the given lines.
test_pass()
{
	local pass=$1 primary=$1 standby=$1-standby part
	shift

	# a snapshot of autovacuum's keeps a test's VACUUM from removing rows
	if ! start_server "$primary" "autovacuum = off" "max_prepared_transactions = 10" \
		"max_wal_size = 2GB" \
		"log_line_prefix = '%m [%p] %q%a '" "$@" || ! clone_standby "$standby" "$primary"; then
		record "start of the servers, $pass" 0 1
		return 0
	fi
	for part in regress isolation; do
		! wanted "$part" || run_suite "$part" "$pass" "$primary"
	done
	heading "replay on a standby, $pass"
	if standby_caught_up "$primary" "$standby"; then
		echo "ok"
		record "replay on a standby, $pass" 1 0
	else
		echo "FAILED"
		show "$workdir/$standby.log"
		record "replay on a standby, $pass" 0 1
	fi
	if server_crashed "$primary" "$standby"; then
		echo "FAILED: a server crashed"
		show "$workdir/$primary.log"
		show "$workdir/$standby.log"
		record "no crash, $pass" 0 1
	else
		record "no crash, $pass" 1 0
	fi
	stop_server "$standby" immediate || true
	stop_server "$primary" immediate || true
	[ -n "${KEEP:-}" ] || rm -rf "$(data_dir "$primary")" "$(data_dir "$standby")"
}

# Whether the library has WAL records of its own when it is preloaded.
has_custom_records()
{
	# not grep -q, which may end before nm does, and so fail the pipe
	nm -D --undefined-only "$("$PG_CONFIG" --pkglibdir)/lazyhash.so" |
		grep -w RegisterCustomRmgr >/dev/null
}

sql_tests()
{
	test_pass generic "wal_consistency_checking = 'all'"
	if has_custom_records; then
		# "all" does not cover a resource manager that is only registered later
		test_pass custom "shared_preload_libraries = 'lazyhash'" \
			"wal_consistency_checking = 'all, lazyhash'"
	fi
}

tap_tests()
{
	local file status log name test_dir=$workdir/tap

	set -- "$source_dir"/t/*.pl
	[ -e "$1" ] || return 0
	# shellcheck disable=SC2086	# a list of words
	[ -z "${only[tap]}" ] || set -- ${only[tap]}
	heading "TAP tests"
	for file in "$@"; do
		name=t/$(basename "$file")
		log=$workdir/$(basename "$file" .pl).tap
		status=0
		run_tap 900 "$name" "$test_dir" >"$log" 2>&1 || status=$?
		if ! record_tap "$name" "$log" "$status"; then
			# what the test program itself said, and the servers that it started
			for log in "$test_dir"/tmp_check/log/*; do show "$log"; done
		fi
		[ -n "${KEEP:-}" ] || { stop_all_servers; rm -rf "$test_dir"; }
	done
}

shell_tests()
{
	local file status log

	set -- "$source_dir"/test/shell/*.sh
	[ -e "$1" ] || return 0
	# shellcheck disable=SC2086	# a list of words
	[ -z "${only[shell]}" ] || set -- ${only[shell]}
	heading "shell tests"
	for file in "$@"; do
		file=test/shell/$(basename "$file")
		log=$workdir/$(basename "$file" .sh).log
		status=0
		run_limited 900 env -C "$source_dir" bash "$file" >"$log" 2>&1 || status=$?
		case $status in
			0) echo "$file: ok"; record "$file" 1 0 ;;
			77) echo "$file: skipped: $(tail -n 1 "$log")" ;;
			*) echo "$file: FAILED, status $status"; show "$log"; record "$file" 0 1 ;;
		esac
	done
}

parse_arguments "$@"
# with the points at which tests have the library fail
set_up COPT=-Werror TEST_POINTS=1
echo "tested with $("$PG_CONFIG" --version)$(
	"$PG_CONFIG" --configure | grep -q enable-cassert && echo ', with assertions')"
! wanted unit || unit_tests
if wanted regress || wanted isolation; then sql_tests; fi
! wanted tap || tap_tests
! wanted shell || shell_tests

echo
[ ${#failures[@]} -eq 0 ] || printf 'failed: %s\n' "${failures[@]}"
[ $((passed + failed)) -gt 0 ] || echo "nothing was tested"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]

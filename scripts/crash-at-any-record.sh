#!/usr/bin/env bash
#
# Crashes a server at the end of many WAL records, one after the other, and sees whether the indexes
# are right after recovery, and on a standby that has replayed as far:
#
#     scripts/crash-at-any-record.sh [--boundaries N] [--mode generic|custom|mixed] [--workers N]
#
#     --boundaries N   at how many records, 0 for all (many thousands); default 500
#     --mode MODE      the kind of WAL records: default all three, one after the other
#     --workers N      how many recoveries to run at a time; default: the number of processors
#
# This is t/023_crash_at_any_record.pl with more records than a run of all tests has time for.
# Another server:  PG_CONFIG=/path/to/pg_config scripts/crash-at-any-record.sh

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

CRASH_BOUNDARIES=500
CRASH_MODES='generic custom mixed'
CRASH_WORKERS=$(nproc)
while [ $# -gt 0 ]; do
	case $1 in
		--boundaries) CRASH_BOUNDARIES=${2:-} ;;
		--mode) CRASH_MODES=${2:-} ;;
		--workers) CRASH_WORKERS=${2:-} ;;
		*) sed -n '3,14{s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
	esac
	shift 2 || fail "$1 needs a value"
done
[[ $CRASH_BOUNDARIES =~ ^[0-9]+$ ]] || fail "not a number of records: $CRASH_BOUNDARIES"
[[ $CRASH_WORKERS =~ ^[1-9][0-9]*$ ]] || fail "not a number of workers: $CRASH_WORKERS"
[[ $CRASH_MODES =~ ^(generic|custom|mixed|generic custom mixed)$ ]] ||
	fail "no such mode: $CRASH_MODES"
export CRASH_BOUNDARIES CRASH_MODES CRASH_WORKERS

set_up TEST_POINTS=1
"$PG_CONFIG" --version
run_tap "${CRASH_TIME_LIMIT:-14400}" t/023_crash_at_any_record.pl "$workdir/tap" 2>&1

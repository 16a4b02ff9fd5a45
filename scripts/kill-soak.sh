#!/usr/bin/env bash
#
# Kills a server under load at random moments, again and again, and sees each time whether the
# indexes are right after recovery:
#
#     scripts/kill-soak.sh [--rounds N] [--seed N]
#
#     --rounds N   how many times; default 200
#     --seed N     of the random numbers that choose moments and victims; default: another each time
#
# This is t/024_kill.pl with more rounds than a run of all tests has time for.
# Another server:  PG_CONFIG=/path/to/pg_config scripts/kill-soak.sh

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

KILL_ROUNDS=200
while [ $# -gt 0 ]; do
	case $1 in
		--rounds) KILL_ROUNDS=${2:-} ;;
		--seed) KILL_SEED=${2:-}; export KILL_SEED ;;
		*) sed -n '3,12{s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
	esac
	shift 2 || fail "$1 needs a value"
done
[[ $KILL_ROUNDS =~ ^[1-9][0-9]*$ ]] || fail "not a number of rounds: $KILL_ROUNDS"
export KILL_ROUNDS

set_up TEST_POINTS=1
"$PG_CONFIG" --version
run_tap "${KILL_TIME_LIMIT:-14400}" t/024_kill.pl "$workdir/tap" 2>&1

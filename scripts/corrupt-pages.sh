#!/usr/bin/env bash
#
# Damages lazyhash indexes in many ways, one at a time, and sees whether the server says so or gives
# the right answers, and never crashes, loops or hangs:
#
#     scripts/corrupt-pages.sh [--mutations N] [--seed S] [--numbers N,N,...]
#
#     --mutations N    how many changes to make; default 2000, which takes about 15 minutes
#     --seed S         which ones; default 1
#     --numbers N,...  of these only the ones with these numbers, each told of in the log, which is
#                      left behind: to look into what a run has found
#
# This is t/030_corrupt_pages.pl with more changes than a run of all tests has time for.  What is
# accepted is written at the head of t/CorruptPages.pm, the changes are those of t/PageMutations.pm.
#
# With assertions (scripts/build-assert-server.sh) it finds more:
#     PG_CONFIG=/opt/pg15-assert/bin/pg_config scripts/corrupt-pages.sh

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export LAZYHASH_MUTATIONS=2000 LAZYHASH_MUTATION_SEED=1
while [ $# -gt 0 ]; do
	case $1 in
		--mutations) LAZYHASH_MUTATIONS=${2:-} ;;
		--seed) LAZYHASH_MUTATION_SEED=${2:-} ;;
		--numbers) export LAZYHASH_MUTATION_NUMBERS=${2:-} LAZYHASH_MUTATION_VERBOSE=1 KEEP=1 ;;
		*) sed -n '3,18{s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
	esac
	shift 2 || fail "$1 needs a value"
done
[[ $LAZYHASH_MUTATIONS =~ ^[1-9][0-9]*$ ]] || fail "not a number of mutations: $LAZYHASH_MUTATIONS"
[[ $LAZYHASH_MUTATION_SEED =~ ^[0-9]+$ ]] || fail "not a seed: $LAZYHASH_MUTATION_SEED"

# shellcheck disable=SC2119
set_up
"$PG_CONFIG" --version
run_tap 14400 t/030_corrupt_pages.pl "$workdir/tap" 2>&1

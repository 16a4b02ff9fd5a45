#!/usr/bin/env bash
#
# The benchmarks: lazyhash beside the built-in hash and btree.
#
#     bench/run.sh [--quick] [--out DIR] PART...
#
#     PART      one or more of those below, or "all"
#     --quick   smaller sizes and fewer alternations: some minutes instead of hours, to see that all
#               works; its figures are rough
#     --out     where reports go; default bench/results (bench/results/quick with --quick)
#
# Each part starts servers of its own from a private copy of the installed one, with lazyhash built
# from this tree (never in the way of clusters that exist), shows its progress, and writes PART.csv
# (each single measurement), PART.md (tables) and PART-*.svg.  What each figure means is told in
# README.md.
#
# From the environment: CONTESTANTS and ROUNDS (see lib.sh), and what ../scripts/lib.sh takes.

set -euo pipefail
# shellcheck source=bench/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

all_parts="insert single lookup instructions pages replay build stall churn batch triggers ledger"
quick=
output_dir=
parts=()

usage()
{
	sed -n '3,17{s/^# \{0,1\}//;p}' "$0"
	printf '\nParts:\n'
	for part in $all_parts; do
		printf '    %-14s%s\n' "$part" "$(sed -n '2s/^# //p' "$bench_dir/parts/$part.sh")"
	done
	exit "${1:-2}"
}

read_arguments()
{
	while [ $# -gt 0 ]; do
		case $1 in
			--quick) quick=yes ;;
			--out) output_dir=${2:?--out needs a directory}; shift ;;
			-h | --help) usage 0 ;;
			all) read -ra parts <<<"$all_parts" ;;
			-*) usage ;;
			*) [[ " $all_parts " == *" $1 "* ]] || usage; parts+=("$1") ;;
		esac
		shift
	done
	[ ${#parts[@]} -gt 0 ] || usage
	output_dir=${output_dir:-$bench_dir/results${quick:+/quick}}
	mkdir -p "$output_dir"
	output_dir=$(cd "$output_dir" && pwd)
}

# Parts may be interrupted one by one: reports of those before are complete.
run_part()
{
	local started=$SECONDS

	# shellcheck disable=SC1090
	. "$bench_dir/parts/$1.sh"
	start_part "$1"
	"part_$1"
	stop_all_servers
	find "$workdir" -maxdepth 1 -name '*.data' -exec rm -rf {} +
	printf '\nMeasured in %d minutes.\n' "$(((SECONDS - started + 30) / 60))" >>"$report"
	say "[$1] done: $report"
}

read_arguments "$@"
need_packages gnuplot-nox valgrind python3
make_workdir
private_server
build_and_install
for part in "${parts[@]}"; do
	run_part "$part"
done

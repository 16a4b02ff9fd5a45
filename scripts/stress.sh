#!/usr/bin/env bash
#
# Puts lazyhash under concurrent load for a while, by hand; what t/ does in seconds, for minutes:
#
#     scripts/stress.sh [MINUTES]         by default 30
#
# Rounds of t/010_stress.pl to t/013_exclusion.pl by turns, each load lasting a minute or two, under
# conditions that change from round to round: replay verified byte by byte, or not and thus faster;
# many clients; few buffers, so that pages are written and read all the time.  It ends at the first
# round that fails, with status 1.
#
# Best with a server that has assertions (scripts/build-assert-server.sh):
#     PG_CONFIG=/opt/pg15-assert/bin/pg_config scripts/stress.sh 120

set -euo pipefail

minutes=${1:-30}
[[ $minutes =~ ^[0-9]+$ ]] || { sed -n '3,14{s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
tests=(t/010_stress.pl t/011_readers.pl t/012_serializable.pl t/013_exclusion.pl)
end=$((SECONDS + 60 * minutes))
round=0
counts=$(mktemp)
log=$(mktemp)
trap 'rm -f "$counts" "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# the tests may run as another user
chmod 666 "$counts"

# Conditions of a round: lines for postgresql.conf, and the number of clients of the main load.
conditions=(
	"wal_consistency_checking = ''|8"
	"log_checkpoints = off|8"
	"wal_consistency_checking = ''; shared_buffers = 1MB|8"
	"wal_consistency_checking = ''|24"
	"checkpoint_timeout = 30s; max_wal_size = 64MB|12"
)

while [ "$SECONDS" -lt "$end" ]; do
	condition=${conditions[$((round % ${#conditions[@]}))]}
	left=$((end - SECONDS))
	round=$((round + 1))
	status=0
	# the longest program has two loads one after the other; test.sh ends it after 15 minutes
	LAZYHASH_STRESS_SECONDS=$((left > 720 ? 90 : left / 8 + 10)) \
		LAZYHASH_STRESS_CONF=${condition%|*} LAZYHASH_STRESS_CLIENTS=${condition#*|} \
		LAZYHASH_STRESS_LOG=$counts "$here/test.sh" "${tests[@]}" >"$log" 2>&1 || status=$?
	if [ "$status" -ne 0 ]; then
		cat "$log"
		printf 'round %d FAILED (%s)\n' "$round" "$condition"
		exit 1
	fi
	printf 'round %d: %s (%s)\n' "$round" "$(tail -n 1 "$log")" "$condition"
done
awk '{ sum += $2 } END { printf "%d transactions\n", sum }' "$counts"
printf '%d rounds passed\n' "$round"

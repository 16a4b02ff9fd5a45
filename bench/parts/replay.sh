# shellcheck shell=bash disable=SC2154
# how fast a server recovers: replay of the WAL of 2 million inserts, always from the same copy
#
# Each contestant's server is crashed (immediate stop) after inserting into a table with an index
# that was there before the last checkpoint.  Each measurement copies the data directory, starts a
# server on it, and takes the time of the redo from the server's own log ("redo done ... elapsed").
# Afterwards the table is counted, and a lazyhash index checked.  "heap" is the same without an
# index: the rows' share.

part_replay()
{
	take_turns 5 3 lazyhash lazyhash:generic hash btree heap
	preload=$(size 2000000 300000)
	rows=$(size 2000000 300000)
	for_contestants crash_server
	alternate recover
	report_replay
}

crash_server()
{
	local database name start with
	database=$(name_of "$1")
	name=crashed_$database

	# what was written before the checkpoint is not kept: there are several such directories
	bench_server "$name" "min_wal_size = 80MB"
	[ -s "$report" ] || describe "Replay" \
		"The WAL of $rows rows, inserted by two writers, 1,000 a statement," \
		"into an index of $preload."
	make_filled "$1" "$preload"
	sql <<<CHECKPOINT
	start=$(wal_position)
	write_rows "$1" "$database" 2 "$rows" >/dev/null
	read -r with _ < <(wal_since "$start")
	round=1 record "$1" "to replay" "MB of WAL" "$(divide "$with" 1048576)"
	stop_server "$name" immediate
}

recover()
{
	local name elapsed
	name=crashed_$(name_of "$1")

	cp -a "$(data_dir "$name")" "$(data_dir replay)"
	rm -f "$workdir/replay.log"
	launch replay
	elapsed=$(sed -n 's/.*redo done .* elapsed: \([0-9.]*\) s$/\1/p' "$workdir/replay.log")
	record "$1" "redo" seconds "$elapsed"
	verify_recovered "$1"
	stop_server replay immediate
	rm -rf "$(data_dir replay)"
}

verify_recovered()
{
	local expected=$((preload + rows)) found

	use_server replay
	export PGDATABASE; PGDATABASE=$(name_of "$1")
	found=$(sql <<<"SELECT count(*) FROM t")
	[ "$found" = "$expected" ] || fail "$1: $found rows after recovery, not $expected"
	if [ "$(method_of "$1")" = lazyhash ] && [ "$round" = "$rounds" ]; then
		sql <<<"SELECT lazyhash_check('t_k', true)" >/dev/null
	fi
}

report_replay()
{
	table seconds "Seconds of redo"
	bars seconds "Seconds of redo"
	ratios seconds "Time" hash btree
	table seconds "Seconds of redo, the heap's taken off" -v minus=heap
	table seconds "Time, the heap's taken off, ÷ hash" -v minus=heap -v base=hash
	table seconds "Time, the heap's taken off, ÷ btree" -v minus=heap -v base=btree
	table "MB of WAL" "What there was to replay, MB of WAL"
}

# shellcheck shell=bash disable=SC2154
# rows a second and bytes of WAL a row, 1,000 random rows a statement, by 1, 2 and 8 writers
#
# Each contestant has a database with a table of one int8 column and its index, filled by two
# writers. Each measurement works on a fresh copy of it in shared buffers, begins after a checkpoint
# (so that each page's first change logs a full image, as it does in life) and inserts the same
# number of rows.

part_insert()
{
	take_turns 5 3 lazyhash lazyhash:generic lazyhash:batch=1 hash btree heap
	preload=$(size 2000000 500000)
	rows=$(size 1000000 200000)
	bench_server insert
	describe "Inserts of 1,000 random rows a statement" \
		"$preload random int8 preloaded row by row; each measurement inserts $rows more."
	for_contestants make_filled "$preload"
	alternate insert_by_writers
	report_insert
}

insert_by_writers()
{
	local contestant=$1 writers case rate start with without

	for writers in 1 2 8; do
		case="$writers writers"
		[ "$writers" -gt 1 ] || case="1 writer"
		use_copy "$contestant"
		start=$(wal_position)
		rate=$(write_rows "$contestant" run "$writers" "$rows")
		record "$contestant" "$case" "rows/s" "$rate"
		read -r with without < <(wal_since "$start")
		record "$contestant" "$case" "WAL bytes/row" "$(divide "$with" "$rows")"
		record "$contestant" "$case" "WAL bytes/row without images" "$(divide "$without" "$rows")"
	done
}

report_insert()
{
	table "rows/s" "Rows a second"
	bars "rows/s" "Rows a second"
	ratios "rows/s" "Rows a second" hash btree lazyhash lazyhash:batch=1
	table "rows/s" "Rows a second ÷ those of one writer" -v across="1 writer"
	table "WAL bytes/row" "WAL bytes a row, the heap's taken off" -v minus=heap
	ratios_less_heap "WAL bytes/row" "WAL bytes a row, the heap's taken off,"
	table "WAL bytes/row without images" "The same without full-page images" -v minus=heap
	ratios_less_heap "WAL bytes/row without images" "The same without full-page images"
	table "WAL bytes/row" "WAL bytes a row in all" -v cases="1 writer"
}

ratios_less_heap()
{
	local base

	for base in hash btree; do
		table "$1" "$2 ÷ $base" -v minus=heap -v base="$base"
	done
}

# shellcheck shell=bash disable=SC2034,SC2154
# what the storage parameter "batch" does: throughput, overflow pages, delayed splits
#
# For each batch size an index grows from nothing by inserts of 1,000 rows a statement, by one
# writer and by two.  Then lazyhash_stats() tells how many entries the metapage has not been told
# of, and how many buckets are missing from those that the entries ask for: splits that are late
# because of that.  This is at a size at which nothing but the count brings on splits.  The index
# grows on to where many of its buckets fill their pages at the same time: there the statistics tell
# how many overflow pages it has, and how many pages a lookup reads.

part_batch()
{
	take_turns 5 3 lazyhash
	rows=$(size 2750000 344000)
	more=$(size 500000 62000)
	# half of a page's entries is the most that the parameter takes
	batches="1 2 4 8 16 32 64 128 256 406"
	bench_server batch
	describe "Batch sizes" \
		"An index that grows from nothing to $rows random int8, and then by $more more."
	# what takes turns here
	contestants="1_writer 2_writers"
	alternate try_batches
	report_batch
}

# try_batches WRITERS
try_batches()
{
	local batch

	for batch in $batches; do
		try_batch "$1" "${1%%_*}" "$batch"
	done
}

# try_batch NAME WRITERS BATCH
try_batch()
{
	local name=${1//_/ } rate

	new_table "lazyhash:batch=$3" | sql
	rate=$(write_rows lazyhash bench "$2" "$rows")
	record "$name" "$3" "rows/s" "$rate"
	record_state "$name" "$3" "late splits" \
		"greatest(0, ceil(entries::numeric / ffactor) - buckets)"
	record_state "$name" "$3" "pending" "pending"
	write_rows lazyhash bench "$2" "$more" >/dev/null
	record_state "$name" "$3" "overflow pages" "overflow_pages"
	record_state "$name" "$3" "pages a lookup" "pages_per_lookup"
}

# record_state NAME BATCH METRIC EXPRESSION
record_state()
{
	record "$1" "$2" "$3" "$(sql <<<"SELECT $4 FROM lazyhash_stats('t_k')")"
}

report_batch()
{
	table "rows/s" "Rows a second, by batch"
	plot_settings="set logscale x 2" lines "rows/s" "Rows a second" "batch"
	table "rows/s" "Rows a second ÷ those with batch = 64" -v across=64
	table "late splits" "Splits that are late at $rows rows, by batch"
	plot_settings="set logscale x 2" lines "late splits" "Splits that are late" "batch"
	table "pending" "Entries that the metapage has not been told of, by batch"
	table "overflow pages" "Overflow pages at $((rows + more)) rows, by batch"
	plot_settings="set logscale x 2" lines "overflow pages" "Overflow pages" "batch"
	table "pages a lookup" "Pages a lookup reads, by batch"
	plot_settings="set logscale x 2" plot_from=1 \
		lines "pages a lookup" "Pages a lookup reads" "batch"
}

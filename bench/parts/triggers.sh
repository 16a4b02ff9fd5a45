# shellcheck shell=bash disable=SC2034,SC2154
# what should bring on splits: the posted count, an overflow page, fullness, or several of them
#
# The library is built anew with some of the signs alone (LAZY_SPLIT_SIGNS in
# src/access/insert.c), and an index grown row by row by two writers; at each step
# lazyhash_stats() tells how many pages a lookup reads, and how large the index is.  After that
# the same with few values in many rows, whose chains no split can shorten.  "as built" is the
# library as it is, and what is installed again in the end.

part_triggers()
{
	take_turns 3 1 lazyhash
	step=$(size 250000 125000)
	most=$(size 4000000 1000000)
	repeated=$(size 300000 100000)
	bench_server triggers
	describe "What brings on splits" \
		"An index grows to $most random int8, and others to $repeated rows of few values." \
		"A page that posts, once in 64 of its inserts, looks at the count (count) and whether it" \
		"is past eleven twelfths of its room, or an overflow page (fullness); overflow: an" \
		"overflow page that has to be added brings on splits."
	# what takes turns here
	contestants="count overflow fullness count+overflow as_built"
	alternate try_signs
	install_signs as_built
	report_triggers
}

# signs_of NAME: prints what LAZY_SPLIT_SIGNS is to be; nothing for that of the source.
signs_of()
{
	case $1 in
		count) echo BY_COUNT ;;
		overflow) echo BY_OVERFLOW ;;
		fullness) echo BY_FULLNESS ;;
		count+overflow) echo BY_COUNT+BY_OVERFLOW ;;
		as_built) ;;
		*) fail "no such signs: $1" ;;
	esac
}

# install_signs NAME: builds and installs the library with these signs, and restarts the server.
install_signs()
{
	local signs
	signs=$(signs_of "$1")

	stop_server triggers
	# make neither knows of other options, nor misses an object that is in the library already
	rm -f "$source_dir/src/access/insert.o" "$source_dir/lazyhash.so"
	build_and_install ${signs:+COPT="-DLAZY_SPLIT_SIGNS=$signs"}
	start_server triggers
	export PGDATABASE=bench
}

# try_signs NAME
try_signs()
{
	install_signs "$1"
	grow_by_steps "${1//_/ }"
	repeat_values "${1//_/ }" 10
	repeat_values "${1//_/ }" 1000
}

grow_by_steps()
{
	local rows rate seconds=0

	new_table lazyhash | sql
	for ((rows = step; rows <= most; rows += step)); do
		rate=$(write_rows lazyhash bench 2 "$step")
		seconds=$(awk "BEGIN { print $seconds + $step / $rate }")
		record_shape "$1" "$(divide "$rows" 1000000)" ""
	done
	record "$1" "random keys" "rows/s" "$(divide "$most" "$seconds")"
}

# repeat_values NAME VALUES: rows with so many different values, by one writer.
repeat_values()
{
	local rate

	new_table lazyhash | sql
	echo "INSERT INTO t SELECT floor(random() * $2) FROM generate_series(1, $rows_a_statement);" \
		>"$workdir/repeat.sql"
	rate=$(transactions_a_second lazyhash bench 1 -t "$((repeated / rows_a_statement))" \
		-f "$workdir/repeat.sql")
	record "$1" "$2 values" "rows/s" "$(awk "BEGIN { print $rate * $rows_a_statement }")"
	record_shape "$1" "$2 values" " (few values)"
}

# record_shape NAME CASE METRIC-SUFFIX
record_shape()
{
	local pages bytes buckets longest

	read -r pages bytes buckets longest < <(sql <<-'END'
		SELECT pages_per_lookup, pg_relation_size('t_k')::float8 / entries, buckets, longest_chain
		FROM lazyhash_stats('t_k');
	END
	)
	record "$1" "$2" "pages a lookup$3" "$pages"
	record "$1" "$2" "bytes a row$3" "$bytes"
	record "$1" "$2" "buckets$3" "$buckets"
	record "$1" "$2" "longest chain$3" "$longest"
}

report_triggers()
{
	local metric

	table "pages a lookup" "Pages a lookup reads, by million rows"
	plot_from=1 lines "pages a lookup" "Pages a lookup reads" "million rows"
	table "bytes a row" "Bytes a row, by million rows"
	lines "bytes a row" "Bytes a row, by what brings on splits" "million rows"
	table "buckets" "Buckets, by million rows"
	lines "buckets" "Buckets" "million rows"
	table "longest chain" "Pages of the longest chain, by million rows"
	table "rows/s" "Rows a second, from an empty index on"
	table "rows/s" "Rows a second ÷ as built" -v base="as built"
	for metric in buckets "bytes a row" "pages a lookup" "longest chain"; do
		table "$metric (few values)" "$repeated rows of few values: $metric"
	done
}

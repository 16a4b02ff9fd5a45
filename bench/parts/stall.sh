# shellcheck shell=bash disable=SC2154
# stalls: the slowest of 5 million single-row inserts while an index grows from nothing
#
# A procedure inserts row by row, commits every thousand rows, and reads the clock around each
# INSERT; it counts in a histogram of microseconds.  Nobody else works.  What the machine does by
# itself is in these figures too: "heap" shows it.

part_stall()
{
	take_turns 4 3 lazyhash lazyhash:generic hash btree heap
	rows=$(size 5000000 500000)
	bench_server stall
	describe "Stalls" "$rows single-row inserts into an index that is empty at first; microseconds."
	sql -f "$bench_dir/parts/stall.sql"
	alternate grow_and_time
	report_stall
}

grow_and_time()
{
	local measure value

	{
		new_table "$1"
		echo "CALL grow($rows);"
	} | sql_of "$1" bench
	while read -r measure value; do
		record "$1" "$measure" "microseconds" "$value"
	done < <(sql <<-'END'
		SELECT name, (SELECT min(us) FROM
			(SELECT us, sum(inserts) OVER (ORDER BY us) AS so_far, sum(inserts) OVER () AS total
			 FROM latency) l WHERE so_far >= total * share)
		FROM (VALUES ('median', 0.5), ('99%', 0.99), ('99.9%', 0.999), ('99.99%', 0.9999),
		             ('longest', 1)) wanted (name, share);
	END
	)
	record "$1" "all inserts" "microseconds" \
		"$(sql <<<'SELECT sum(us * inserts) / sum(inserts) FROM latency')"
}

report_stall()
{
	table "microseconds" "Microseconds an insert" -v cases='^(median|9|longest)'
	plot_settings="set logscale y" plot_from=1 \
		bars "microseconds" "Microseconds an insert, percentiles" -v cases='^(median|9|longest)'
	only='^(median|9|longest)' ratios "microseconds" "Time" hash btree
	table "microseconds" "Mean microseconds an insert" -v cases='^all'
}

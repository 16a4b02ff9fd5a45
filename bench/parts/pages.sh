# shellcheck shell=bash disable=SC2154
# pages that a lookup reads, and bytes a row, while an index grows and for one built at once
#
# Table t is filled row by row by two writers; at each step EXPLAIN (ANALYZE, BUFFERS) says how many
# index pages lookups of missing keys read (a miss does not visit the heap).  A copy of the table is
# then indexed at once and measured likewise.

part_pages()
{
	take_turns 1 1 lazyhash hash btree
	step=$(size 500000 125000)
	most=$(size 8000000 1000000)
	lookups=20000
	bench_server pages "max_wal_size = 2GB"
	describe "Pages read a lookup, and size" \
		"From $step to $most random int8; $lookups lookups of missing keys at each size."
	alternate grow_and_look
	report_pages
}

grow_and_look()
{
	local contestant=$1 rows

	sql <<-END
		DROP DATABASE IF EXISTS run;
		CREATE DATABASE run;
	END
	{
		echo "CREATE TABLE t (k int8);"
		create_index "$contestant" t_k t k
		echo "CREATE TABLE misses AS"
		echo "SELECT (random() * 9e18)::int8 AS k FROM generate_series(1, $lookups);"
		echo "ANALYZE misses;"
	} | sql_of "$contestant" run
	for ((rows = step; rows <= most; rows += step)); do
		write_rows "$contestant" run 2 "$step" >/dev/null
		look_at "$contestant" "$rows" t grown
		{
			echo "CREATE TABLE u AS SELECT k FROM t;"
			create_index "$contestant" u_k u k
		} | sql_of "$contestant" run
		look_at "$contestant" "$rows" u built
		PGDATABASE=run sql <<<"DROP TABLE u"
	done
}

# look_at CONTESTANT ROWS TABLE grown|built
look_at()
{
	local pages bytes
	read -r pages bytes < <(PGOPTIONS=$nested_loop sql_of "$1" run <<-END
		ANALYZE $3;
		SELECT ((plan->>'Shared Hit Blocks')::float8 + (plan->>'Shared Read Blocks')::float8)
		           / $lookups,
		       pg_relation_size('$3_k')::float8 / $2
		FROM inner_plan('SELECT count(*) FROM misses JOIN $3 t ON t.k = misses.k',
		                'Index Scan') plan;
	END
	)
	record "$1" "$(divide "$2" 1000000)" "pages a lookup ($4)" "$pages"
	record "$1" "$(divide "$2" 1000000)" "bytes a row ($4)" "$bytes"
}

report_pages()
{
	local state

	for state in grown built; do
		table "pages a lookup ($state)" "Index pages read a lookup, by million rows: index $state"
		plot_from=1 lines "pages a lookup ($state)" "Index pages read a lookup: index $state" \
			"million rows"
		table "bytes a row ($state)" "Bytes a row, by million rows: index $state"
		lines "bytes a row ($state)" "Bytes a row: index $state" "million rows"
		ratios "bytes a row ($state)" "Bytes a row: index $state" hash btree
	done
}

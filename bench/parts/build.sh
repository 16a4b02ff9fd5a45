# shellcheck shell=bash disable=SC2154
# CREATE INDEX: time and size for int8, uuid and text keys, also in parallel and with little memory
#
# One table with three columns of random values (text: URLs of about 70 bytes, collation C, which
# suits btree best); each measurement makes an index, takes time and size, and drops it.  "int8, 16
# MB" has that much maintenance_work_mem, so that it does not fit; "parallel" allows one worker.

part_build()
{
	take_turns 5 3 lazyhash hash btree
	rows=$(size 3000000 500000)
	bench_server builds
	describe "Builds" "A table of $rows rows."
	sql <<-END
		CREATE TABLE t AS
		SELECT (random() * 9e18)::int8 AS int8, md5(random()::text)::uuid AS uuid,
		       'https://www.example.org/articles/' || n % 97 || '/' || md5(n::text)
		           COLLATE "C" AS text
		FROM generate_series(1, $rows) n;
		VACUUM (FREEZE, ANALYZE) t;
	END
	warm bench
	alternate build_all
	report_build
}

build_all()
{
	local type

	for type in int8 uuid text; do
		build_one "$1" "$type" "$type"
	done
	build_one "$1" int8 "int8 with 16 MB" "SET maintenance_work_mem = '16MB';"
	build_one "$1" int8 "int8 in parallel" \
		"ALTER TABLE t SET (parallel_workers = 1); SET max_parallel_maintenance_workers = 1;"
	build_one "$1" text "text in parallel" \
		"ALTER TABLE t SET (parallel_workers = 1); SET max_parallel_maintenance_workers = 1;"
}

# build_one CONTESTANT COLUMN CASE [SETTINGS]
build_one()
{
	local seconds bytes

	read -r seconds bytes < <(sql_of "$1" bench <<-END
		CHECKPOINT;
		${4:-}
		SELECT extract(epoch FROM clock_timestamp()) AS start \gset
		$(create_index "$1" probe t "$2")
		SELECT extract(epoch FROM clock_timestamp()) - :start,
		       pg_relation_size('probe')::float8 / $rows;
		DROP INDEX probe;
		ALTER TABLE t RESET (parallel_workers);
	END
	)
	record "$1" "$3" seconds "$seconds"
	[ "$2" != "$3" ] || record "$1" "$3" "bytes a row" "$bytes"
}

report_build()
{
	table seconds "Seconds for $rows rows"
	bars seconds "Seconds to build an index of $rows rows"
	ratios seconds "Time" hash btree
	table "bytes a row" "Bytes a row"
	bars "bytes a row" "Bytes a row"
	ratios "bytes a row" "Bytes a row" hash btree
}

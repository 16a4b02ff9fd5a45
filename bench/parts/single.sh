# shellcheck shell=bash disable=SC2154
# single-row inserts, one a transaction, by 1, 16, 32 and 64 clients, and what they wait for
#
# The databases are those of the part "insert".  pgbench, prepared statements, for some seconds.
# Beside it a session looks at pg_stat_activity 20 times a second; what it finds the clients waiting
# for is given as a share of all their samples.

part_single()
{
	take_turns 5 3 lazyhash lazyhash:generic lazyhash:batch=1 hash btree heap
	preload=$(size 2000000 500000)
	seconds=$(size 6 3)
	bench_server single "max_connections = 200"
	describe "Single-row inserts, one a transaction" \
		"$preload random int8 preloaded row by row;" \
		"pgbench, prepared, $seconds seconds a measurement."
	for_contestants make_filled "$preload"
	alternate insert_singly
	report_single
}

insert_singly()
{
	local contestant=$1 clients case rate sampler

	printf '%s\n' '\set k random(1, 1000000000000000000)' 'INSERT INTO t VALUES (:k)' \
		>"$workdir/single.sql"
	for clients in 1 16 32 64; do
		case="$clients clients"
		[ "$clients" -gt 1 ] || case="1 client"
		use_copy "$contestant"
		sample_waits "$((seconds - 1))" >"$workdir/waits" &
		sampler=$!
		rate=$(transactions_a_second "$contestant" run "$clients" -T "$seconds" \
			-f "$workdir/single.sql")
		wait "$sampler"
		record "$contestant" "$case" "inserts/s" "$rate"
		record_waits "$contestant" "$case"
	done
}

# sample_waits SECONDS: prints the wait events of the clients of "run", with percentages.
sample_waits()
{
	sql <<-SQL
		CREATE TEMP TABLE sample (event text);
		DO \$\$
		DECLARE
			finish timestamptz := clock_timestamp() + interval '$1 s';
		BEGIN
			PERFORM pg_sleep(0.5);
			WHILE clock_timestamp() < finish LOOP
				PERFORM pg_stat_clear_snapshot();
				INSERT INTO sample
				SELECT CASE WHEN state LIKE 'idle%' THEN 'idle'
				       ELSE coalesce(wait_event, 'running') END
				FROM pg_stat_activity WHERE datname = 'run' AND backend_type = 'client backend';
				PERFORM pg_sleep(0.05);
			END LOOP;
		END
		\$\$;
		SELECT event, 100.0 * count(*) / sum(count(*)) OVER ()
		FROM sample WHERE event <> 'idle' GROUP BY event;
	SQL
}

record_waits()
{
	local wanted share

	for wanted in BufferContent WALInsert; do
		share=$(awk -v wanted="$wanted" '$1 == wanted { s = $2 } END { print s + 0 }' \
			"$workdir/waits")
		record "$1" "$2" "% waiting for $wanted" "$share"
	done
}

report_single()
{
	table "inserts/s" "Inserts a second"
	bars "inserts/s" "Inserts a second, one a transaction"
	ratios "inserts/s" "Inserts a second" hash btree heap
	table "% waiting for BufferContent" "Busy clients that wait for a page (BufferContent), %"
	table "% waiting for WALInsert" "Busy clients that wait to insert WAL (WALInsert), %"
}

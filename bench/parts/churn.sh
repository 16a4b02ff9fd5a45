# shellcheck shell=bash disable=SC2154
# updates and delete/insert churn with autovacuum at work: throughput, and size over time
#
# Two clients, one transaction after the other, for some minutes in all.  "update": a row, found by
# its primary key (btree, for all contestants), gets a new random value in the indexed column, so
# that no update is HOT.  "churn": the oldest row is deleted, found through the contestant's index,
# and a new one inserted.  The number of rows stays the same all the time; what the index grows by
# is bloat.  Size and transactions a second are recorded at ten times, so that a level that sinks
# shows.

part_churn()
{
	take_turns 2 1 lazyhash lazyhash:generic hash btree
	rows=$(size 500000 200000)
	# a tenth of it must be whole seconds
	seconds=$(size 40 20)
	clients=2
	bench_server churn "autovacuum = on" "autovacuum_naptime = 5s" \
		"autovacuum_vacuum_scale_factor = 0.1" "autovacuum_vacuum_insert_scale_factor = 0.1" \
		"autovacuum_vacuum_cost_delay = 0" "max_wal_size = 3GB"
	describe "Updates and churn beside autovacuum" \
		"$rows rows, $clients clients, $seconds seconds a measurement;" \
		"autovacuum looks every 5 s, begins at 10 % dead rows, and is not throttled."
	write_churn_scripts
	alternate run_workloads
	report_churn
}

# The keys of each client are a sequence of its own, mixed by a hash.
write_churn_scripts()
{
	cat >"$workdir/update.sql" <<-END
		\set id random(1, $rows)
		\set k random(1, 1000000000000000000)
		UPDATE t SET k = :k WHERE id = :id;
	END
	cat >"$workdir/churn.sql" <<-END
		\set n :n + 1
		\set old :client_id * 1000000000 + :n
		\set new :old + $((rows / clients))
		BEGIN;
		DELETE FROM t WHERE k = hashint8extended(:old, 0);
		INSERT INTO t VALUES (:old, hashint8extended(:new, 0));
		COMMIT;
	END
}

run_workloads()
{
	run_workload "$1" update "id int8 PRIMARY KEY"
	run_workload "$1" churn "id int8"
}

# run_workload CONTESTANT update|churn ID-COLUMN
run_workload()
{
	local contestant=$1 rate sampler

	{
		echo "SET client_min_messages = warning; DROP TABLE IF EXISTS t;"
		echo "CREATE TABLE t ($3, k int8);"
		if [ "$2" = update ]; then
			echo "INSERT INTO t SELECT n, (random() * 9e18)::int8 FROM generate_series(1, $rows) n;"
		else
			echo "INSERT INTO t SELECT n, hashint8extended(c * 1000000000::int8 + n, 0)" \
				"FROM generate_series(0, $clients - 1) c, generate_series(1, $rows / $clients) n;"
		fi
		create_index "$contestant" t_k t k
		echo "VACUUM (ANALYZE) t; CHECKPOINT;"
	} | sql_of "$contestant" bench
	record_size "$contestant" "$2" 0
	sample_size "$contestant" "$2" &
	sampler=$!
	rate=$(transactions_a_second "$contestant" bench "$clients" -T "$seconds" -D n=0 \
		--progress="$((seconds / 10))" -f "$workdir/$2.sql")
	wait "$sampler"
	record "$contestant" "$2" "transactions/s" "$rate"
	record_level "$contestant" "$2"
	verify_churn "$contestant" "$2"
}

# Transactions a second in each tenth of the time, as pgbench has reported them on its way.  When a
# transaction takes long at the end, there is no last report.
record_level()
{
	local rate reports=0

	while read -r rate; do
		reports=$((reports + 1))
		record "$1" "$((seconds * reports / 10))" "transactions/s ($2)" "$rate"
	done < <(sed -n 's/^progress: .* s, \([0-9.]*\) tps.*/\1/p' "$workdir/pgbench.out")
	[ "$reports" -ge 9 ] || fail "pgbench has reported its progress only $reports times"
}

# The size of the index while a workload runs, at ten times.
sample_size()
{
	local i

	for ((i = 1; i <= 10; i++)); do
		sleep "$(divide "$seconds" 10)"
		record_size "$1" "$2" "$(divide "$((seconds * i))" 10)"
	done
}

record_size()
{
	record "$1" "$3" "MB ($2)" "$(sql <<<"SELECT pg_relation_size('t_k') / 1048576.0")"
}

# No row got lost, and the index agrees with the table.
verify_churn()
{
	[ "$(sql <<<'SELECT count(*) FROM t')" = "$rows" ] || fail "$1: rows got lost in $2"
	if [ "$(method_of "$1")" = lazyhash ]; then
		sql <<<"SELECT lazyhash_check('t_k', true)" >/dev/null
	fi
}

report_churn()
{
	local workload

	table "transactions/s" "Transactions a second"
	bars "transactions/s" "Transactions a second beside autovacuum"
	ratios "transactions/s" "Transactions a second" hash btree
	for workload in update churn; do
		table "MB ($workload)" "Size of the index in MB after so many seconds of $workload"
		lines "MB ($workload)" "Size of the index during $workload" "seconds"
		only="^$seconds\$" ratios "MB ($workload)" "Size during $workload" hash btree
		table "transactions/s ($workload)" \
			"Transactions a second in the tenth that ended after so many seconds of $workload"
		lines "transactions/s ($workload)" "Transactions a second during $workload" "seconds"
	done
}

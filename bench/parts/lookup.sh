# shellcheck shell=bash disable=SC2154
# random lookups as an index nested loop join, hits and misses, by 1 and 2 clients, beside a writer
#
# Each contestant has a database with the same rows (setseed) twice: in table t, whose index is
# built at the end, and in table g, whose index grows row by row.  Keys to look up lie in tables in
# random order. "heap" is the same join by TID, without any index: the floor under each figure, as
# the heap page must be read.  Misses do not visit the heap.

part_lookup()
{
	take_turns 5 3 lazyhash lazyhash:generic hash btree heap
	rows=$(size 3000000 600000)
	lookups=$(size 500000 100000)
	each=$((lookups / 10))
	bench_server lookup
	describe "Random lookups" \
		"$lookups lookups by an index nested loop join in a table of $rows rows."
	for_contestants make_lookup_database
	alternate look_up
	report_lookup
}

make_lookup_database()
{
	local database
	database=$(name_of "$1")

	say "[$part] $1: two tables of $rows rows"
	sql <<<"CREATE DATABASE \"$database\""
	{
		cat <<-END
			SELECT setseed(0.25) \g /dev/null
			CREATE TABLE t AS
			SELECT (random() * 9e18)::int8 AS k, n::int AS v FROM generate_series(1, $rows) n;
			CREATE TABLE g (LIKE t);
			CREATE TABLE hits AS SELECT k, ctid AS tid FROM t ORDER BY random() LIMIT $lookups;
			CREATE TABLE sample AS SELECT * FROM hits LIMIT $each;
			CREATE TABLE misses AS
			SELECT (random() * 9e18)::int8 AS k, NULL::tid AS tid
			FROM generate_series(1, $lookups) n;
		END
		create_index "$1" t_k t k
		create_index "$1" g_k g k
		cat <<-END
			INSERT INTO g SELECT * FROM t;
			VACUUM (FREEZE, ANALYZE);
		END
	} | sql_of "$1" "$database"
	warm "$database"
}

# join_of CONTESTANT TABLE KEYS: prints the join that looks the keys up.
join_of()
{
	case $1 in
		heap) printf 'SELECT sum(v) FROM %s JOIN %s t ON t.ctid = tid' "$3" "$2" ;;
		*) printf 'SELECT sum(v) FROM %s keys JOIN %s t ON t.k = keys.k' "$3" "$2" ;;
	esac
}

look_up()
{
	local contestant=$1 database table keys
	database=$(name_of "$1")

	for keys in hits misses; do
		for table in t g; do
			[ "$keys" = hits ] || [ "$contestant" != heap ] || continue
			look_up_one "$contestant" "$database" "$table" "$keys"
		done
	done
	look_up_together "$contestant" "$database"
	look_up_beside_writer "$contestant"
}

# look_up_one CONTESTANT DATABASE TABLE KEYS
look_up_one()
{
	local query scan="Index Scan" case="$4 (built)" answer ms
	query=$(join_of "$1" "$3" "$4")

	[ "$1" != heap ] || scan="Tid Scan"
	[ "$3" = t ] || case="$4 (grown)"
	read -r answer ms < <(PGOPTIONS=$nested_loop sql_of "$1" "$2" <<-END
		SELECT inner_plan('$(join_of "$1" "$3" sample)', '$scan') \g /dev/null
		SELECT coalesce(answer, 0), ms FROM timed('$query');
	END
	)
	check_answer "$4" "$answer"
	record "$1" "$case" ms "$ms"
}

# All contestants must find the same rows.
check_answer()
{
	local -n known=answer_$1

	[ "$2" = "${known:=$2}" ] || fail "a lookup of $1 gave $2, another contestant's $known"
}

# Lookups a second by one client and by two, each its own.
look_up_together()
{
	local clients rate

	write_lookup_script "$1"
	for clients in 1 2; do
		rate=$(lookups_a_second "$1" "$2" "$clients" -t 20)
		record "$1" "$clients client$([ "$clients" -eq 1 ] || echo s)" "lookups/s" "$rate"
	done
}

write_lookup_script()
{
	printf '%s;\n' "$(join_of "$1" t sample)" >"$workdir/lookup.sql"
}

# lookups_a_second CONTESTANT DATABASE CLIENTS ARGUMENT...
lookups_a_second()
{
	local rate

	rate=$(PGOPTIONS=$nested_loop transactions_a_second "$@" -f "$workdir/lookup.sql")
	awk "BEGIN { printf \"%.0f\", $rate * $each }"
}

# The same by one client while another session inserts into the same table.
look_up_beside_writer()
{
	local rate writer

	use_copy "$1"
	echo "INSERT INTO t SELECT (random() * 9e18)::int8, 0 FROM generate_series(1, 1000)" \
		>"$workdir/writer.sql"
	write_lookup_script "$1"
	PGOPTIONS=$(session_options "$1") pgbench -n -M prepared -T 60 -f "$workdir/writer.sql" run \
		>/dev/null 2>&1 &
	writer=$!
	sleep 0.5
	rate=$(lookups_a_second "$1" run 1 -t 20)
	kill "$writer"
	wait "$writer" || true
	record "$1" "1 client beside a writer" "lookups/s" "$rate"
}

report_lookup()
{
	table ms "Milliseconds for $lookups lookups"
	bars ms "Milliseconds for $lookups lookups"
	ratios ms "Time" hash btree heap
	table "lookups/s" "Lookups a second"
	bars "lookups/s" "Lookups a second"
	ratios "lookups/s" "Lookups a second" hash btree
	table "lookups/s" "Lookups a second ÷ those of one client" -v across="1 client"
}

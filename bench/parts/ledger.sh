# shellcheck shell=bash disable=SC2034,SC2154
# many short sessions: a count kept on pages, as built, beside a counter in each backend, simulated
#
# The table is filled by sessions that connect, insert a few rows in one statement, and leave.
# Then lazyhash_stats() tells what the index has grown to.  Beside it ledger.py simulates what it
# would be like, did each backend count for itself and tell the metapage of 64 rows at a time: the
# rest is lost as it leaves.  It simulates the ledger as well, which shows how far its figures can
# be relied upon: "as built" has the sign of fullness besides, which brings splits on earlier.
#
# Of aborts and crashes there is nothing to measure.  Rows of aborted transactions are in the index,
# and counted, either way.  A crash loses up to 63 rows of each backend's counter, and of the
# ledger none: it is in the pages that were logged.

part_ledger()
{
	take_turns 1 1 lazyhash
	session_rows="1 5 20 60 100 1000"
	batch=64
	bench_server ledger
	describe "Many short sessions: the ledger, and a counter in each backend" \
		"Sessions of so many rows each fill an index from nothing; batch = $batch." \
		"\"as built\" is measured, the others are simulated. The metapage is told of every row," \
		"or by pages of what they hold (ledger), or by each session whenever it has $batch" \
		"(counter); splits come by that count alone. With counter+overflow, an overflow page that" \
		"has to be added has its session tell what it has counted, and brings on two splits, if" \
		"the count says that buckets are a third full; with counter+unbounded whatever the count" \
		"says, but then nothing bounds what chains of equal keys ask for."
	# each round measures and simulates
	contestants=sessions
	alternate try_sessions
	report_ledger
}

# sessions_a_client ROWS-A-SESSION: how many sessions each of the two clients has, one after the
# other; with few rows each, they would take too long for all the rows.
sessions_a_client()
{
	local most sessions
	most=$(size 7500 500)
	sessions=$(($(size 100000 25000) / $1))

	echo "$((sessions < most ? sessions : most))"
}

# Each measurement leaves the number of entries and the fill factor for the simulation.
try_sessions()
{
	local each sessions entries ffactor

	for each in $session_rows; do
		sessions=$(sessions_a_client "$each")
		measure_sessions "$each" "$sessions"
		simulate_sessions "$each" "$entries"
	done
}

# measure_sessions ROWS-A-SESSION SESSIONS-A-CLIENT
measure_sessions()
{
	local buckets pages longest pending

	new_table "lazyhash:batch=$batch" | sql
	echo "INSERT INTO t SELECT (random() * 9e18)::int8 FROM generate_series(1, $1);" \
		>"$workdir/session.sql"
	transactions_a_second lazyhash bench 2 --connect -t "$2" -f "$workdir/session.sql" >/dev/null
	read -r entries buckets pages longest pending ffactor < <(sql <<-'END'
		SELECT entries, buckets, pages_per_lookup, longest_chain, pending, ffactor
		FROM lazyhash_stats('t_k');
	END
	)
	[ "$entries" = "$((2 * $1 * $2))" ] || fail "$entries entries, not $((2 * $1 * $2))"
	record "as built" "$1" "rows" "$entries"
	record "as built" "$1" "buckets" "$buckets"
	record "as built" "$1" "pages a lookup" "$pages"
	record "as built" "$1" "longest chain" "$longest"
	record "as built" "$1" "% not told" "$(divide "$((100 * pending))" "$entries")"
}

# simulate_sessions ROWS-A-SESSION ROWS
simulate_sessions()
{
	local capacity name metric value
	capacity=$(sql <<<"SELECT entries + room FROM lazyhash_page_info('t_k', 1)")

	while IFS=, read -r name metric value; do
		record "$name" "$1" "$metric" "$value"
	done < <(python3 "$bench_dir/parts/ledger.py" --capacity "$capacity" --ffactor "$ffactor" \
		--batch "$batch" --seed "$round" "$1" "$2")
}

report_ledger()
{
	table "pages a lookup" "Pages a lookup reads, by rows a session"
	plot_settings="set logscale xy" plot_from=0.9 \
		lines "pages a lookup" "Pages a lookup reads" "rows a session"
	table "longest chain" "Pages of the longest chain, by rows a session"
	table "buckets" "Buckets, by rows a session"
	plot_settings="set logscale x" lines "buckets" "Buckets" "rows a session"
	table "% not told" "Rows that the metapage has not been told of, %, by rows a session"
	table "rows" "Rows in all, by rows a session"
}

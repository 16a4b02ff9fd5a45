#!/usr/bin/env bash
#
# lazyhash beside the built-in hash and btree, on data made here, in about two minutes:
#
#     bench/demo.sh
#
# On a fresh Debian machine, as root, it installs what is missing; as another user it says what to
# install.  It builds lazyhash, installs it into a private copy of the server in a temporary
# directory, and removes all of it at the end, also after ctrl-C.  PostgreSQL as installed on the
# machine, and clusters that exist, are not touched.
#
# The data are the same in every run: a million visits to web pages, each with the page's URL (60 to
# 90 bytes) and the visitor's UUID, and some more that are inserted later.  For each of both
# columns:
#
#     build     CREATE INDEX on the million rows, and the size of what it made
#     lookup    500,000 random rows found by an index nested loop join
#     insert    new rows, 1,000 a statement, into a table with a million rows and that one index
#     WAL       bytes that the index adds to the log for each of these rows (those of the same table
#               without index are taken off), between checkpoints
#
# Contestants take turns; figures are medians of three (WAL: of all runs).
#
# From the environment, besides what ../scripts/lib.sh takes:
#     CONTESTANTS   default "lazyhash hash btree"
#     ROWS          default 1000000

set -euo pipefail
# shellcheck source=bench/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

contestants=${CONTESTANTS:-lazyhash hash btree}
rows=${ROWS:-1000000}
lookups=$((rows / 2))
rounds=3
# one run of a writer inserts this much; there is a run to warm up, then 1 and 2 writers in each
# round
new_rows=$((rows / 10 / 2000 * 2000))
[ "$new_rows" -gt 0 ] || fail "ROWS must be at least 20000"
step=0

# progress TEXT...
progress()
{
	printf '%4ds  %s\n' "$SECONDS" "$*" >&2
}

# The visits.  Everything is taken from bits of a hash of the row's number: the same in every run.
make_data()
{
	progress "making $rows URLs and UUIDs, and $((new_rows * (2 * rounds + 1))) to insert later"
	sql <<-'END'
		-- a choice among n by some bits of h; with pick_few the first are chosen much more often
		CREATE FUNCTION pick(h bigint, bits int, n int) RETURNS int LANGUAGE sql IMMUTABLE
		RETURN 1 + ((h >> bits) & 4095)::int % n;
		CREATE FUNCTION pick_few(h bigint, bits int, n int) RETURNS int LANGUAGE sql IMMUTABLE
		RETURN 1 + (n * ((h >> bits) & 4095)::int * ((h >> bits) & 4095)::int) / (4096 * 4096);

		CREATE FUNCTION visits(first bigint, last bigint)
		RETURNS TABLE (id bigint, url text, uuid uuid) LANGUAGE sql IMMUTABLE AS $$
			SELECT n, 'https://'
				|| (ARRAY['www', 'www', 'www', 'shop', 'news', 'm', 'blog', 'docs'])[pick(h, 0, 8)]
				|| '.' || (ARRAY['north', 'river', 'blue', 'open', 'daily', 'metro', 'green',
					'pixel'])[pick_few(h, 3, 8)]
				|| (ARRAY['market', 'press', 'travel', 'garden', 'sports', 'recipes'])
					[pick_few(h, 12, 6)]
				|| (ARRAY['.com', '.com', '.org', '.net', '.de', '.io'])[pick(h, 20, 6)]
				|| '/' || (ARRAY['articles', 'products', 'categories', 'reviews', 'archives'])
					[pick(h, 24, 5)]
				|| '/' || 2016 + pick(h, 29, 9) || '/' || 10 + pick(h, 33, 2)
				|| '/' || (ARRAY['seven', 'quiet', 'modern', 'simple', 'best', 'hidden'])
					[pick(h, 37, 6)]
				|| '-' || (ARRAY['kitchens', 'journeys', 'gadgets', 'stories', 'lessons'])
					[pick(h, 41, 5)]
				|| '-' || lpad(n::text, 8, '0')
				|| (ARRAY['', '.html', '?page=2', '?ref=newsletter'])[pick(h, 46, 4)],
				overlay(overlay(md5('visitor ' || n) PLACING '4' FROM 13) PLACING 'a' FROM 17)::uuid
			FROM (SELECT n, hashint8extended(n, 1) AS h
			      FROM generate_series(first, last) n OFFSET 0) numbers
		$$;
	END
	sql <<-END &
		CREATE TABLE news AS
		SELECT id - $rows AS id, url COLLATE "C" AS url, uuid
		FROM visits($rows + 1, $rows + $new_rows * (2 * $rounds + 1));
		ALTER TABLE news ADD PRIMARY KEY (id);
	END
	sql <<-END
		CREATE TABLE visits AS
		SELECT id, url COLLATE "C" AS url, uuid FROM visits(1, $rows);
		CREATE TABLE wanted AS
		SELECT url, uuid FROM visits ORDER BY hashint8extended(id, 2) LIMIT $lookups;
	END
	wait $!
	sql <<<"VACUUM (FREEZE, ANALYZE) visits, news, wanted"
	[ "$(sql <<<"SELECT min(length(url)) >= 60 AND max(length(url)) <= 90 FROM visits")" = t ] ||
		fail "the URLs are not as long as they should be"
}

# note COLUMN METRIC CONTESTANT VALUE
note()
{
	printf '%s %s %s %s\n' "$@" >>"$workdir/notes"
}

# The answer that a lookup must give, found without an index.
true_answer()
{
	sql <<-END
		SET enable_nestloop = off;
		SELECT sum(v.id) FROM wanted w JOIN visits v ON v.$1 = w.$1;
	END
}

# build_and_look_up CONTESTANT COLUMN: build and lookup, one round.
build_and_look_up()
{
	local contestant=$1 column=$2 build answer ms

	progress "$column: round $round of $rounds, build and look up, $contestant"
	build=$(sql <<-END
		CHECKPOINT;
		SELECT extract(epoch FROM clock_timestamp()) AS start \gset
		$(create_index "$contestant" probe visits "$column")
		SELECT extract(epoch FROM clock_timestamp()) - :start;
	END
	)
	note "$column" build "$contestant" "$build"
	note "$column" size "$contestant" "$(sql <<<"SELECT pg_relation_size('probe') / 1048576.0")"
	read -r answer ms < <(PGOPTIONS=$nested_loop sql <<-END
		SELECT inner_plan('SELECT sum(v.id) FROM (SELECT $column FROM wanted LIMIT 100) w
			JOIN visits v ON v.$column = w.$column', 'Index Scan') \g /dev/null
		SELECT *
		FROM timed('SELECT sum(v.id) FROM wanted w JOIN visits v ON v.$column = w.$column');
	END
	)
	[ "$answer" = "$truth" ] ||
		fail "$contestant gave $answer on $column, reading the table gives $truth"
	note "$column" lookup "$contestant" "$ms"
	if [ "$round" = "$rounds" ] && [ "$(method_of "$contestant")" = lazyhash ]; then
		sql <<<"SELECT lazyhash_check('probe', true)" >/dev/null
	fi
	sql <<<"DROP INDEX probe"
}

# A table with a million keys and the one index, for the inserts.
make_target()
{
	local table
	table=${2}_$(name_of "$1")

	sql <<-END
		CREATE TABLE "$table" AS SELECT $2 AS key FROM visits;
		$(create_index "$1" "\"${table}_key\"" "\"$table\"" key)
		VACUUM (FREEZE, ANALYZE) "$table";
	END
}

# insert CONTESTANT COLUMN WRITERS: inserts the next of the new rows; notes rate and bytes of the
# log. The pages that a checkpoint leaves to be logged whole were logged in the first run, of no
# writers.
insert_rows()
{
	local contestant=$1 column=$2 writers=$3 table each rate start bytes
	table=${2}_$(name_of "$1")

	each=$((new_rows / rows_a_statement / (writers ? writers : 1)))
	cat >"$workdir/insert.sql" <<-END
		\set from 1 + $step * $new_rows + (:client_id * $each + :n) * $rows_a_statement
		INSERT INTO "$table" SELECT $column FROM news
		WHERE id >= :from AND id < :from + $rows_a_statement;
		\set n :n + 1
	END
	start=$(wal_position)
	rate=$(transactions_a_second "$contestant" bench "$((writers ? writers : 1))" -t "$each" \
		-D n=0 -f "$workdir/insert.sql")
	[ "$writers" -gt 0 ] || return 0
	read -r bytes _ < <(wal_since "$start")
	note "$column" "insert$writers" "$contestant" \
		"$(awk "BEGIN { print $rate * $rows_a_statement }")"
	note "$column" wal "$contestant" "$(divide "$bytes" "$((each * writers * rows_a_statement))")"
}

# One round of inserts for all contestants: the same rows for each.
insert_round()
{
	case $2 in
		0) progress "$1: inserting, to warm up" ;;
		*) progress "$1: inserting, writers: $2" ;;
	esac
	for_contestants insert_rows "$1" "$2"
	step=$((step + 1))
}

insert_all()
{
	local column=$1 everyone="heap $contestants" order first

	step=0
	progress "$column: a table with one index for each contestant"
	contestants=$everyone for_contestants make_target "$column"
	sql <<<CHECKPOINT
	contestants=$everyone insert_round "$column" 0
	order=$everyone
	for ((round = 1; round <= rounds; round++)); do
		contestants=$order insert_round "$column" 1
		contestants=$order insert_round "$column" 2
		first=${order%% *}
		order="${order#* } $first"
	done
}

# The tables that were inserted into hold the same rows, and each index finds them.
verify_inserts()
{
	local column=$1 contestant table got wanted total="$((new_rows * (2 * rounds + 1)))"
	local contents="SELECT count(*) || '/' || sum(hashtextextended(key::text, 0)) FROM"

	wanted=$(sql <<<"$contents ${column}_heap")
	for contestant in $contestants; do
		table=${column}_$(name_of "$contestant")
		got=$(sql <<<"$contents \"$table\"")
		[ "$got" = "$wanted" ] || fail "$table holds $got, not $wanted"
		got=$(sql <<-END
				SELECT count(*) FROM news n JOIN "$table" t ON t.key = n.$column;
		END
		)
		[ "$got" = "$total" ] ||
			fail "$contestant finds $got of the $total rows inserted into $table"
		if [ "$(method_of "$contestant")" = lazyhash ]; then
			sql <<<"SELECT lazyhash_check('\"${table}_key\"', true)" >/dev/null
		fi
	done
}

print_table()
{
	printf '\n%s rows; %s; PostgreSQL %s; %s cores, %s\n\n' "$rows" "data in memory" \
		"$(sql <<<'SHOW server_version')" "$(nproc)" \
		"$(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)"
	sort -k 1,1 -k 2,2 -k 3,3 -k 4,4g "$workdir/notes" | awk -v contestants="$contestants" '
		function flush(    m) {
			if (n) {
				m = n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
				median[key] = m
			}
			n = 0
		}
		{
			k = $1 " " $2 " " $3
			if (k != key) { flush(); key = k }
			v[++n] = $4
		}
		END {
			flush()
			printf "%-5s %-18s %8s %8s %16s %16s %9s %12s\n", "", "", "build", "size",
				"insert, 1 writer", "2 writers", "WAL", "500k lookups"
			printf "%-5s %-18s %8s %8s %16s %16s %9s %12s\n", "", "", "s", "MB", "rows/s", "rows/s",
				"bytes/row", "ms"
			split("url uuid", column, " ")
			m = split(contestants, name, " ")
			for (i = 1; i <= 2; i++)
				for (j = 1; j <= m; j++) {
					c = column[i]; a = name[j]
					printf "%-5s %-18s %8.2f %8.1f %16d %16d %9.0f %12.0f\n", j == 1 ? c : "", a,
						median[c " build " a], median[c " size " a], median[c " insert1 " a],
						median[c " insert2 " a], median[c " wal " a] - median[c " wal heap"],
						median[c " lookup " a]
				}
		}' | sed "s/500k lookups/$((lookups / 1000))k lookups/"
	printf '\n'
}

start()
{
	progress "preparing a private copy of the server"
	need_packages
	make_workdir
	private_server
	if uses_lazyhash; then
		progress "building lazyhash"
		build_and_install
	fi
	progress "starting a server in $workdir"
	bench_server demo
}

main()
{
	local checked="" column truth

	start
	make_data
	for column in url uuid; do
		truth=$(true_answer "$column")
		alternate build_and_look_up "$column"
		insert_all "$column"
		verify_inserts "$column"
	done
	print_table
	! uses_lazyhash ||
		checked="; lazyhash_check, with each row looked up, passed on all indexes of lazyhash"
	printf 'Verified: %s gave the answers that reading the table gives, for both columns, on %s\n' \
		"${contestants// /, }" "built indexes and after the inserts$checked."
	printf 'It took %d seconds.\n' "$SECONDS"
}

main

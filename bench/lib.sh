# shellcheck shell=bash disable=SC2154
#
# What the benchmarks share: contestants and how to alternate them, the servers that they run on,
# writers, recording, and from the records tables and plots.  What is measured is in parts/;
# servers, builds and cleaning up are in ../scripts/lib.sh.
#
# A contestant is written METHOD[:OPTION,...]: an access method, or "heap" for no index at all.  The
# option "generic" makes lazyhash log with generic WAL records; NAME=VALUE is a storage parameter of
# the index.  Thus "lazyhash:generic", "lazyhash:batch=1", "hash".
#
# From the environment:
#     CONTESTANTS   overrides the contestants of a part
#     ROUNDS        overrides the number of alternations

bench_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
. "$bench_dir/../scripts/lib.sh"

# Rows that a writer inserts in one statement.
rows_a_statement=1000

# Server options that leave no plan for a join but a nested loop with an index scan, or a TID scan,
# inside.
nested_loop="-c enable_hashjoin=off -c enable_mergejoin=off -c enable_material=off"
nested_loop+=" -c enable_memoize=off -c enable_bitmapscan=off -c enable_indexonlyscan=off"

# ---- contestants ----

# method_of CONTESTANT, options_of CONTESTANT: the parts of its name, options separated by blanks.
method_of()
{
	printf '%s\n' "${1%%:*}"
}

options_of()
{
	case $1 in *:*) printf '%s\n' "${1#*:}" | tr ',' ' ' ;; esac
}

# Prints CONTESTANT as a name for a database or a file.
name_of()
{
	printf '%s\n' "$1" | tr ':,=' '___'
}

# Prints the server options, as in PGOPTIONS, that sessions of CONTESTANT run with.
session_options()
{
	case " $(options_of "$1") " in *" generic "*) printf '%s' '-c lazyhash.wal=generic' ;; esac
}

# create_index CONTESTANT NAME TABLE COLUMN: prints the statement that makes its index; none for
# heap.
create_index()
{
	local option parameters=

	[ "$1" != heap ] || return 0
	for option in $(options_of "$1"); do
		case $option in *=*) parameters+="${parameters:+, }$option" ;; esac
	done
	printf 'CREATE INDEX %s ON %s USING %s (%s)%s;\n' "$2" "$3" "$(method_of "$1")" "$4" \
		"${parameters:+ WITH ($parameters)}"
}

# new_table CONTESTANT: prints the SQL that makes an empty table t, with the contestant's index.
new_table()
{
	echo "SET client_min_messages = warning; DROP TABLE IF EXISTS t; CREATE TABLE t (k int8);"
	create_index "$1" t_k t k
	echo "CHECKPOINT;"
}

# for_contestants FUNCTION [ARGUMENT...]: calls it with each contestant as its first argument.
for_contestants()
{
	local function=$1 contestant
	shift

	for contestant in $contestants; do
		"$function" "$contestant" "$@"
	done
}

# alternate FUNCTION [ARGUMENT...]: the same, $rounds times over.  Each round starts with another
# contestant, so that none of them is always measured in the same place.  Sets $round.
alternate()
{
	local order=$contestants first

	for ((round = 1; round <= rounds; round++)); do
		contestants=$order for_contestants "$@"
		first=${order%% *}
		[ "$first" = "$order" ] || order="${order#* } $first"
	done
}

# ---- sizes ----

# size FULL QUICK: prints the one that this run works with.
size()
{
	if [ -n "${quick:-}" ]; then echo "$2"; else echo "$1"; fi
}

# take_turns ROUNDS QUICK-ROUNDS CONTESTANT...: sets $rounds and $contestants, unless the
# environment does.
take_turns()
{
	rounds=${ROUNDS:-$(size "$1" "$2")}
	shift 2
	contestants=${CONTESTANTS:-$*}
}

# ---- servers ----

# uses_lazyhash: whether any contestant of this run is lazyhash, which must be built then.
uses_lazyhash()
{
	case " $contestants" in *" lazyhash"*) ;; *) return 1 ;; esac
}

# Settings of every server here.  The last lines of a file win, so that a part can add its own.
server_settings()
{
	local memory wal

	# no checkpoint comes between, if there is space for it
	wal=$(df -Pm "$workdir" | awk 'NR == 2 { m = int($4 / 3); print m < 8192 ? m : 8192 }')
	# a quarter of the memory, at most 4 GB, for buffers: the data fits
	memory=$(awk '/^MemTotal/ { m = int($2 / 4096); print m < 4096 ? m : 4096 }' /proc/meminfo)
	cat <<-END
		shared_buffers = ${memory}MB
		huge_pages = off
		max_connections = 100
		synchronous_commit = off
		autovacuum = off
		wal_level = replica
		max_wal_size = ${wal}MB
		min_wal_size = 1GB
		wal_buffers = 64MB
		checkpoint_timeout = 1h
		bgwriter_lru_maxpages = 0
		maintenance_work_mem = 512MB
		max_parallel_workers_per_gather = 0
		max_parallel_maintenance_workers = 0
		jit = off
		log_checkpoints = off
	END
	! uses_lazyhash || echo "shared_preload_libraries = 'lazyhash'"
}

# bench_server NAME [LINE...]: a fresh server with the settings above and those given.  Its template
# database has what every database here needs.
bench_server()
{
	local name=$1 lines
	shift

	mapfile -t lines < <(server_settings)
	start_server "$name" "${lines[@]}" "$@"
	PGDATABASE=template1 prepare_database
	sql <<<'CREATE DATABASE bench'
	export PGDATABASE=bench
}

# The extensions and functions that measurements call.
prepare_database()
{
	sql -f "$bench_dir/functions.sql"
	! uses_lazyhash || sql <<<'CREATE EXTENSION lazyhash'
}

# sql [ARGUMENT...]: runs what standard input or the arguments say; prints bare values.
sql()
{
	psql -XAtq -F ' ' -v ON_ERROR_STOP=1 "$@"
}

# sql_of CONTESTANT DATABASE: the same on a database, with the contestant's server options.
sql_of()
{
	PGOPTIONS="${PGOPTIONS:-} $(session_options "$1")" PGDATABASE=$2 sql
}

# make_filled CONTESTANT ROWS: makes the contestant's own database, with a table t and its index on
# it, filled with so many rows by writers, as the index of a table that has grown.
make_filled()
{
	local database
	database=$(name_of "$1")

	say "[$part] $1: an index of $2 rows, filled by writers"
	sql <<<"CREATE DATABASE \"$database\""
	{
		echo "CREATE TABLE t (k int8);"
		create_index "$1" t_k t k
	} | sql_of "$1" "$database"
	write_rows "$1" "$database" 2 "$2" >/dev/null
	sql_of "$1" "$database" <<<"VACUUM (FREEZE, ANALYZE) t"
}

# use_copy CONTESTANT: makes the database "run" a fresh copy of the contestant's own database, all
# of it in shared buffers: each round then starts from the same bytes.
use_copy()
{
	sql <<-END
		DROP DATABASE IF EXISTS run;
		CREATE DATABASE run TEMPLATE "$(name_of "$1")" STRATEGY file_copy;
	END
	warm run
}

# Reads all of a database's tables and indexes into shared buffers.
warm()
{
	PGDATABASE=$1 sql <<-'END' >/dev/null
		SELECT sum(pg_prewarm(oid)) FROM pg_class
		WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace;
	END
}

# write_rows CONTESTANT DATABASE WRITERS ROWS: has so many random int8 inserted into the table t, in
# statements of 1,000, by so many sessions; prints rows a second.
write_rows()
{
	local each=$(($4 / rows_a_statement / $3))

	[ "$each" -gt 0 ] || each=1
	cat >"$workdir/insert.sql" <<-END
		INSERT INTO t SELECT (random() * 9e18)::int8 FROM generate_series(1, $rows_a_statement);
	END
	transactions_a_second "$1" "$2" "$3" -t "$each" -f "$workdir/insert.sql" |
		awk -v rows="$rows_a_statement" '{ printf "%.0f\n", $1 * rows }'
}

# transactions_a_second CONTESTANT DATABASE CLIENTS ARGUMENT...: runs pgbench; prints its rate, the
# time for connecting left out.  All that pgbench has said is in $workdir/pgbench.out then.
transactions_a_second()
{
	local contestant=$1 database=$2 clients=$3 threads=$3 output
	shift 3

	[ "$threads" -le 2 ] || threads=2
	output=$(PGOPTIONS="${PGOPTIONS:-} $(session_options "$contestant")" pgbench -n -M prepared \
		-c "$clients" -j "$threads" "$@" "$database" 2>&1) ||
		{ printf '%s\n' "$output" >&2; fail "pgbench failed"; }
	case $output in
		*[Aa]borted*) printf '%s\n' "$output" >&2; fail "pgbench: a client was aborted" ;;
	esac
	printf '%s\n' "$output" >"$workdir/pgbench.out"
	sed -n 's/^tps = \([0-9.]*\) (without.*/\1/p' "$workdir/pgbench.out"
}

# wal_position: where the log ends.  wal_since POSITION: bytes of the records since then, with and
# without full-page images.
wal_position()
{
	sql <<<'SELECT pg_current_wal_insert_lsn()'
}

wal_since()
{
	# a commit that waits for the disk: what is not flushed cannot be read
	sql <<-END
		SET synchronous_commit = on;
		SELECT pg_logical_emit_message(true, 'bench', '') \g /dev/null
		SELECT sum(combined_size), sum(record_size)
		FROM pg_get_wal_stats('$1', pg_current_wal_flush_lsn());
	END
}

# divide A B: prints A / B.
divide()
{
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.6g\n", a / b }'
}

# ---- records ----

# start_part NAME: begins the records of a part, in $output_dir.
start_part()
{
	part=$1
	records=$output_dir/$part.csv
	report=$output_dir/$part.md
	echo "part,round,contestant,case,metric,value" >"$records"
	: >"$report"
}

# record CONTESTANT CASE METRIC VALUE: notes one measurement of this round, and shows it.
record()
{
	# a comma would be taken for the next field
	[[ $2$3 != *,* && $4 =~ ^-?[0-9.]+(e[-+]?[0-9]+)?$ ]] ||
		fail "not a measurement: $1, $2, $3: '$4'"
	printf '%s,%s,%s,%s,%s,%s\n' "$part" "$round" "$1" "$2" "$3" "$4" >>"$records"
	printf '[%s] round %s of %s  %-20s %-28s %-24s %12.10g\n' "$part" "$round" "$rounds" "$1" "$2" \
		"$3" "$4" >&2
}

# ---- reports ----

# table METRIC TITLE [AWK-ARGUMENT...]: a table of contestants (rows) by cases (columns).
table()
{
	local metric=$1 title=$2
	shift 2

	printf '\n### %s\n\n' "$title" >>"$report"
	awk -f "$bench_dir/summary.awk" -v mode=table -v metric="$metric" "$@" "$records" >>"$report"
}

# ratios METRIC TITLE BASE... : how each contestant compares with each base, in each case; in those
# that match the regular expression $only, if it is set.
ratios()
{
	local metric=$1 title=$2 base
	shift 2

	for base in "$@"; do
		case " $contestants " in *" $base "*) ;; *) continue ;; esac
		table "$metric" "$title ÷ $base" -v base="$base" -v cases="${only:-}"
	done
}

# bars METRIC TITLE [AWK-ARGUMENT...]: the table as a picture, with bars from least to most.
bars()
{
	local data=$workdir/plot.data title=$2

	plot_data "$data" "$@"
	plot "$1" "$title" <<-END
		set style data histogram
		set style histogram errorbars gap 1 linewidth 1
		set style fill solid 0.8
		set yrange [${plot_from:-0}:*]
		${plot_settings:-}
		set key outside right top
		$(style_of_contestants "$data" fill)
		set xtics rotate by -15
		plot for [i = 0:STATS_blocks-1] '$data' index i using 3:4:5:xtic(2) \
			title columnheader(1) linestyle (i + 1)
	END
}

# lines METRIC TITLE XLABEL [AWK-ARGUMENT...]: a line for each contestant, cases as numbers.
lines()
{
	local data=$workdir/plot.data title=$2 label=$3 metric=$1
	shift 3

	plot_data "$data" "$metric" "$title" "$@"
	plot "$metric" "$title" <<-END
		set xlabel "$label"
		set yrange [${plot_from:-0}:*]
		${plot_settings:-}
		set key outside right top
		$(style_of_contestants "$data" line)
		plot for [i = 0:STATS_blocks-1] '$data' index i using 2:3 with linespoints \
			title columnheader(1) linestyle (i + 1)
	END
}

# plot_data FILE METRIC TITLE [AWK-ARGUMENT...]: medians, least and most, a block a contestant.
plot_data()
{
	local file=$1 metric=$2
	shift 3

	awk -f "$bench_dir/summary.awk" -v mode=plot -v metric="$metric" "$@" "$records" >"$file"
}

# plot METRIC TITLE: draws what the gnuplot commands on standard input say, and puts the picture
# into the report.
plot()
{
	local file

	file=$(printf '%s' "$part-$2" | tr -cs 'A-Za-z0-9' '-' | tr '[:upper:]' '[:lower:]')
	file=${file%-}.svg
	{
		printf 'set terminal svg size 800,480 background "white" font "sans,13"\n'
		printf 'set output "%s"\nset title "%s"\nset ylabel "%s"\n' "$output_dir/$file" "$2" "$1"
		printf 'set grid ytics\nset datafile separator tab\n'
		printf 'stats "%s" using 3 nooutput\n' "$workdir/plot.data"
		cat
	} >"$workdir/plot.gnuplot"
	gnuplot "$workdir/plot.gnuplot" || fail "gnuplot failed on $file"
	printf '\n![%s](%s)\n' "$2" "$file" >>"$report"
}

# style_of_contestants DATA: a contestant has the same colour in every picture.
style_of_contestants()
{
	awk -F '\t' '
		BEGIN {
			colour["lazyhash"] = "#1b7837"; colour["lazyhash:generic"] = "#7fbf7b"
			colour["lazyhash:batch=1"] = "#bf812d"; colour["hash"] = "#b2182b"
			colour["btree"] = "#2166ac"; colour["heap"] = "#878787"; colour["TID join"] = "#878787"
			split("#762a83 #e08214 #35978f #dfc27d #4d4d4d #d6604d #92c5de", other, " ")
		}
		NF == 1 {
			n++
			hex = ($1 in colour) ? colour[$1] : other[++unknown]
			printf "set style line %d linecolor rgb \"%s\" linewidth 2 pointtype %d\n",
				n, hex, n + 3
		}' "$1"
}

# describe: says in the report what ran where, when and how.
describe()
{
	{
		printf '# %s\n\n' "$1"
		shift
		[ $# -eq 0 ] || printf '%s\n\n' "$*"
		printf -- '- machine: %s cores, %s GB memory, %s\n' "$(nproc)" \
			"$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)" \
			"$(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)"
		printf -- '- system: %s, %s\n' "$(. /etc/os-release && echo "$PRETTY_NAME")" "$(uname -r)"
		printf -- '- server: %s; its files in %s\n' "$(sql <<<'SELECT version()')" \
			"$(df --output=fstype "$workdir" | tail -n 1)"
		printf -- '- settings: %s\n' "$(sql <<-'END'
			SELECT string_agg(name || ' = ' || current_setting(name), ', ' ORDER BY name)
			FROM pg_settings
			WHERE source = 'configuration file' AND name IN ('shared_buffers', 'fsync',
				'synchronous_commit', 'autovacuum', 'wal_level', 'full_page_writes', 'max_wal_size',
				'checkpoint_timeout', 'wal_buffers', 'shared_preload_libraries',
				'maintenance_work_mem');
		END
		)"
		printf -- '- date: %s; load before: %s\n' "$(date -u '+%Y-%m-%d %H:%M UTC')" \
			"$(cut -d ' ' -f 1-3 /proc/loadavg)"
		printf -- '- contestants: %s; alternations: %s\n' "$contestants" "$rounds"
		printf '\nEach figure is the median of the alternations, with the least and the most in '
		printf 'brackets.\nA ratio is the median of the ratios within each alternation.\n'
	} >>"$report"
}

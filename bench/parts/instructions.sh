# shellcheck shell=bash disable=SC2154
# instructions that a lookup and an insert take, counted by callgrind
#
# A single-user server runs under valgrind, once with few operations and once with many: what the
# many take more, divided by how many they are more, is what one takes, start and planning left out.
# The count hardly depends on what else the machine does.  "heap" is the same without the index: the
# insert into the table alone, the join by TID.  What a contestant takes beyond that is its own.

part_instructions()
{
	take_turns 3 1 lazyhash lazyhash:generic hash btree heap
	rows=$(size 1000000 200000)
	few=2000
	many=$(size 22000 12000)
	bench_server instructions "shared_buffers = 512MB"
	describe "Instructions" "An index of $rows random int8, grown row by row." \
		"The difference between $few and $many operations, divided by $((many - few))."
	for_contestants make_instruction_databases
	stop_server instructions
	alternate count_instructions
	report_instructions
}

# A database for each of the four runs, as runs change it.
make_instruction_databases()
{
	local database run
	database=$(name_of "$1")

	make_filled "$1" "$rows"
	sql_of "$1" "$database" <<-END
		CREATE TABLE few AS SELECT k, ctid AS tid FROM t ORDER BY random() LIMIT $few;
		CREATE TABLE many AS SELECT k, ctid AS tid FROM t ORDER BY random() LIMIT $many;
		CREATE TABLE few_new AS SELECT (random() * 9e18)::int8 AS k FROM generate_series(1, $few);
		CREATE TABLE many_new AS SELECT (random() * 9e18)::int8 AS k FROM generate_series(1, $many);
		VACUUM (FREEZE, ANALYZE);
	END
	for run in few many; do
		sql <<<"CREATE DATABASE \"${database}_$run\" TEMPLATE \"$database\" STRATEGY file_copy"
	done
}

count_instructions()
{
	local join="SELECT count(*) FROM @ keys JOIN t ON t.k = keys.k"

	[ "$1" != heap ] || join="SELECT count(*) FROM @ keys JOIN t ON t.ctid = keys.tid"
	record_instructions "$1" lookup "$join"
	record_instructions "$1" insert "INSERT INTO t SELECT k FROM @_new"
}

# record_instructions CONTESTANT CASE COMMAND: @ in the command is the table to work through.
record_instructions()
{
	local a b
	a=$(instructions_of "$1" few "$3")
	b=$(instructions_of "$1" many "$3")

	record "$1" "$2" instructions "$(((b - a) / (many - few)))"
}

# instructions_of CONTESTANT few|many COMMAND: what a single-user server that runs it takes.
instructions_of()
{
	local out=$workdir/callgrind.out log=$workdir/callgrind.log options
	read -ra options <<<"$nested_loop $(session_options "$1")"

	printf '%s\n' "${3//@/$2}" |
		run_as valgrind --tool=callgrind --callgrind-out-file="$out" --log-file=/dev/null \
			"$bindir/postgres" --single -D "$(data_dir instructions)" "${options[@]}" \
			"$(name_of "$1")_$2" >"$log" 2>&1
	! grep -q ERROR "$log" || { cat "$log" >&2; fail "the single-user server reports an error"; }
	sed -n 's/^totals: //p' "$out"
	rm -f "$out"
}

report_instructions()
{
	table instructions "Instructions an operation, all in all"
	bars instructions "Instructions an operation"
	table instructions "Instructions an operation, those without index taken off" -v minus=heap
	ratios instructions "All in all" hash btree
	table instructions "Without those of the heap ÷ hash" -v minus=heap -v base=hash
	table instructions "Without those of the heap ÷ btree" -v minus=heap -v base=btree
}

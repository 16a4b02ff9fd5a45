# Inserts, updates, deletes, lookups, VACUUM in parallel, VACUUM FULL, CREATE INDEX CONCURRENTLY and
# REINDEX CONCURRENTLY at the same time, with commits, rollbacks and savepoints, on a table with
# indexes of different parameters.  Afterwards each key is found in each index as reading the table
# finds it, the checker finds nothing to complain of, the same on a standby that has verified every
# page that it replayed, and again after that standby's promotion.  All of it in both WAL modes.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;
use LazyStress;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $keys = 3000;

# Each index has a column to itself, so that the planner has no choice: column, its key, parameters,
# and the keys to ask for besides those that are there.
my @index = (
	[ k1 => 'batch = 1, fillfactor = 10' ],
	[ k64 => 'batch = 64, fillfactor = 75' ],
	[ kmax => 'batch = 406, fillfactor = 100' ],
	[ low => 'fillfactor = 75' ],
	[ word => 'fillfactor = 50' ],
	[ part => 'fillfactor = 30' ],);
my %others = (
	low => 'generate_series(-1, 12)',
	word => "'key ' || generate_series(-5, $keys + 5)",);
my %predicate = (part => 'payload % 2 = 0');

sub make_table
{
	my ($node) = @_;
	my $sql =
	  'CREATE TABLE s (id bigserial, k1 int, k64 int, kmax int, low int, word text, part int,'
	  . " payload int DEFAULT 0, filler text DEFAULT repeat('x', 40)) WITH (fillfactor = 70);\n";

	foreach my $index (@index)
	{
		my ($column, $parameters) = @$index;
		my $where = $predicate{$column} ? "WHERE $predicate{$column}" : '';
		$sql .= "CREATE INDEX s_$column ON s USING lazyhash ($column) WITH ($parameters) $where;\n";
	}
	# to find a row to change without a scan of the table
	$sql .= "CREATE INDEX s_id ON s (id);\n";
	$sql .= <<SQL;
CREATE FUNCTION add(key int, n int) RETURNS void LANGUAGE sql AS
\$\$INSERT INTO s (k1, k64, kmax, low, word, part, payload)
SELECT k, k, k, k % 10, 'key ' || k, k, k + i
FROM generate_series(1, n) i, LATERAL (SELECT (key + i * 7) % $keys AS k) x\$\$;
SELECT add(0, 2000);
SQL
	$node->safe_psql('postgres', $sql);
	return;
}

# Only what is left standing at the end is committed: rollbacks and savepoints are frequent.
my $insert = <<SQL;
\\set key random(0, @{[ $keys - 1 ]})
\\set n random(1, 12)
\\set fate random(1, 10)
BEGIN;
SELECT add(:key, :n);
SAVEPOINT a;
SELECT add(:key + 1, 2);
\\if :fate <= 3
ROLLBACK TO a;
\\elif :fate <= 5
RELEASE a;
\\endif
\\if :fate = 10
ROLLBACK;
\\else
COMMIT;
\\endif
SQL

my $update = <<SQL;
\\set row random(1, 20000)
\\set key random(0, @{[ $keys - 1 ]})
\\set fate random(1, 10)
BEGIN;
UPDATE s SET filler = 'hot' || :key WHERE id = :row;
UPDATE s SET k1 = :key, k64 = :key, kmax = :key, low = :key % 10, word = 'key ' || :key, part = :key
WHERE id = :row + 1;
\\if :fate = 1
SAVEPOINT b;
UPDATE s SET payload = payload + 1 WHERE id = :row + 2;
ROLLBACK TO b;
\\elif :fate <= 5
UPDATE s SET payload = payload + 1 WHERE id = :row + 2;
\\endif
\\if :fate = 10
ROLLBACK;
\\else
COMMIT;
\\endif
SQL

# by way of the indexes themselves, which marks entries of dead rows dead
my $delete = <<SQL;
\\set key random(0, @{[ $keys - 1 ]})
\\set fate random(1, 8)
BEGIN;
DELETE FROM s WHERE k64 = :key;
DELETE FROM s WHERE k1 = (:key + 11) % $keys AND payload % 3 = 0;
DELETE FROM s WHERE id IN (SELECT id FROM s WHERE low = :key % 10 LIMIT 10);
\\if :fate = 1
ROLLBACK;
\\else
COMMIT;
\\endif
SQL

# A row that does not have the key that was asked for would be an error.
my $select = <<SQL;
\\set key random(-10, $keys + 10)
SELECT 1 / (count(*) = count(*) FILTER (WHERE k1 + 0 = :key))::int FROM s WHERE k1 = :key;
SELECT 1 / (count(*) = count(*) FILTER (WHERE kmax + 0 = :key))::int FROM s WHERE kmax = :key;
SELECT 1 / (count(*) = count(*) FILTER (WHERE word || '' = 'key ' || :key))::int
FROM s WHERE word = 'key ' || :key;
SELECT 1 / (count(*) = count(*) FILTER (WHERE low + 0 = :key % 10))::int
FROM s WHERE low = :key % 10;
SQL

# On a standby nothing makes REINDEX CONCURRENTLY wait for a query that has looked the old index up
# in the catalog and is about to open it, whatever its access method.
my ($set_key, $queries) = split /\n/, $select, 2;
$queries =~ s/^SELECT/PERFORM/mg;
my $select_on_standby = <<SQL;
$set_key
DO \$\$
BEGIN
$queries
EXCEPTION WHEN internal_error THEN
	IF sqlerrm NOT LIKE 'could not open relation with OID %' THEN
		RAISE;
	END IF;
END
\$\$;
SQL

# slowly too, so that buckets are split while it is on its way
my $vacuum = <<SQL;
\\set cost random(50, 1000)
\\sleep 100 ms
SET vacuum_cost_delay = '1ms';
SET vacuum_cost_limit = :cost;
VACUUM (PARALLEL 2) s;
SQL

my $concurrently = <<SQL;
\\set full random(1, 4)
CREATE INDEX CONCURRENTLY s_new ON s USING lazyhash (part) WITH (fillfactor = 20);
SELECT lazyhash_check('s_new', true);
DROP INDEX CONCURRENTLY s_new;
REINDEX INDEX CONCURRENTLY s_low;
REINDEX INDEX CONCURRENTLY s_kmax;
SELECT lazyhash_check('s_k1', true);
\\if :full = 1
VACUUM FULL s;
\\endif
\\sleep 300 ms
SQL

sub same_as_table
{
	my ($node, $when) = @_;

	foreach my $index (@index)
	{
		my ($column) = @$index;
		is( wrong_keys(
				$node, 's', $column,
				$predicate{$column} || 'true',
				$others{$column} || "generate_series(-5, $keys + 5)"),
			'0',
			"all keys of $column are found on " . $node->name . ", $when");
	}
	return;
}

foreach my $mode ('generic', 'custom')
{
	my $primary = new_primary($mode, $mode, 'min_parallel_index_scan_size = 0');
	my $seconds = stress_seconds(7);

	install_comparison($primary);
	make_table($primary);
	my $standby = new_standby($primary);

	my $sum = run_loads(
		[
			$primary, 'mixed', stress_clients(8), $seconds,
			[
				[ insert => 5, $insert ],
				[ update => 5, $update ],
				[ delete => 2, $delete ],
				[ select => 3, $select ]
			]
		],
		[ $primary, 'vacuum', 1, $seconds, [ [ vacuum => 1, $vacuum ] ] ],
		[ $primary, 'concurrently', 1, $seconds, [ [ ddl => 1, $concurrently ] ] ],
		[ $standby, 'standby', 1, $seconds, [ [ select => 1, $select_on_standby ] ] ]);
	note("$mode: $sum transactions");

	same_as_table($primary, 'after the load');
	indexes_in_order($primary, 'after the load');
	ok(caught_up($primary, $standby), 'the standby has replayed everything');
	same_as_table($standby, 'after replay');
	indexes_in_order($standby, 'after replay');

	$primary->stop('immediate');
	$standby->promote;
	$standby->safe_psql('postgres',
		'SELECT add(100, 5000); DELETE FROM s WHERE k64 % 5 = 0; VACUUM s');
	same_as_table($standby, 'after promotion');
	indexes_in_order($standby, 'after promotion');
	no_crash($primary);
	no_crash($standby);
	$standby->stop('immediate');
}

done_testing();

# Serializable transactions that look rows up through lazyhash see no anomalies.
#
# Three rules that no transaction alone breaks, but two at once would under snapshot isolation:
# there is at most one row with a key; the rows of a counter are numbered without a double; no
# account is overdrawn. Each rests on lookups that find nothing, or not yet the row of the other
# transaction, so that it is the index that must tell of the conflict.  The tables start empty, and
# VACUUM runs: buckets split and chains are squeezed meanwhile.
#
# The server itself misses conflicts in one case, whatever the index, and without any.  It remembers
# as many committed transactions as ten times its connections.  When more commit while an older one
# is still running, it summarizes the first of them, and from then on no write takes notice of what
# those have read.  A client that an overloaded machine keeps waiting can bring that about.  So the
# server of this test remembers 20,000, and a rule broken though there was a summary is reported,
# but not taken for a fault of the index.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;
use LazyStress;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# transactions that may be prepared count like connections
my $node = new_primary('serializable', 'custom', "wal_consistency_checking = ''",
	'max_pred_locks_per_transaction = 256', 'max_prepared_transactions = 2000');

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE single (k int);
CREATE INDEX single_k ON single USING lazyhash (k) WITH (fillfactor = 10, batch = 4);
CREATE TABLE counter (k int, n int);
CREATE INDEX counter_k ON counter USING lazyhash (k) WITH (fillfactor = 10, batch = 4);
CREATE TABLE account (k int, amount int);
CREATE INDEX account_k ON account USING lazyhash (k) WITH (fillfactor = 20, batch = 16);
INSERT INTO account SELECT k, 50 FROM generate_series(0, 199) k;
-- rows that make the indexes grow
CREATE FUNCTION ballast(n int) RETURNS void LANGUAGE sql AS $$
INSERT INTO single SELECT (random() * 1e9)::int + 1000000 FROM generate_series(1, n);
INSERT INTO counter SELECT (random() * 1e9)::int + 1000000, 0 FROM generate_series(1, n);
INSERT INTO account SELECT (random() * 1e9)::int + 1000000, 0 FROM generate_series(1, n);
$$;
SQL

my $begin = <<'SQL';
BEGIN ISOLATION LEVEL SERIALIZABLE;
SET LOCAL enable_seqscan = off;
SQL

my $single = <<"SQL";
\\set k random(0, 3000)
$begin
SELECT count(*) AS present FROM single WHERE k = :k \\gset
\\if :present = 0
INSERT INTO single VALUES (:k);
\\endif
COMMIT;
SQL

# by a bitmap scan
my $counter = <<"SQL";
\\set k random(0, 50)
$begin
SET LOCAL enable_indexscan = off;
SELECT count(*) AS last FROM counter WHERE k = :k \\gset
INSERT INTO counter VALUES (:k, :last + 1);
COMMIT;
SQL

my $account = <<"SQL";
\\set k random(0, 199)
\\set amount random(5, 30)
$begin
SELECT sum(amount) AS balance FROM account WHERE k = :k \\gset
\\if :balance >= :amount
INSERT INTO account VALUES (:k, -:amount);
\\elif :balance < 10
INSERT INTO account VALUES (:k, 20);
\\endif
COMMIT;
SQL

# what others, not serializable, do to the same pages; never to rows that the rules are about
my $growth = <<'SQL';
SELECT ballast(150);
DELETE FROM single WHERE k IN (SELECT k FROM single WHERE k >= 1000000 LIMIT 100);
DELETE FROM account WHERE k IN (SELECT k FROM account WHERE k >= 1000000 LIMIT 60);
\sleep 10 ms
SQL

my $vacuum = <<'SQL';
\sleep 100 ms
VACUUM single, counter, account;
SQL

# That these scans use the index, and lock its pages rather than all of it, is what makes this a
# test.
foreach my $query (
	'SELECT count(*) FROM single WHERE k = 1',
	'SELECT count(*) FROM counter WHERE k = 1',
	'SELECT sum(amount) FROM account WHERE k = 1')
{
	my ($table) = $query =~ /FROM (\w+)/;
	my $out = $node->safe_psql('postgres',
		"$begin EXPLAIN (COSTS OFF) $query; $query; "
		  . 'SELECT locktype || relation::regclass::text FROM pg_locks'
		  . " WHERE mode = 'SIReadLock' ORDER BY 1; COMMIT");
	like($out, qr/(Index Scan using|Bitmap Index Scan on) ${table}_k/,
		"$table is looked up by index");
	like($out, qr/^page${table}_k$/m, "a page of ${table}_k is locked");
	unlike($out, qr/^relation/m, "a lookup in $table does not lock a whole relation");
}

my $seconds = stress_seconds(8);
run_loads(
	[
		$node, 'serializable', stress_clients(12), $seconds,
		[ [ single => 4, $single ], [ counter => 1, $counter ], [ account => 2, $account ] ]
	],
	[ $node, 'growth', 1, $seconds, [ [ growth => 1, $growth ] ] ],
	[ $node, 'vacuum', 1, $seconds, [ [ vacuum => 1, $vacuum ] ] ]);

# The server uses this cache for summaries alone.
my $summarized = $node->safe_psql('postgres',
	'SELECT sum(blks_zeroed + blks_hit + blks_read) > 0 FROM pg_stat_slru'
	  . " WHERE name ILIKE 'serial%'") eq 't';
note('committed transactions were summarized') if $summarized;

# Passes if the condition, by which keys show that a rule was broken, is true of no key.
sub is_kept
{
	my ($table, $broken, $rule) = @_;
	my $rows = $node->safe_psql('postgres',
		"SELECT xmin, xmax, ctid, * FROM $table WHERE k IN (SELECT k FROM $table"
		  . " WHERE k < 1000000 GROUP BY k HAVING $broken) ORDER BY k, xmin::text::bigint");

	diag("$rule? $table (xmin|xmax|ctid|columns):\n$rows") if $rows ne '';
  SKIP:
	{
		skip 'the server has summarized committed transactions', 1 if $rows ne '' && $summarized;
		ok($rows eq '', $rule);
	}
	return;
}

is_kept('single', 'count(*) > 1', 'no key was inserted by two transactions');
is_kept('counter', 'count(DISTINCT n) <> count(*) OR max(n) <> count(*)',
	'no two transactions counted the same');
is_kept('account', 'sum(amount) < 0', 'no account is overdrawn');
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM counter WHERE k < 1000000'),
	'>', 20, 'there was something to count');
my $failures = () = slurp_file($node->logfile) =~ /could not serialize access/g;
cmp_ok($failures, '>', 0, 'transactions did get into conflict');
note("serialization failures: $failures");

indexes_in_order($node, 'after the load');
no_crash($node);
$node->stop('immediate');

done_testing();

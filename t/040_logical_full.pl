# A subscriber whose only index is a lazyhash one gets every change of a table with REPLICA IDENTITY
# FULL, rows with NULL keys and rows that are equal included.
#
# From 17 on a subscriber may look for the old row in an index that is not a btree.  It then looks
# for NULLs as well, which no hash index has; what it does not find it leaves out without a word.
# So lazyhash does not offer itself for that.  The built-in hash, subscribed to the same changes, is
# there to show that this test notices: what it loses is told in a note.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $publisher = PostgreSQL::Test::Cluster->new('publisher');
$publisher->init(allows_streaming => 'logical');
$publisher->start;

my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init(allows_streaming => 'logical');
$subscriber->start;

my @tables = ('of_lazyhash', 'of_hash');
foreach my $node ($publisher, $subscriber)
{
	$node->safe_psql('postgres',
		join '', map { "CREATE TABLE $_ (k int, v text); ALTER TABLE $_ REPLICA IDENTITY FULL;" }
		  @tables);
}

# each has every third key NULL, and all rows twice
$publisher->safe_psql('postgres',
	"INSERT INTO $_ SELECT CASE WHEN i % 3 > 0 THEN i END, 'row ' || i"
	  . ' FROM generate_series(1, 300) i, generate_series(1, 2)')
  foreach @tables;
$publisher->safe_psql('postgres', 'CREATE PUBLICATION pub FOR ALL TABLES');

$subscriber->safe_psql('postgres', q{
	CREATE EXTENSION lazyhash;
	CREATE INDEX of_lazyhash_k ON of_lazyhash USING lazyhash (k) WITH (fillfactor = 10, batch = 8);
	CREATE INDEX of_hash_k ON of_hash USING hash (k);
});
$subscriber->safe_psql('postgres',
	"CREATE SUBSCRIPTION sub CONNECTION '" . $publisher->connstr
	  . " dbname=postgres' PUBLICATION pub");
$subscriber->wait_for_subscription_sync($publisher, 'sub');

sub rows_of
{
	my ($node, $table) = @_;
	return $node->safe_psql('postgres',
		"SELECT k, v, count(*) FROM $table GROUP BY k, v ORDER BY v COLLATE \"C\", k");
}

# Rows that one has and the other has not, both ways.
sub differences
{
	my ($table) = @_;
	my %count;

	$count{$_}++ foreach split /\n/, rows_of($publisher, $table);
	$count{$_}-- foreach split /\n/, rows_of($subscriber, $table);
	return scalar grep { $_ != 0 } values %count;
}

is(rows_of($subscriber, 'of_lazyhash'), rows_of($publisher, 'of_lazyhash'),
	'the rows to begin with');

foreach my $change (
	[ 'update of rows with and without a key',
		"UPDATE %s SET v = v || ' changed' WHERE v LIKE '%%5'" ],
	[ 'keys become NULL', 'UPDATE %s SET k = NULL WHERE k %% 7 = 0' ],
	[ 'NULL becomes a key', "UPDATE %s SET k = 1000 WHERE k IS NULL AND v LIKE '%%1%%'" ],
	[ 'one of two equal rows changes', q{UPDATE %1$s SET v = v || ' once' WHERE ctid IN
		(SELECT min(ctid) FROM %1$s GROUP BY k, v HAVING count(*) = 2)} ],
	[ 'rows with NULL keys are deleted', "DELETE FROM %s WHERE k IS NULL AND v LIKE '%%2%%'" ],
	[ 'rows with keys are deleted', 'DELETE FROM %s WHERE k < 100' ],
	[ 'new rows, and their update in one transaction', q{BEGIN;
		INSERT INTO %1$s SELECT nullif(i %% 4, 0), 'new ' || i FROM generate_series(1, 1000) i;
		UPDATE %1$s SET v = v || ' at once', k = k + 1 WHERE v LIKE 'new%%';
		DELETE FROM %1$s WHERE v LIKE 'new%%0 at once'; COMMIT} ])
{
	my ($name, $command) = @$change;

	$publisher->safe_psql('postgres', sprintf($command, $_)) foreach @tables;
	$publisher->wait_for_catchup('sub');
	is(rows_of($subscriber, 'of_lazyhash'), rows_of($publisher, 'of_lazyhash'), $name);
	my $lost = differences('of_hash');
	note("with the built-in hash, $lost rows differ") if $lost > 0;
}

cmp_ok($publisher->safe_psql('postgres', 'SELECT count(*) FROM of_lazyhash WHERE k IS NULL'),
	'>', 100, 'there were NULL keys to the end');
is($subscriber->safe_psql('postgres', "SELECT lazyhash_check('of_lazyhash_k', true)"), '',
	'the index of the subscriber is in order');

$subscriber->stop;
$publisher->stop;
done_testing();

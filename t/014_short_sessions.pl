# An index that is filled by many sessions, each of which ends after a handful of inserts, grows as
# one that a single session fills: what a page has not told the metapage yet is kept on the page,
# and does not end with the session.
#
# LAZYHASH_SHORT_SESSIONS in the environment is the number of sessions of 20 rows, by default 2000;
# with 50000 that is a million rows.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;
use LazyStress;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $sessions = $ENV{LAZYHASH_SHORT_SESSIONS} || 2000;
my $clients = 4;
my $rows = 20;
my $node = new_primary('sessions', 'custom', "wal_consistency_checking = ''",
	'synchronous_commit = off', 'log_connections = off', 'log_disconnections = off');

sub buckets
{
	my ($index) = @_;
	return $node->safe_psql('postgres',
		"SELECT maxbucket + 1 FROM lazyhash_metapage_info('$index')");
}

$node->safe_psql('postgres', <<'SQL');
CREATE SEQUENCE row;
CREATE TABLE many (k bigint);
CREATE INDEX many_k ON many USING lazyhash (k);
CREATE TABLE one (k bigint);
CREATE INDEX one_k ON one USING lazyhash (k);
SQL

# each transaction in a session of its own
my $file = $node->basedir . '/session.sql';
append_to_file($file, "INSERT INTO many SELECT nextval('row') FROM generate_series(1, $rows);\n");
command_ok(
	[
		'pgbench', '-n', '-C', '-c', $clients, '-j', $clients, '-t', $sessions / $clients,
		'-f', $file, $node->connstr('postgres')
	],
	'the sessions');
is( $node->safe_psql('postgres', 'SELECT count(*) FROM many'),
	$sessions * $rows, "each of $sessions sessions has inserted $rows rows");

# the same keys, row by row, in one session
$node->safe_psql('postgres',
	'DO $$ DECLARE key bigint; BEGIN FOR key IN SELECT k FROM many LOOP'
	  . ' INSERT INTO one VALUES (key); END LOOP; END $$');

my ($many, $one) = (buckets('many_k'), buckets('one_k'));
note("$many buckets by many sessions, $one by one");
cmp_ok($one, '>', 0.8 * $sessions * $rows / 813, 'the index of one session has split its buckets');
cmp_ok(abs($many - $one), '<=', 0.05 * $one, "$many buckets by many sessions, $one by one");
indexes_in_order($node, 'after the sessions');
no_crash($node);
$node->stop('immediate');

done_testing();

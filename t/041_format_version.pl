# An index whose metapage bears an on-disk version or features that the library does not know is
# left alone: whoever touches it is told so, and what to do.  REINDEX and DROP INDEX work.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# offsets on the metapage: after the page header come magic, version and features
use constant { VERSION => 24 + 4, FEATURES => 24 + 8 };

my $node = PostgreSQL::Test::Cluster->new('main');
my ($major) = `pg_config --version` =~ /(\d+)/;
$node->init(extra => $major >= 18 ? ['--no-data-checksums'] : []);
$node->append_conf('postgresql.conf', 'autovacuum = off');
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION lazyhash;
	CREATE TABLE t (k int);
	INSERT INTO t SELECT generate_series(1, 1000);
	CREATE INDEX t_k ON t USING lazyhash (k);
});

# Replaces a 32-bit number on the metapage; returns what was there.
sub patch
{
	my ($offset, $value) = @_;
	my $path = $node->data_dir . '/'
	  . $node->safe_psql('postgres', "SELECT pg_relation_filepath('t_k')");
	my $before;

	$node->stop;
	open(my $file, '+<:raw', $path) or die "$path: $!";
	sysseek($file, $offset, 0) or die "$path: $!";
	sysread($file, $before, 4) == 4 or die "$path: $!";
	sysseek($file, $offset, 0) or die "$path: $!";
	syswrite($file, pack('L', $value)) == 4 or die "$path: $!";
	close($file) or die "$path: $!";
	$node->start;
	return unpack('L', $before);
}

# Tries everything that reads or changes the index.
sub is_refused
{
	my ($what, $detail) = @_;
	my $message = join "\n",
	  '0A000: index "t_k" has an on-disk format unknown to this version of lazyhash',
	  "DETAIL:  $detail",
	  'HINT:  Install the version of lazyhash that made the index, or REINDEX it.';

	foreach my $command (
		'SELECT count(*) FROM t WHERE k = 7',
		'INSERT INTO t VALUES (7)',
		'UPDATE t SET k = k + 1 WHERE k = 7',
		'DELETE FROM t; VACUUM (INDEX_CLEANUP on) t',
		"SELECT lazyhash_check('t_k')",
		"SELECT * FROM lazyhash_metapage_info('t_k')")
	{
		my ($status, undef, $stderr) = $node->psql('postgres',
			"\\set VERBOSITY verbose\nSET enable_seqscan = off;\n"
			  . join("\n", map { "$_;" } split /; */, $command),
			on_error_stop => 1);
		isnt($status, 0, "$what: $command fails");
		like($stderr, qr/\Q$message\E/,
			"$what: $command says why");
	}
}

my $version = patch(VERSION, 999);
cmp_ok($version, '<', 100, 'the version number was where this test looks for it');
is_refused('version',
	'The index was made by a version of lazyhash that is newer than this library.');
patch(VERSION, $version);
# the rows were deleted, their entries are still there
is($node->safe_psql('postgres', "VACUUM t; SELECT lazyhash_check('t_k', true)"), '',
	'with its version back the index is as it was');

$node->safe_psql('postgres', 'INSERT INTO t SELECT generate_series(1, 1000)');
is(patch(FEATURES, 0x40), 0, 'the features were where this test looks for them');
is_refused('features', 'The index has features that this library does not know.');
is($node->safe_psql('postgres',
		'REINDEX INDEX t_k; INSERT INTO t VALUES (7); SET enable_seqscan = off;'
		  . " SELECT count(*) FROM t WHERE k = 7; SELECT lazyhash_check('t_k', true)"), "1\n",
	'REINDEX makes an index that this library knows');
patch(VERSION, 999);
is($node->safe_psql('postgres', "DROP INDEX t_k; SELECT to_regclass('t_k') IS NULL"), 't',
	'an index of an unknown version can be dropped');

$node->stop;
done_testing();

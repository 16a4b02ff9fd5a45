# What single inserts log, counted in the output of pg_waldump: at most 1 in 50 records of the index
# names the metapage, in both WAL modes.  With the built-in hash it is every one, which shows that
# the counting works.
#
# LAZYHASH_METAPAGE_ROWS in the environment is the number of rows that the index has before, by
# default a million.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;
use LazyStress;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rows = $ENV{LAZYHASH_METAPAGE_ROWS} || 1_000_000;
my $inserts = 100_000;
my $node = new_primary('records', 'custom', "wal_consistency_checking = ''",
	'shared_buffers = 128MB', 'max_wal_size = 4GB', 'wal_keep_size = 2GB',
	'maintenance_work_mem = 256MB');

# Inserts rows one by one.  Returns the number of WAL records that change the index, and of those
# that name its block 0.
sub count_records
{
	my ($table, $index, $setting) = @_;

	# after a checkpoint the first change to each page has the page in it; nothing else is different
	my $start = $node->safe_psql('postgres', 'CHECKPOINT; SELECT pg_current_wal_insert_lsn()');
	$node->safe_psql('postgres',
		"$setting; DO \$\$ BEGIN FOR i IN 1..$inserts LOOP"
		  . " INSERT INTO $table VALUES ((random() * 1e15)::bigint); END LOOP; END \$\$");
	my $end = $node->safe_psql('postgres', 'SELECT pg_current_wal_flush_lsn()');
	my $relation = $node->safe_psql('postgres',
		"SELECT d.dattablespace || '/' || d.oid || '/' || pg_relation_filenode('$index')"
		  . ' FROM pg_database d WHERE datname = current_database()');

	my ($records, $naming, %kinds) = (0, 0);
	open(my $dump, '-|', 'pg_waldump', '-p', $node->data_dir . '/pg_wal', '-s', $start, '-e', $end)
	  or die "pg_waldump: $!";
	while (my $line = <$dump>)
	{
		next unless $line =~ /blkref #\d+: rel \Q$relation\E blk \d+/;
		$records++;
		$naming++ if $line =~ /blkref #\d+: rel \Q$relation\E blk 0\b/;
		$kinds{$1}++ if $line =~ /^rmgr: (\S+)/;
	}
	close($dump) or die "pg_waldump: status $?";
	note("$index: $records records of the index, $naming name its metapage; managers "
		  . join(', ', map { "$_ $kinds{$_}" } sort keys %kinds));
	return ($records, $naming, join(' ', sort keys %kinds));
}

foreach my $case (
	[ 'custom', 'lazyhash', 'SET lazyhash.wal = auto' ],
	[ 'generic', 'lazyhash', 'SET lazyhash.wal = generic' ],
	[ 'builtin', 'hash', 'SELECT 1' ])
{
	my ($name, $method, $setting) = @$case;

	# filled by inserts: after a build nothing would be pending on any page, and for some time less
	# be posted
	$node->safe_psql('postgres',
		"$setting; CREATE TABLE $name (k bigint);
		 CREATE INDEX ${name}_k ON $name USING $method (k);"
		  . " INSERT INTO $name SELECT (random() * 1e15)::bigint FROM generate_series(1, $rows)");
	my ($records, $naming, $managers) = count_records($name, "${name}_k", $setting);

	cmp_ok($records, '>=', $inserts, "$name: each insert has logged its entry");
	if ($method eq 'hash')
	{
		cmp_ok($naming, '>=', $inserts, "$name: each names the metapage");
	}
	else
	{
		cmp_ok($naming * 50, '<=', $records, "$name: at most 1 record in 50 names the metapage");
		cmp_ok($naming, '>', $inserts / 200, "$name: the metapage is told of the inserts");
		like($managers, $name eq 'custom' ? qr/^custom\d+$/ : qr/^Generic$/,
			"$name: that kind of records");
	}
	$node->safe_psql('postgres', "DROP TABLE $name");
}
no_crash($node);
$node->stop('immediate');

done_testing();

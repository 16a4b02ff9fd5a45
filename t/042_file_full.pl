# An index whose file cannot become longer, since a block number has no room for more: it goes on
# working without new buckets, and only a row that needs another page is refused.
#
# The file is a sparse one, so that it takes no room: segments of a gigabyte in which nothing was
# ever written.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;
use LazyFile;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant MOST_BLOCKS => 0xFFFFFFFF;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\nfsync = off\n");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION lazyhash;
	CREATE TABLE t (k int, n int);
	CREATE INDEX t_k ON t USING lazyhash (k) WITH (fillfactor = 10, batch = 1);
	INSERT INTO t SELECT i, 0 FROM generate_series(1, 10400) i;
});
my $segment = $node->safe_psql('postgres', q{
	SELECT setting::bigint FROM pg_settings WHERE name = 'segment_size'});

# Adds rows, with keys that are not there yet.
my $rows = 10400;

sub add
{
	my ($more) = @_;
	my $first = $rows + 1;

	$rows += $more;
	$node->safe_psql('postgres', "INSERT INTO t SELECT i, 0 FROM generate_series($first, $rows) i");
	return;
}

sub buckets
{
	return $node->safe_psql('postgres', q{SELECT maxbucket + 1 FROM lazyhash_metapage_info('t_k')});
}

# How many of the added rows are found by their keys.
sub found
{
	return $node->safe_psql('postgres', qq{
		SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
		SELECT count(*) FROM generate_series(1, $rows) i JOIN t ON k = i});
}

# all places for buckets are taken, so the next bucket needs new ones, several at once
foreach (1 .. 40)
{
	last
	  if $node->safe_psql('postgres',
		q{SELECT buckets > 128 AND reserved_pages = 0 FROM lazyhash_stats('t_k')}) eq 't';
	add(20);
}
my $before = buckets();
is( $node->safe_psql('postgres',
		q{SELECT buckets > 128 AND reserved_pages = 0 FROM lazyhash_stats('t_k')}),
	't', 'the next bucket would need more blocks');
my $name = $node->data_dir . '/'
  . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t_k')});
$node->stop;

my $length = -s $name;
my $last = int((MOST_BLOCKS - 1) / $segment);
foreach my $number (0 .. $last)
{
	my $file = $number > 0 ? "$name.$number" : $name;
	my $blocks = $number < $last ? $segment : MOST_BLOCKS - $last * $segment;

	open(my $handle, '>>:raw', $file) or die "could not open $file: $!";
	truncate($handle, $blocks * BLOCK) or die "could not make $file longer: $!";
	close $handle;
}

$node->start;
is($node->safe_psql('postgres', q{SELECT pg_relation_size('t_k')}),
	MOST_BLOCKS * BLOCK, 'the file is as long as can be');
add(2000);
is(buckets(), $before, 'no bucket is added, though many are due');
is(found(), $rows, 'all rows are found');

my ($code, $out, $err) = $node->psql('postgres',
	"\\set VERBOSITY verbose\nINSERT INTO t SELECT -1, 0 FROM generate_series(1, 2000)");
like($err, qr/ERROR:  54000: cannot extend/, 'rows that need another page are refused');
add(100);
is(found(), $rows, 'others are not');
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM t WHERE k = -1'),
	0, 'those that were refused are not there');

# with the room, growth returns
$node->stop;
unlink map { "$name.$_" } 1 .. $last;
truncate($name, $length) or die "could not make $name shorter: $!";
$node->start;
add(500);
cmp_ok(buckets(), '>', $before, 'buckets are added as soon as there is room');
is($node->safe_psql('postgres', q{SELECT lazyhash_check('t_k', true)}), '', 'all is in order');
is(found(), $rows, 'all rows are found');

$node->stop;
done_testing();

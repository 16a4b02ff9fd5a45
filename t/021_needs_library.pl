# A server that has to replay records of lazyhash does not start without the
# library, says so, and loses nothing: with the library it goes on.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CrashAtAnyRecord;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf',
	"autovacuum = off\njit = off\nfsync = off\nshared_preload_libraries = 'lazyhash'\n");
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION lazyhash');
$primary->safe_psql('postgres', $CrashAtAnyRecord::functions);
$primary->safe_psql('postgres', q{
	CREATE TABLE words (id serial, k bigint);
	CREATE INDEX words_k ON words USING lazyhash (k) WITH (fillfactor = 10);
});

my $log_end;

# The end of the server's log since a start was tried.
sub new_log
{
	my ($node) = @_;
	return slurp_file($node->logfile, $log_end);
}

sub preload
{
	my ($node, $libraries) = @_;
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'$libraries'");
}

my $refused =
  qr/FATAL:  resource manager with ID \d+ not registered\n.*HINT:  .*shared_preload_libraries/;

# ---- a standby without the library ----

$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', 'INSERT INTO words (k) SELECT i FROM generate_series(1, 2000) i');
$primary->wait_for_catchup($standby);
$standby->stop;
$primary->safe_psql('postgres', 'INSERT INTO words (k) SELECT i FROM generate_series(1, 2000) i');
preload($standby, '');
$log_end = -s $standby->logfile;
$standby->start(fail_ok => 1);
# it may be up for a moment before the first record comes
ok($standby->wait_for_log($refused, $log_end), 'standby: says what it needs')
  if $standby->can('wait_for_log');
foreach my $try (1 .. 300)
{
	last if new_log($standby) =~ /database system is shut down/;
	select(undef, undef, undef, 0.1);
}
like(new_log($standby), $refused, 'a standby without the library stops, and says what it needs');
$standby->{_pid} = undef;
preload($standby, 'lazyhash');
$standby->start;
$primary->wait_for_catchup($standby);
$standby->safe_psql('postgres', 'SELECT verify()');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM words'), 4000,
	'with the library it goes on where it stopped');
$standby->stop;

# ---- crash recovery without the library ----

$primary->safe_psql('postgres',
	'CHECKPOINT; INSERT INTO words (k) SELECT i FROM generate_series(1, 2000) i');
$primary->stop('immediate');
preload($primary, '');
$log_end = -s $primary->logfile;
ok(!$primary->start(fail_ok => 1), 'after a crash, no start without the library');
like(new_log($primary), $refused, 'the log says what it needs');
ok(!$primary->start(fail_ok => 1), 'nor at another try');
preload($primary, 'lazyhash');
$primary->start;
$primary->safe_psql('postgres', 'SELECT verify()');
is($primary->safe_psql('postgres', 'SELECT count(*) FROM words'), 6000,
	'with the library, nothing is lost');

# ---- a clean stop leaves nothing to replay ----

$primary->safe_psql('postgres', 'INSERT INTO words (k) SELECT i FROM generate_series(1, 2000) i');
$primary->stop;
preload($primary, '');
$primary->start;
$primary->safe_psql('postgres',
	'INSERT INTO words (k) SELECT i FROM generate_series(1, 500) i; SELECT verify()');
is($primary->safe_psql('postgres', 'SELECT count(*) FROM words'), 8500,
	'after a clean stop the server starts without, and writes generic records');
$primary->stop('immediate');
$primary->start;
$primary->safe_psql('postgres', 'SELECT verify()');
pass('which it can replay');

done_testing();

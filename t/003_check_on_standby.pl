# lazyhash_check() and the inspection functions on a hot standby: all checks when
# replay pauses, no false alarm while it does not, and damage is found there too.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use IPC::Run ();
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
my ($major) = `pg_config --version` =~ /(\d+)/;
my @extra = $major >= 18 ? ('--no-data-checksums') : ();
$primary->init(allows_streaming => 1, extra => \@extra);
$primary->append_conf('postgresql.conf', "autovacuum = off\nhot_standby_feedback = on\n");
$primary->start;
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

$primary->safe_psql('postgres', q{
	CREATE EXTENSION lazyhash;
	CREATE TABLE t (v int);
	CREATE INDEX t_v ON t USING lazyhash (v) WITH (fillfactor = 10, batch = 8);
	CREATE UNLOGGED TABLE u (v int);
	CREATE INDEX u_v ON u USING lazyhash (v);
	INSERT INTO t SELECT i FROM generate_series(1, 20000) i;
	INSERT INTO t SELECT 7 FROM generate_series(1, 5000);
});
$primary->wait_for_catchup($standby);

# Runs it on the standby; returns what it prints to stderr.
sub complaints
{
	my ($sql) = @_;
	my ($code, $out, $err) = $standby->psql('postgres', $sql);
	return $err;
}

# nothing is replayed: everything is checked, and no NOTICE says otherwise
is(complaints(q{SELECT lazyhash_check('t_v', true)}), '', 'index is in order, all checks made');
like(complaints('SELECT lazyhash_check_all(true)'),
	qr/\A[^\n]*NOTICE:\s+checking index public\.t_v\n?\z/,
	'index that is not logged is left out');
like(complaints(q{SELECT lazyhash_check('u_v')}), qr/cannot read index "u_v".*not logged/s,
	'and refused when asked for');
is($standby->safe_psql('postgres', q{SELECT entries FROM lazyhash_stats('t_v')}), 25000,
	'the standby has all entries');
is($standby->safe_psql('postgres', q{
		SELECT count(*) FROM pg_locks
		WHERE relation = 't'::regclass AND mode <> 'AccessShareLock'}),
	0, 'no strong lock was taken');

# Replay while the check runs: whatever comes in, nothing is taken for damage.
# Inserts that split and overflow, keys that go and let chains be squeezed.
my ($in, $out, $err) = ('', '', '');
my $handle = IPC::Run::start(
	[
		'psql', '-X', '-q', '-d', $primary->connstr('postgres'), '-c', q{
			CREATE PROCEDURE churn(seconds int) LANGUAGE plpgsql AS $$
			DECLARE
				last timestamptz := clock_timestamp() + seconds * interval '1 second';
				i int := 0;
			BEGIN
				WHILE clock_timestamp() < last LOOP
					INSERT INTO t SELECT 100000 + i * 500 + j FROM generate_series(1, 500) j;
					INSERT INTO t SELECT 7 FROM generate_series(1, 300);
					DELETE FROM t WHERE v = 7 AND random() < 0.3;
					i := i + 1;
					COMMIT;
				END LOOP;
			END $$}, '-c', 'CALL churn(10)'
	],
	\$in, \$out, \$err);
my $vacuums = IPC::Run::start(
	[ 'psql', '-X', '-q', '-d', $primary->connstr('postgres') ],
	'<', \(join '', map { "VACUUM t;\nSELECT pg_sleep(0.2);\n" } 1 .. 40),
	'>', \my $vacuum_out, '2>', \my $vacuum_err);
my $bucket_by_bucket = qr/\A[^\n]*NOTICE:\s+index\ "t_v"\ was\ checked\ bucket\ by\ bucket\ only\n
	DETAIL:[^\n]*\nHINT:[^\n]*\Z/x;
my ($complete, $partial) = (0, 0);
my $until = time + 9;
my $alarms = '';
while (time < $until)
{
	my $said = complaints(q{SELECT lazyhash_check('t_v', true)});
	if ($said eq '') { $complete++; }
	elsif ($said =~ $bucket_by_bucket) { $partial++; }
	# replay may cancel the check: that is not an alarm
	elsif ($said !~ /canceling statement due to conflict with recovery/) { $alarms .= $said; }
	$alarms .= complaints(q{
		SELECT lazyhash_stats('t_v');
		SELECT count(*) FROM lazyhash_bucket_info('t_v')});
}
$handle->finish;
$vacuums->finish;
is($err, '', 'the primary had no trouble');
is($alarms, '', 'no false alarm beside replay');
cmp_ok($partial, '>', 0, 'replay kept the check from some of its work');
note("$complete checks were complete, $partial were not");

# replay is paused in the middle of things, at a moment of its own choosing
$primary->safe_psql('postgres', 'INSERT INTO t SELECT i FROM generate_series(500001, 510000) i');
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
$standby->poll_query_until('postgres', q{SELECT pg_get_wal_replay_pause_state() = 'paused'})
  or die 'replay was not paused';
$primary->safe_psql('postgres', 'INSERT INTO t SELECT i FROM generate_series(510001, 520000) i');
is(complaints(q{SELECT lazyhash_check('t_v', true)}), '', 'paused replay: all checks made');
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
$primary->wait_for_catchup($standby);
is(complaints(q{SELECT lazyhash_check('t_v', true)}),
	'', 'all checks made when replay has caught up');

# damage on the standby only: the count in its metapage; no WAL is to mend it
$primary->safe_psql('postgres', 'CHECKPOINT');
$primary->wait_for_catchup($standby);
$standby->safe_psql('postgres', 'CHECKPOINT');
my $file = $standby->data_dir . '/'
  . $standby->safe_psql('postgres', q{SELECT pg_relation_filepath('t_v')});
$standby->stop;
open(my $page, '+<:raw', $file) or die "could not open $file: $!";
seek($page, 40, 0);
read($page, my $bytes, 8);
seek($page, 40, 0);
print $page pack('q', unpack('q', $bytes) + 1);
close $page;
$standby->start;
like(complaints(q{SELECT lazyhash_check('t_v')}), qr/"t_v" is corrupted at block 0/,
	'damage is found on the standby');
is($primary->safe_psql('postgres', q{SELECT lazyhash_check('t_v', true)}), '',
	'the primary is in order');

# after promotion the check takes the locks of a primary
$standby->promote;
$standby->safe_psql('postgres',
	'REINDEX INDEX t_v; INSERT INTO t SELECT i FROM generate_series(1, 1000) i');
is(complaints(q{SELECT lazyhash_check('t_v', true)}), '', 'promoted, rebuilt: in order');

done_testing();

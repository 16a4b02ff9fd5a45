# A server that is killed under load has the right indexes after its recovery.
#
# Each round lets some clients insert, look up, update, delete, vacuum and
# rebuild for a moment, then kills the whole server, its postmaster, one backend,
# or stops it at once; starts it again, and checks.  The kinds of WAL records and
# full_page_writes change between rounds, and in the middle of them.
# scripts/kill-soak.sh runs this with more rounds.
#
#     KILL_ROUNDS   how many rounds
#     KILL_SEED     of the random numbers

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CrashAtAnyRecord;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $rounds = $ENV{KILL_ROUNDS} // 6;
my $seed = $ENV{KILL_SEED} // time;

srand($seed);
diag("seed $seed");

my $node = PostgreSQL::Test::Cluster->new('soaked');
$node->init(extra => [ '--no-sync', '--locale=C', '--encoding=UTF8' ]);
$node->append_conf('postgresql.conf', q{
	shared_preload_libraries = 'lazyhash'
	shared_buffers = 2MB
	fsync = off
	jit = off
	autovacuum = off
	max_wal_size = 64MB
	wal_level = replica
	bgwriter_delay = 10ms
	max_connections = 30
	restart_after_crash = on
	log_statement = none
	log_checkpoints = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION lazyhash');
$node->safe_psql('postgres', $CrashAtAnyRecord::functions);
$node->safe_psql('postgres', q{
	CREATE TABLE soak (id bigserial, k bigint);
	CREATE INDEX soak_small ON soak USING lazyhash (k) WITH (fillfactor = 10, batch = 4);
	CREATE INDEX soak_usual ON soak USING lazyhash (k);
	CREATE UNLOGGED TABLE lost (id bigserial, k bigint);
	CREATE INDEX lost_k ON lost USING lazyhash (k);
	INSERT INTO soak (k) SELECT i FROM generate_series(1, 1000) i;
});

# where the library can be told so, splits of long chains take their time
my $has_test_points = $node->safe_psql('postgres',
	q{SELECT current_setting('lazyhash.wait_at', true) IS NOT NULL}) eq 't';
$node->safe_psql('postgres', q{ALTER SYSTEM SET lazyhash.wait_at = 'split-step'})
  if $has_test_points;

# ---- load ----

my $dir = PostgreSQL::Test::Utils::tempdir();
my %scripts = (
	'insert' => '
		\set k random(1, 4000)
		INSERT INTO soak (k) SELECT :k + i FROM generate_series(0, 30) i;
		INSERT INTO lost (k) SELECT :k + i FROM generate_series(0, 5) i;',
	# chains of many pages
	'pile' => '
		\set k random(1, 20)
		INSERT INTO soak (k) SELECT :k FROM generate_series(1, 900);',
	'delete' => '
		\set k random(1, 4000)
		DELETE FROM soak WHERE k = :k;
		SELECT count(id) FROM soak WHERE k = :k;
		SELECT count(id) FROM soak WHERE k = :k;',
	'update' => '
		\set k random(1, 4000)
		UPDATE soak SET k = k + 1 WHERE k = :k;',
	'rollback' => '
		\set k random(1, 4000)
		BEGIN;
		INSERT INTO soak (k) SELECT :k + i FROM generate_series(0, 30) i;
		ROLLBACK;',
	'shrink' => '
		\set k random(1, 20)
		\set part random(0, 3)
		DELETE FROM soak WHERE k = :k AND id % 4 <> :part;
		VACUUM soak;
		\sleep 200 ms',
	'rebuild' => '
		REINDEX INDEX CONCURRENTLY soak_usual;
		\sleep 300 ms',);
while (my ($name, $script) = each %scripts)
{
	append_to_file("$dir/$name.sql", join("\n", map { s/^\s+//r } split(/\n/, $script)) . "\n");
}

# Starts a pgbench for so many seconds at most, with these scripts.
sub start_load
{
	my ($nclients, @names) = @_;
	my %env = (PGOPTIONS => '-c enable_seqscan=off -c enable_bitmapscan=off');

	local @ENV{ keys %env } = values %env;
	return IPC::Run::start([ 'pgbench', '--no-vacuum', '-c', $nclients, '-T', '60',
			(map { ('-f', "$dir/$_.sql") } @names), $node->connstr('postgres') ],
		'<', \undef, '>', '/dev/null', '2>', '/dev/null');
}

# ---- killing ----

sub wait_until_gone
{
	my @pids = @_;

	foreach my $try (1 .. 600)
	{
		return if !grep { kill(0, $_) } @pids;
		usleep(50_000);
	}
	BAIL_OUT('processes that were killed are still there');
}

my %ways = (
	'the server' => sub {
		my @pids = CrashAtAnyRecord::processes($node);
		kill('KILL', @pids);
		$node->kill9;
		wait_until_gone(@pids);
	},
	'the postmaster' => sub {
		my @pids = CrashAtAnyRecord::processes($node);
		$node->kill9;
		wait_until_gone(@pids);
	},
	'a backend' => sub {
		my @backends = split(/\n/, $node->safe_psql('postgres', q{
			SELECT pid FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()}));
		kill('KILL', $backends[ rand(@backends) ]) if @backends;
	},
	'all at once, asked to stop' => sub {
		$node->stop('immediate');
	},);

sub verify
{
	my ($sql) = @_;
	my ($stdout, $stderr);

	return '' if $node->psql('postgres', $sql, stdout => \$stdout, stderr => \$stderr,
		on_error_stop => 1) == 0;
	return $stderr;
}

my ($bad, $unfinished) = (0, 0);
my %killed;
my $log_end = -s $node->logfile;
my @ways = sort keys %ways;

foreach my $round (1 .. $rounds)
{
	my $way = $ways[ rand(@ways) ];
	my $mode = qw(auto generic)[ rand(2) ];
	my $images = qw(on off)[ rand(2) ];

	$node->safe_psql('postgres', "ALTER SYSTEM SET lazyhash.wal = $mode");
	$node->safe_psql('postgres', "ALTER SYSTEM SET full_page_writes = $images");
	$node->reload;
	my @load = (
		start_load(5, qw(insert insert pile delete update rollback)),
		start_load(1, 'shrink'),
		start_load(1, 'rebuild'),);
	usleep(100_000 + rand(900_000));
	if (rand(2) < 1)
	{
		# a change of mode while all are at work
		$node->safe_psql('postgres', 'ALTER SYSTEM SET lazyhash.wal = '
			  . ($mode eq 'auto' ? 'generic' : 'auto'));
		$node->reload;
		usleep(rand(400_000));
	}
	$ways{$way}->();
	$killed{$way}++;
	foreach my $load (@load)
	{
		# who was not killed gives up now
		$load->signal('TERM');
		$load->finish;
	}
	$node->start if !defined $node->{_pid};
	$node->poll_query_until('postgres', 'SELECT true') or BAIL_OUT('no recovery');

	my $left = $node->safe_psql('postgres', 'SELECT unfinished_splits()');
	my $problem = verify('SELECT verify()');

	$unfinished++ if $left ne '';
	# every now and then the splits that were left over are brought to their end
	$problem ||= verify('VACUUM') || verify('SELECT no_split_is_left(), verify()')
	  if $round % 5 == 0 || $round == $rounds;
	# what a rebuild has left behind
	$problem ||= verify(join('; ', map { "DROP INDEX $_" } split(/\n/, $node->safe_psql('postgres',
		q{SELECT index FROM ready_indexes() WHERE NOT valid}))));
	if ($round % 20 == 0)
	{
		$node->safe_psql('postgres',
			'TRUNCATE soak; INSERT INTO soak (k) SELECT generate_series(1, 1000)');
	}
	my $log = slurp_file($node->logfile, $log_end);
	my @errors = grep { /PANIC: |TRAP: |ERROR: / && !/deadlock detected/ } split(/\n/, $log);
	# A server with assertions says so when its postmaster dies during a parallel build, by
	# btree as well: the backend that leads the build comes to its end twice.
	@errors = grep { !/TRAP: .*IsTransactionOrTransactionBlock.*pgstat\.c/ } @errors
	  if $way eq 'the postmaster';
	$problem ||= "in the log:\n" . join("\n", @errors) if @errors;
	$log_end = -s $node->logfile;
	next if $problem eq '';
	$bad++;
	diag("round $round, killed $way: $problem");
	last if $bad >= 3;
}
is($bad, 0, "right after each of $rounds kills");
diag("killed: " . join(', ', map { "$killed{$_} times $_" } sort keys %killed));
diag("splits were left unfinished in $unfinished rounds");
$node->stop('immediate');

done_testing();

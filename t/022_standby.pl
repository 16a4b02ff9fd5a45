# A hot standby answers right while it replays either kind of WAL, replay waits
# for no reader, only removals cancel queries, and a promotion in the middle of a
# split goes on with it.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CrashAtAnyRecord;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();

# A primary and a standby of it.  Dead rows stay until the test wants them gone.
sub start_pair
{
	my ($mode) = @_;
	my $primary = PostgreSQL::Test::Cluster->new("primary_$mode");
	my $standby = PostgreSQL::Test::Cluster->new("standby_$mode");

	$primary->init(allows_streaming => 1);
	$primary->append_conf('postgresql.conf', 'shared_preload_libraries = '
		  . ($mode eq 'custom' ? "'lazyhash'" : "''") . q{
		autovacuum = off
		fsync = off
		jit = off
		log_statement = none
		max_wal_size = 1GB
		wal_receiver_status_interval = 1
	});
	$primary->start;
	$primary->safe_psql('postgres', 'CREATE EXTENSION lazyhash');
	$primary->safe_psql('postgres', $CrashAtAnyRecord::functions);
	$primary->backup('backup');
	$standby->init_from_backup($primary, 'backup', has_streaming => 1);
	$standby->start;
	return ($primary, $standby);
}

# All that is done on the primary by now has been replayed.
sub catch_up
{
	my ($primary, $standby) = @_;

	$primary->safe_psql('postgres', $CrashAtAnyRecord::flush);
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
}

sub maxbucket
{
	my ($node, $index) = @_;

	return $node->safe_psql('postgres', "SELECT maxbucket FROM lazyhash_metapage_info('$index')");
}

sub verified
{
	my ($node, $what) = @_;

	is($node->safe_psql('postgres', 'SELECT verify()'), '', $what);
}

# A session that stays; statements are given to ask(), which returns all output.
sub open_session
{
	my ($node) = @_;
	my %session = (in => '', out => '', timer => IPC::Run::timeout(180));

	$session{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ],
		'<', \$session{in}, '>', \$session{out}, '2>&1', $session{timer});
	return \%session;
}

sub ask
{
	my ($session, $sql) = @_;

	$session->{out} = '';
	$session->{in} .= "$sql;\n\\echo done\n";
	# psql gives up when its connection is ended
	$session->{run}->pump while $session->{run}->pumpable && $session->{out} !~ /^done$/m;
	return $session->{out} =~ s/^done\n\z//mr;
}

sub conflicts
{
	my ($standby, $kind) = @_;

	return $standby->safe_psql('postgres',
		"SELECT $kind FROM pg_stat_database_conflicts WHERE datname = 'postgres'");
}

sub write_script
{
	my ($name, $text) = @_;

	append_to_file("$dir/$name.sql", join("\n", map { s/^\s+//r } split(/\n/, $text)) . "\n");
	return "$dir/$name.sql";
}

my $changes = write_script('changes', '
	\set k random(1000, 4000)
	INSERT INTO words (k) SELECT :k + i FROM generate_series(0, 60) i;
	INSERT INTO words (k) SELECT 1000 + :k % 20 FROM generate_series(1, 120);
	DELETE FROM words WHERE k = :k;
	SELECT count(id) FROM words WHERE k = :k;
	SELECT count(id) FROM words WHERE k = :k;');
my $removals = write_script('removals', '
	\set k random(0, 19)
	DELETE FROM words WHERE k = 1000 + :k AND id % 3 <> 0;
	VACUUM words;
	\sleep 100 ms');
# rows that never change: there are 30 of each of these keys
my $lookups = write_script('lookups', '
	\set k random(1, 200)
	SELECT 1 / (count(id) = 30)::int FROM words WHERE k = :k;
	SET enable_indexscan = off;
	SELECT 1 / (count(id) = 30)::int FROM words WHERE k = :k;
	SET enable_indexscan = on;
	SELECT 1 / (count(id) = 0)::int FROM words WHERE k = -:k;');

# ---- right answers beside replay ----

sub look_up_beside_replay
{
	my ($mode, $primary, $standby) = @_;
	my ($out, $errors) = ('', '');

	$primary->safe_psql('postgres', q{
		CREATE TABLE words (id bigserial, k bigint);
		CREATE INDEX words_k ON words USING lazyhash (k) WITH (fillfactor = 15, batch = 8);
		INSERT INTO words (k) SELECT k FROM generate_series(1, 200) k, generate_series(1, 30);
	});
	catch_up($primary, $standby);

	local $ENV{PGOPTIONS} = '-c enable_seqscan=off';
	my @load = map {
		IPC::Run::start([ 'pgbench', '--no-vacuum', '-T', '6', @$_,
				$primary->connstr('postgres') ], '<', \undef, '>', '/dev/null', '2>', '/dev/null')
	} [ '-c', 3, '-f', $changes ], [ '-c', 1, '-f', $removals ];
	# a cancelled query counts as a serialization failure, and is tried again
	my $ok = IPC::Run::run([ 'pgbench', '--no-vacuum', '-T', '6', '--max-tries=0', '-c', 4,
			'-f', $lookups, $standby->connstr('postgres') ], '>', \$out, '2>', \$errors);
	$_->finish foreach @load;

	my ($done) = $out =~ /number of transactions actually processed: (\d+)/;
	ok($ok, "$mode: lookups on the standby found what they should") or diag($errors);
	cmp_ok($done, '>', 100, "$mode: there were many of them");
	cmp_ok(maxbucket($primary, 'words_k'), '>', 100, "$mode: buckets were split meanwhile");
	catch_up($primary, $standby);
	verified($standby, "$mode: the standby's index is right");
	is($standby->safe_psql('postgres', 'SELECT count(*), sum(id) FROM words'),
		$primary->safe_psql('postgres', 'SELECT count(*), sum(id) FROM words'),
		"$mode: and so is its table");
}

# ---- replay waits for nobody ----

sub keep_cursor_open
{
	my ($mode, $primary, $standby) = @_;

	$primary->safe_psql('postgres', q{
		CREATE TABLE chains (id bigserial, k bigint);
		CREATE INDEX chains_k ON chains USING lazyhash (k) WITH (fillfactor = 10);
		INSERT INTO chains (k) SELECT 1 FROM generate_series(1, 4000);
	});
	catch_up($primary, $standby);
	my $session = open_session($standby);
	my $before = conflicts($standby, 'confl_snapshot + confl_bufferpin + confl_lock');
	my $splits = maxbucket($primary, 'chains_k');

	ask($session, 'SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN; '
		  . 'DECLARE c CURSOR FOR SELECT id FROM chains WHERE k = 1');
	my $rows = () = ask($session, 'FETCH 1000 FROM c') =~ /^\d+$/mg;
	is($rows, 1000, "$mode: a cursor on the standby is in the middle of a chain");
	# it needs no row of what comes, and nothing goes away
	$primary->safe_psql('postgres',
		'INSERT INTO chains (k) SELECT i FROM generate_series(1, 6000) i');
	catch_up($primary, $standby);
	pass("$mode: replay does not wait for it");
	cmp_ok(maxbucket($primary, 'chains_k'), '>', $splits + 30,
		"$mode: the chain was split meanwhile");
	$rows = () = ask($session, 'FETCH ALL FROM c') =~ /^\d+$/mg;
	is($rows, 3000, "$mode: the cursor finds the rest, once each");
	ask($session, 'COMMIT');
	$session->{run}->finish;
	is(conflicts($standby, 'confl_snapshot + confl_bufferpin + confl_lock'),
		$before, "$mode: no query was cancelled");
}

# ---- removals announce conflicts ----

# Dead entries are removed by inserts as soon as the primary needs them no more.
# There is room on the table's pages, so that nobody prunes them, and the index's
# record is the first that takes something away from an old snapshot.
sub cancel_by_removal
{
	my ($mode, $primary, $standby) = @_;

	$primary->safe_psql('postgres', q{
		CREATE TABLE roomy (id bigserial, k bigint);
		CREATE INDEX roomy_k ON roomy USING lazyhash (k);
		INSERT INTO roomy (k) SELECT i % 2 FROM generate_series(1, 5000) i;
		DELETE FROM roomy WHERE k = 0;
		VACUUM roomy;
	});
	$standby->safe_psql('postgres', 'ALTER SYSTEM SET max_standby_streaming_delay = 0');
	$standby->reload;
	catch_up($primary, $standby);

	my $session = open_session($standby);
	my $query = 'SELECT count(*) FROM roomy WHERE k = 1';
	ask($session, 'SET enable_seqscan = off; SET enable_bitmapscan = off');
	ask($session, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	is(ask($session, $query), "2500\n", "$mode: an old snapshot sees the rows");

	$primary->safe_psql('postgres', q{DELETE FROM roomy WHERE id % 4 = 1});
	catch_up($primary, $standby);
	is(ask($session, $query), "2500\n", "$mode: it still does after they are deleted");
	$primary->safe_psql('postgres', q{
		SET enable_seqscan = off; SET enable_bitmapscan = off;
		SELECT count(id) FROM roomy WHERE k = 1;
		SELECT count(id) FROM roomy WHERE k = 1;});
	cmp_ok($primary->safe_psql('postgres', q{SELECT dead FROM lazyhash_stats('roomy_k')}),
		'>', 0, "$mode: the primary knows that they are dead");
	catch_up($primary, $standby);
	is(ask($session, $query), "2500\n", "$mode: that alone does no harm");

	my $before = conflicts($standby, 'confl_snapshot');
	$primary->safe_psql('postgres', 'INSERT INTO roomy (k) SELECT 1 FROM generate_series(1, 1000)');
	catch_up($primary, $standby);
	like(ask($session, $query), qr/conflict with recovery|connection to server was lost/,
		"$mode: a removal cancels who may miss what it removes");
	ok($standby->poll_query_until('postgres', "SELECT confl_snapshot > $before "
			  . "FROM pg_stat_database_conflicts WHERE datname = 'postgres'"),
		"$mode: for its snapshot");
	$session->{run}->kill_kill;
	verified($standby, "$mode: new snapshots see what they should");
}

# ---- promotion in the middle of a split ----

sub promote_in_split
{
	my ($mode, $primary, $standby) = @_;
	my @points = qw(split-step:1 split-move:1 split-move:3 split-finish:1 overflow-new:2);

	foreach my $i (0 .. $#points)
	{
		$primary->safe_psql('postgres',
			"SELECT fail_while_growing('grown$i', '$points[$i]', 'auto')");
	}
	catch_up($primary, $standby);
	my $unfinished = $standby->safe_psql('postgres', 'SELECT unfinished_splits()');
	is(scalar(split(/, /, $unfinished)), 4, "$mode: splits are unfinished: $unfinished");
	verified($standby, "$mode: the standby reads them right");

	$primary->stop('immediate');
	$standby->promote;
	verified($standby, "$mode: right after promotion");
	$standby->safe_psql('postgres', 'SELECT use_tables()');
	is($standby->safe_psql('postgres', 'SELECT unfinished_splits()'), '',
		"$mode: inserts went on with the splits");
	verified($standby, "$mode: right after that");
	$standby->safe_psql('postgres', 'VACUUM');
	verified($standby, "$mode: right after VACUUM");
}

foreach my $mode (qw(generic custom))
{
	my ($primary, $standby) = start_pair($mode);

	look_up_beside_replay($mode, $primary, $standby);
	keep_cursor_open($mode, $primary, $standby);
	cancel_by_removal($mode, $primary, $standby);
	SKIP:
	{
		skip 'the library was built without test points', 6
		  if $primary->safe_psql('postgres',
			q{LOAD 'lazyhash'; SELECT current_setting('lazyhash.fail_at', true) IS NULL}) eq 't';
		promote_in_split($mode, $primary, $standby);
	}
	$standby->stop('immediate');
	$primary->stop('immediate');
}

done_testing();

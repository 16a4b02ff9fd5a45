# Errors at each step of a change, cancelled and terminated backends, a full disk:
# the index is right afterwards, others go on with what was begun, and nothing
# is lost when the server then crashes.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CrashAtAnyRecord;
use IPC::Run;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $config = q{
	autovacuum = off
	fsync = off
	jit = off
	log_statement = none
	restart_after_crash = off
	max_wal_size = 64MB
};
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--wal-segsize=1', '--no-sync' ]);
$node->append_conf('postgresql.conf', "$config\nshared_preload_libraries = 'lazyhash'\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION lazyhash');
$node->safe_psql('postgres', $CrashAtAnyRecord::functions);
my $has_test_points = $node->safe_psql('postgres',
	q{SELECT current_setting('lazyhash.fail_at', true) IS NOT NULL}) eq 't';

sub verified
{
	my ($what) = @_;
	my ($stdout, $stderr);

	$node->psql('postgres', 'SELECT verify()', stdout => \$stdout, stderr => \$stderr);
	is($stderr, '', "$what: all indexes are right");
}

# Others use what the failure has left behind.
sub goes_on
{
	my ($what) = @_;

	$node->safe_psql('postgres', 'SELECT use_tables()');
	verified("$what, used");
	$node->safe_psql('postgres', 'VACUUM');
	$node->safe_psql('postgres', 'SELECT no_split_is_left()');
	verified("$what, used and vacuumed");
}

sub drop_tables
{
	$node->safe_psql('postgres', q{DO $$
		DECLARE tab text;
		BEGIN
			FOR tab IN SELECT relname FROM pg_class
			           WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' LOOP
				EXECUTE format('DROP TABLE %I', tab);
			END LOOP;
		END $$});
}

sub crash
{
	$node->stop('immediate');
	$node->start;
}

# ---- errors at each step ----

sub fail_everywhere
{
	my ($wal) = @_;
	my @points = qw(split-begin:1 split-step:1 split-move:1 split-move:2 split-move:3 split-move:9
	  split-finish:1 overflow-new:1 overflow-new:4 phase-new:1 phase-new:40);

	foreach my $i (0 .. $#points)
	{
		$node->safe_psql('postgres', "SELECT fail_while_growing('grown$i', '$points[$i]', '$wal')");
	}
	# the chains have many pages that VACUUM folds
	my ($status, $stdout, $stderr) = $node->psql('postgres', q{
		CREATE TABLE folded (id serial, k bigint);
		CREATE INDEX ON folded USING lazyhash (k);
		INSERT INTO folded (k) SELECT i % 2 FROM generate_series(1, 12000) i;
		DELETE FROM folded WHERE id % 8 <> 0;});
	$node->command_fails_like([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c',
			"SET lazyhash.wal = $wal; SET lazyhash.fail_at = 'squeeze:3'", '-c', 'VACUUM folded' ],
		qr/test failure at "squeeze"/, "$wal: VACUUM failed as it was told");

	my $unfinished = $node->safe_psql('postgres', 'SELECT unfinished_splits()');
	cmp_ok(scalar(split(/, /, $unfinished)), '>=', 5, "$wal: splits were left unfinished");
	verified("$wal: errors at each step");
	crash();
	is($node->safe_psql('postgres', 'SELECT unfinished_splits()'), $unfinished,
		"$wal: a crash does not change that");
	verified("$wal: errors, then a crash");
	goes_on("$wal: errors, then a crash");
	drop_tables();
}

# ---- cancelled and terminated in the middle of long splits ----

# Calls the function upon a backend as soon as it is within a long split.
sub interrupt
{
	my ($function) = @_;
	my $insert = q{
		SET application_name = 'splitter';
		SET lazyhash.wait_at = 'split-step';
		INSERT INTO long (k) SELECT 1 FROM generate_series(1, 30000)};
	my $harness = IPC::Run::start(
		[ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $insert ],
		'<', \undef, '>', '/dev/null', '2>', '/dev/null');

	$node->safe_psql('postgres', qq{DO \$\$
		BEGIN
			FOR i IN 1 .. 100000 LOOP
				EXIT WHEN unfinished_splits() IS NOT NULL;
			END LOOP;
			PERFORM $function(pid) FROM pg_stat_activity WHERE application_name = 'splitter';
		END \$\$});
	$harness->finish;
}

sub interrupt_splits
{
	my ($wal) = @_;
	my $left = 0;

	$node->safe_psql('postgres', "ALTER SYSTEM SET lazyhash.wal = $wal");
	$node->reload;
	foreach my $function (qw(pg_cancel_backend pg_terminate_backend) x 2)
	{
		drop_tables();
		$node->safe_psql('postgres', q{CREATE TABLE long (id serial, k bigint);
			CREATE INDEX long_k ON long USING lazyhash (k) WITH (fillfactor = 10)});
		interrupt($function);
		$left++ if $node->safe_psql('postgres', 'SELECT unfinished_splits()') ne '';
		# the rows of the interrupted transaction are nobody's
		is($node->safe_psql('postgres', 'SELECT count(*) FROM long'), 0,
			"$wal: $function took effect");
		verified("$wal: $function");
		goes_on("$wal: $function");
	}
	cmp_ok($left, '>', 0, "$wal: interrupts left splits unfinished");
	drop_tables();
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET lazyhash.wal');
	$node->reload;
}

# ---- no room: a limit on the size of files ----

# For a shell.
sub start_command
{
	return join(' ', map { "'$_'" } 'pg_ctl', '-w', '-D', $node->data_dir,
		'-l', $node->logfile, 'start');
}

my $no_room = qr/could not extend file .*(?:File too large|wrote only)/;

# The limit lies within a block, so that writes come out short as well.
sub hit_size_limit
{
	my ($wal) = @_;
	my $start = start_command();
	my ($status, $stdout, $stderr);

	$node->append_conf('postgresql.conf', "log_min_messages = fatal\nlazyhash.wal = $wal");
	$node->stop;
	system("bash -c \"ulimit -f 3076; $start\" >/dev/null") == 0 or BAIL_OUT('no start');
	$node->_update_pid(1);
	$node->safe_psql('postgres', q{CREATE TABLE large (id serial, k bigint);
		CREATE INDEX large_k ON large USING lazyhash (k) WITH (fillfactor = 10, batch = 8)});

	# phases
	$status = 0;
	for (my $first = 1; $status == 0 && $first < 60000; $first += 200)
	{
		$status = $node->psql('postgres',
			"INSERT INTO large (k) SELECT $first + i FROM generate_series(1, 200) i",
			stderr => \$stderr);
	}
	like($stderr, $no_room, "$wal: the index cannot grow");
	verified("$wal: no room for a phase");
	# overflow pages
	$status = $node->psql('postgres',
		'INSERT INTO large (k) SELECT 7 FROM generate_series(1, 3000)', stderr => \$stderr);
	like($stderr, $no_room, "$wal: nor its chains");
	verified("$wal: no room for an overflow page");
	$node->safe_psql('postgres', 'DELETE FROM large WHERE k % 3 = 0; VACUUM large');
	verified("$wal: after VACUUM");

	$node->stop('immediate');
	$node->start;
	verified("$wal: after a crash");
	$node->safe_psql('postgres', 'INSERT INTO large (k) SELECT i FROM generate_series(1, 20000) i');
	goes_on("$wal: with room again");
	drop_tables();
}

# ---- no room: a file system that is full ----

# A server in a namespace of its own, which has a small file system.  Its clients
# are outside.  Returns the process that keeps the namespace, or undef where the
# system does not let us.
sub make_small_filesystem
{
	my ($mountpoint) = @_;
	my $pid = fork() // die "could not fork: $!";

	if ($pid == 0)
	{
		open(STDERR, '>', '/dev/null');
		{ exec('unshare', '--user', '--map-root-user', '--mount', 'sh', '-c',
			"mount -t tmpfs -o size=36m,mode=777 none '$mountpoint' && "
			  . "mkdir '$mountpoint/space' && touch '$mountpoint/ready' && exec sleep 900") }
		POSIX::_exit(1);
	}
	foreach my $try (1 .. 50)
	{
		usleep(100_000);
		return undef if waitpid($pid, POSIX::WNOHANG()) != 0;
		return $pid if system("@{[ within($pid) ]} test -e '$mountpoint/ready' 2>/dev/null") == 0;
	}
	kill('TERM', $pid);
	waitpid($pid, 0);
	return undef;
}

# A command within the namespace, as an ordinary user.
sub within
{
	my ($holder) = @_;
	return "nsenter --user --mount --preserve-credentials -t $holder "
	  . "unshare --user --map-user=1000 --map-group=1000";
}

sub fill_filesystem
{
	my ($wal, $holder, $mountpoint) = @_;
	my $within = within($holder);
	my $start = start_command();
	my ($status, $stderr) = (0, '');

	$node->append_conf('postgresql.conf', "lazyhash.wal = $wal\nshared_buffers = 1MB\n");
	$node->stop;
	system("$within dd if=/dev/zero of='$mountpoint/ballast' bs=1M count=30 2>/dev/null") == 0
	  or BAIL_OUT('could not write to the small file system');
	system("$within $start >/dev/null") == 0 or BAIL_OUT('no start within the namespace');
	$node->_update_pid(1);
	$node->safe_psql('postgres', "CREATE TABLESPACE small LOCATION '$mountpoint/space'")
	  if $node->safe_psql('postgres',
		q{SELECT count(*) FROM pg_tablespace WHERE spcname = 'small'}) == 0;
	$node->safe_psql('postgres', q{CREATE TABLE large (id serial, k bigint);
		CREATE INDEX large_k ON large USING lazyhash (k) WITH (fillfactor = 10, batch = 8)
		TABLESPACE small});

	# a phase is made as a hole; it is when its pages are written that there is no room
	for (my $first = 1; $status == 0 && $first < 200000; $first += 500)
	{
		$status = $node->psql('postgres',
			"INSERT INTO large (k) SELECT $first + i FROM generate_series(1, 500) i",
			stderr => \$stderr);
	}
	like($stderr, qr/could not (?:extend|write).*No space left on device/s,
		"$wal: the disk is full");
	$node->stop('immediate');

	# that may keep the server from starting, but room is all that it needs
	system("$within rm '$mountpoint/ballast'") == 0 or BAIL_OUT('could not make room');
	system("$within $start >/dev/null") == 0 or BAIL_OUT('no start after there was room');
	$node->_update_pid(1);
	verified("$wal: disk full, crash, and room again");
	goes_on("$wal: disk full, crash, and room again");
	$node->safe_psql('postgres', 'DROP TABLE large');
}

SKIP:
{
	skip 'the library was built without test points', 1 if !$has_test_points;
	foreach my $wal (qw(auto generic))
	{
		fail_everywhere($wal);
		interrupt_splits($wal);
	}
}
hit_size_limit($_) foreach qw(auto generic);
SKIP:
{
	my $mountpoint = PostgreSQL::Test::Utils::tempdir_short();
	my $holder = make_small_filesystem($mountpoint);

	skip 'no file system can be mounted here', 1 if !defined $holder;
	fill_filesystem($_, $holder, $mountpoint) foreach qw(auto generic);
	$node->stop('immediate');
	kill('TERM', $holder);
	waitpid($holder, 0);
}

done_testing();

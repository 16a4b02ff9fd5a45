# Recovery under settings that change what is written and when: wal_level =
# minimal, full_page_writes = off, checksums, wal_log_hints, and
# wal_consistency_checking with both kinds of WAL and a change between them.

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

my $instances = 0;

sub make_node
{
	my ($settings, @initdb) = @_;
	my $node = PostgreSQL::Test::Cluster->new('node_' . ++$instances);

	$node->init(allows_streaming => 1, extra => [ '--wal-segsize=1', '--no-sync', @initdb ]);
	$node->append_conf('postgresql.conf', qq{
		shared_preload_libraries = 'lazyhash'
		autovacuum = off
		fsync = off
		jit = off
		log_statement = none
		max_wal_size = 64MB
		wal_keep_size = 64MB
		shared_buffers = 2MB
		bgwriter_delay = 10ms
		$settings
	});
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION lazyhash');
	$node->safe_psql('postgres', $CrashAtAnyRecord::functions);
	return $node;
}

# Lookups that find dead rows mark entries, which is not logged.
my $work = q{
	INSERT INTO words (k) SELECT i FROM generate_series(1, 1500) i;
	INSERT INTO words (k) SELECT 7 FROM generate_series(1, 1500);
	DELETE FROM words WHERE k = 7 AND id % 3 = 0 OR k % 5 = 0;
	SET enable_seqscan = off;
	SET enable_bitmapscan = off;
	SELECT count(id) FROM words WHERE k = 7;
	SELECT count(id) FROM words WHERE k = 7;
	INSERT INTO words (k) SELECT 7 FROM generate_series(1, 300);
};
my $remove = q{
	DELETE FROM words WHERE id % 3 = 1;
	VACUUM words;
};

# One round trip: work, crash, look; with and without a checkpoint on the way.
sub round_trip
{
	my ($what, $node, $wal) = @_;
	my ($count, $stderr);

	$node->safe_psql('postgres', "ALTER SYSTEM SET lazyhash.wal = $wal");
	$node->reload;
	$node->safe_psql('postgres', q{
		DROP TABLE IF EXISTS words;
		CREATE TABLE words (id serial, k bigint);
		CREATE INDEX words_k ON words USING lazyhash (k) WITH (fillfactor = 10, batch = 8)});
	foreach my $step ($work, 'CHECKPOINT', $work, $remove, 'CHECKPOINT', $remove, $work)
	{
		$node->safe_psql('postgres', $step);
		next if $step =~ /^CHECKPOINT/;
		$node->safe_psql('postgres', $CrashAtAnyRecord::flush);
		$count = $node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM words');
		$node->stop('immediate');
		$node->start;
		my ($stdout, $problem);
		$node->psql('postgres', 'SELECT verify()', stdout => \$stdout, stderr => \$problem);
		$stderr .= $problem;
		$stderr .= 'rows were lost'
		  if $node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM words') ne $count;
	}
	is($stderr, '', "$what, $wal: right after each of five crashes");
	$node->safe_psql('postgres',
		'SELECT use_tables(); VACUUM; SELECT no_split_is_left(), verify()');
}

# ---- WAL that may be left out ----

# Tables and indexes that are new in a transaction are not logged under
# wal_level = minimal: small ones are logged at commit, large ones synced.
sub minimal
{
	my $node = make_node("wal_level = minimal\nmax_wal_senders = 0\n");

	foreach my $threshold ('0', '2MB')
	{
		$node->safe_psql('postgres', "ALTER SYSTEM SET wal_skip_threshold = '$threshold'");
		$node->reload;
		foreach my $wal (qw(auto generic))
		{
			$node->safe_psql('postgres', "ALTER SYSTEM SET lazyhash.wal = $wal");
			$node->reload;
			$node->safe_psql('postgres', qq{
				DROP TABLE IF EXISTS words, built;
				BEGIN;
				CREATE TABLE words (id serial, k bigint);
				CREATE INDEX words_k ON words USING lazyhash (k) WITH (fillfactor = 10, batch = 8);
				INSERT INTO words (k) SELECT i FROM generate_series(1, 3000) i;
				INSERT INTO words (k) SELECT 7 FROM generate_series(1, 3000);
				CREATE TABLE built (id serial, k bigint);
				INSERT INTO built (k) SELECT i % 3000 FROM generate_series(1, 6000) i;
				CREATE INDEX built_k ON built USING lazyhash (k);
				SAVEPOINT a;
				TRUNCATE built;
				INSERT INTO built (k) SELECT i FROM generate_series(1, 100) i;
				ROLLBACK TO a;
				INSERT INTO built (k) SELECT 7 FROM generate_series(1, 1000);
				COMMIT;
			});
			$node->stop('immediate');
			$node->start;
			is($node->safe_psql('postgres', 'SELECT verify()'), '',
				"wal_level = minimal, wal_skip_threshold = $threshold, $wal: right after a crash");
			is($node->safe_psql('postgres',
					'SELECT (SELECT count(*) FROM words), (SELECT count(*) FROM built)'),
				'6000|7000',
				"wal_level = minimal, wal_skip_threshold = $threshold, $wal: no row is lost");
			# logged from now on
			$node->safe_psql('postgres', "$work $remove");
			$node->stop('immediate');
			$node->start;
			is($node->safe_psql('postgres', 'SELECT verify()'), '',
				"wal_level = minimal, wal_skip_threshold = $threshold, $wal: right after another");
		}
	}
	$node->stop;
}

sub settings
{
	my ($what, $config, @initdb) = @_;
	my $node = make_node($config, @initdb);

	round_trip($what, $node, $_) foreach qw(auto generic);
	$node->stop;
	command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ],
		"$what: all checksums are right")
	  if "@initdb" =~ /checksums/;
}

# ---- what replay makes is compared with the primary's pages ----

my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/load.sql", join("\n", '\set k random(1, 3000)',
		'INSERT INTO words (k) SELECT :k + i FROM generate_series(0, 40) i;',
		'INSERT INTO words (k) SELECT :k % 10 FROM generate_series(1, 100);',
		'UPDATE words SET k = k + 1 WHERE k = :k;', 'DELETE FROM words WHERE k = :k;',
		('SELECT count(id) FROM words WHERE k = :k;') x 2, ''));
append_to_file("$dir/shrink.sql", join("\n", '\set k random(0, 9)',
		'DELETE FROM words WHERE k = :k AND id % 4 <> 0;', 'VACUUM words;', '\sleep 50 ms', ''));

sub consistency
{
	my ($what, $config, @initdb) = @_;
	# "all" is resolved before the library is loaded, and so does not include it
	my $node = make_node("$config\nwal_consistency_checking = 'all, lazyhash'\nwal_keep_size = 8GB",
		@initdb);
	my $standby = PostgreSQL::Test::Cluster->new("standby_$instances");

	$node->safe_psql('postgres', q{
		CREATE TABLE words (id serial, k bigint);
		CREATE INDEX words_k ON words USING lazyhash (k) WITH (fillfactor = 10, batch = 8)});
	$node->backup('backup');
	$standby->init_from_backup($node, 'backup', has_streaming => 1);
	$standby->start;

	local $ENV{PGOPTIONS} = '-c enable_seqscan=off -c enable_bitmapscan=off';
	my @load = map {
		IPC::Run::start([ 'pgbench', '--no-vacuum', '-T', '4', @$_, $node->connstr('postgres') ],
			'<', \undef, '>', '/dev/null', '2>', '/dev/null')
	} [ '-c', 3, '-f', "$dir/load.sql" ], [ '-c', 1, '-f', "$dir/shrink.sql" ];
	foreach my $wal (qw(generic auto) x 3)
	{
		usleep(600_000);
		$node->safe_psql('postgres', "ALTER SYSTEM SET lazyhash.wal = $wal");
		$node->reload;
	}
	$_->finish foreach @load;
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $caught_up = $standby->poll_query_until('postgres',
		"SELECT pg_last_wal_replay_lsn() >= '" . $node->lsn('flush') . "'");
	ok($caught_up, "$what: the standby has replayed all");
	unlike(slurp_file($standby->logfile), qr/inconsistent page|PANIC:|TRAP:/,
		"$what: and found no difference");
	is($caught_up ? $standby->safe_psql('postgres', 'SELECT verify()') : 'not replayed', '',
		"$what: its index is right");
	foreach my $wal ($node->pg_version < 16 ? qw(auto generic) : ())
	{
		my $lsn = $node->lsn('insert');
		my $compared = $node->safe_psql('postgres', qq{
			CREATE EXTENSION IF NOT EXISTS pg_walinspect;
			SET lazyhash.wal = $wal;
			INSERT INTO words (k) SELECT i FROM generate_series(1, 100) i;
			$CrashAtAnyRecord::flush;
			SELECT count(DISTINCT resource_manager)
			FROM pg_get_wal_records_info_till_end_of_wal('$lsn')
			WHERE resource_manager IN ('lazyhash', 'Generic') AND
			      block_ref ~ 'FPW for WAL verification'});
		is($compared =~ s/\s//gr, 1, "$what, $wal: records do carry the pages to compare with");
	}
	$standby->stop('immediate');
	$node->stop('immediate');

	# gigabytes of WAL, perhaps in memory
	$_->clean_node foreach $standby, $node;
}

minimal();
settings('full_page_writes = off', 'full_page_writes = off');
settings('checksums', '', '--data-checksums');
settings('wal_log_hints', 'wal_log_hints = on');
consistency('consistency', '');
consistency('consistency, wal_log_hints, no full pages',
	"wal_log_hints = on\nfull_page_writes = off");
consistency('consistency, checksums', '', '--data-checksums');

done_testing();

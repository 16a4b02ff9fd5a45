# CrashAtAnyRecord: record a workload that writes every kind of WAL record, then
# recover to the end of each record and see whether the indexes are right.
#
#     my $recording = CrashAtAnyRecord->record(mode => 'custom');
#     my @boundaries = $recording->choose(500);
#     my @failures = $recording->recover_all(\@boundaries, 2);
#
# A crash is made of a copy of the data directory and of the WAL up to a record,
# with zeroes in place of what came after.  The copies are taken while the
# workload runs, all processes stopped by a signal, so that their pages are of
# different ages: some were written long ago, some just now.  Each crash starts
# from the last copy before it.  Recovery is that of a single-user server, which
# goes the same way as any other and is up in a tenth of a second.
#
# The same copies and the same WAL, fed to a standby record by record, show what
# a standby answers in between.

package CrashAtAnyRecord;

use strict;
use warnings;

use File::Path qw(rmtree);
use IPC::Run;
use POSIX qw(_exit);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time usleep);

use constant SEGMENT => 1024 * 1024;

# Kinds that every recording has to contain.  FREE takes an error at the right
# place, hence a library that was built with test points.
our @kinds = (
	qw(APPEND POST OVERFLOW SPLIT SPLIT_BEGIN SPLIT_MOVE SPLIT_EXTEND SPLIT_PROGRESS SPLIT_FINISH),
	qw(REMOVE REMOVE_DEAD SQUEEZE PHASE), 'REMOVE_DEAD with horizon');

# What transactions without an xid have logged is not flushed when they commit,
# nor does an xid alone do it: this one writes something.
our $flush = q{SELECT FROM (SELECT pg_logical_emit_message(true, 'flush', '')) x};

my $instances = 0;

# ---- what is looked at after a recovery ----

# All of it in SQL, so that it comes with the copies.
our $functions = q{
	-- Looks up each row of the table by its key: each has to be found, once.  A row that
	-- the index leads to in vain, or that another key leads to, shows in the sums.
	CREATE FUNCTION compare_with_table(index regclass) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		tab regclass := (SELECT indrelid FROM pg_index WHERE indexrelid = index);
		scanned record;
		found record;
	BEGIN
		EXECUTE format('SELECT count(*) AS n, sum(id) AS ids, sum(k::numeric) AS keys FROM %s', tab)
			INTO scanned;
		PERFORM set_config('enable_seqscan', 'off', true);
		FOR pass IN 1 .. 2 LOOP
			PERFORM set_config('enable_indexscan', (pass = 1)::text, true),
			        set_config('enable_bitmapscan', (pass = 2)::text, true);
			-- there is no way but one to find all keys
			EXECUTE format('WITH keys AS MATERIALIZED (SELECT DISTINCT k FROM %s)
			                SELECT count(*) AS n, sum(x.id) AS ids, sum(x.k::numeric) AS keys
			                FROM keys, LATERAL (SELECT id, k FROM %s t
			                                    WHERE t.k = keys.k OFFSET 0) x',
			               tab, tab) INTO found;
			IF found IS DISTINCT FROM scanned THEN
				RAISE EXCEPTION 'index %: table has %, by index there are %', index, scanned, found;
			END IF;
		END LOOP;
		PERFORM set_config(name, 'on', true)
		FROM unnest('{enable_seqscan, enable_indexscan, enable_bitmapscan}'::text[]) name;
	END $$;

	CREATE FUNCTION ready_indexes(OUT index regclass, OUT valid boolean) RETURNS SETOF record
	LANGUAGE sql AS $$
		SELECT i.indexrelid::regclass, i.indisvalid
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
		WHERE a.amname = 'lazyhash' AND (c.relpersistence = 'p' OR NOT pg_is_in_recovery())
		ORDER BY 1
	$$;

	CREATE FUNCTION verify() RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM lazyhash_check(index, true), compare_with_table(index)
		FROM ready_indexes() WHERE valid;
	END $$;

	-- Inserts into each bucket, so that splits that the crash left unfinished go on.
	CREATE FUNCTION use_tables() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE tab regclass;
	BEGIN
		FOR tab IN SELECT DISTINCT i.indrelid::regclass
		           FROM ready_indexes() r JOIN pg_index i ON i.indexrelid = r.index LOOP
			EXECUTE format('INSERT INTO %s (k) SELECT 7919 * i FROM generate_series(1, 200) i',
			               tab);
			EXECUTE format('INSERT INTO %s (k) SELECT k FROM %s LIMIT 40', tab, tab);
			EXECUTE format('DELETE FROM %s WHERE id %% 5 = 0', tab);
		END LOOP;
	END $$;

	CREATE FUNCTION unfinished_splits() RETURNS text LANGUAGE sql AS $$
		SELECT string_agg(format('%s bucket %s', index, bucket), ', ' ORDER BY index, bucket)
		FROM ready_indexes(), lazyhash_bucket_info(index) WHERE valid AND state = 'being split'
	$$;

	CREATE FUNCTION no_split_is_left() RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF unfinished_splits() IS NOT NULL THEN
			RAISE EXCEPTION 'unfinished splits: %', unfinished_splits();
		END IF;
	END $$;

	-- Makes a table with an index, of one key so often that the library fails there.
	CREATE FUNCTION fail_while_growing(name text, point text, wal text) RETURNS void
	LANGUAGE plpgsql AS $$
	BEGIN
		EXECUTE format('CREATE TABLE %I (id serial, k bigint)', name);
		EXECUTE format('CREATE INDEX ON %I USING lazyhash (k) WITH (fillfactor = 10)', name);
		PERFORM set_config('lazyhash.wal', wal, true), set_config('lazyhash.fail_at', point, true);
		FOR round IN 1 .. 200 LOOP
			BEGIN
				EXECUTE format('INSERT INTO %I (k) SELECT 1 FROM generate_series(1, 90)', name);
			EXCEPTION WHEN internal_error THEN
				IF SQLERRM NOT LIKE 'test failure at %' THEN
					RAISE;
				END IF;
				PERFORM set_config('lazyhash.fail_at', '', true);
				RETURN;
			END;
		END LOOP;
		RAISE EXCEPTION 'never came to %', point;
	END $$;

	-- A key whose bucket is split next, and whose entries move (or stay).
	CREATE FUNCTION key_split_next(index regclass, moving boolean) RETURNS bigint LANGUAGE sql AS $$
		WITH next AS (SELECT maxbucket + 1 AS bucket,
		                     (1::bigint << (floor(log(2, maxbucket + 1))::int + 1)) - 1 AS mask
		              FROM lazyhash_metapage_info(index))
		SELECT k FROM next, generate_series(1::bigint, 1000000) k
		WHERE hashint8(k)::bigint & mask =
		      CASE WHEN moving THEN bucket ELSE bucket & (mask >> 1) END
		LIMIT 1
	$$;
};

# What a single-user server is told after the recovery.  A line each.
my @after_recovery = (
	'SELECT verify()',
	'SELECT use_tables()',
	'SELECT verify()',
	'VACUUM',
	'SELECT no_split_is_left()',
	'SELECT verify()',
	q{DO $$ BEGIN RAISE WARNING 'all is well'; END $$},);

# ---- the workload ----

# Stages, each a list of statements.  Each statement makes a transaction; in
# mode "mixed" they take turns between the kinds of WAL.
sub stages
{
	my ($self) = @_;
	my @grow = map {
		my $first = $_ * 100;
		"INSERT INTO words (k) SELECT i FROM generate_series($first, $first + 99) i"
	} 1 .. 9;
	my @pile_up = map { 'INSERT INTO words (k) SELECT 77 FROM generate_series(1, 300)' } 1 .. 9;
	# in mode "mixed", somebody else goes on with other records
	my $interrupted = 'DO $$ BEGIN
			PERFORM set_config(\'lazyhash.fail_at\', \'split-move:5\', true);
			FOR round IN 1 .. 50 LOOP
				INSERT INTO chains (k) SELECT i FROM generate_series(1, 60) i;
			END LOOP;
			RAISE EXCEPTION \'no long chain was split\';
		EXCEPTION WHEN internal_error THEN NULL;
		END $$';
	my @lose_block = (
		'DO $$ BEGIN
			PERFORM set_config(\'lazyhash.fail_at\', \'overflow-new\', true);
			INSERT INTO words (k) SELECT 78 FROM generate_series(1, 3000);
			RAISE EXCEPTION \'no overflow page was needed\';
		EXCEPTION WHEN internal_error THEN NULL;
		END $$',
		'DELETE FROM words WHERE k = 102',
		'VACUUM words');

	return (
		'create' => [
			'CREATE TABLE words (id serial, k bigint) WITH (autovacuum_enabled = off)',
			'CREATE INDEX words_k ON words USING lazyhash (k) WITH (fillfactor = 10, batch = 8)',
			'CREATE UNLOGGED TABLE lost (id serial, k bigint)',
			'CREATE INDEX lost_k ON lost USING lazyhash (k)',
			'INSERT INTO lost (k) SELECT i FROM generate_series(1, 100) i' ],
		'grow' => \@grow,
		'pile up' => \@pile_up,
		'split long chains' => [
			# the number of buckets depends on that of rows, so it is the same the second time
			'CREATE TABLE chains (id serial, k bigint) WITH (autovacuum_enabled = off)',
			'INSERT INTO chains (k) SELECT 1 FROM generate_series(1, 9700)',
			'CREATE INDEX chains_k ON chains USING lazyhash (k)',
			q{CREATE TABLE chosen AS SELECT key_split_next('chains_k', true) AS k},
			'DROP INDEX chains_k',
			'TRUNCATE chains',
			'INSERT INTO chains (k) SELECT chosen.k FROM chosen, generate_series(1, 9700)',
			'CREATE INDEX chains_k ON chains USING lazyhash (k)',
			($self->{test_points} ? $interrupted : ()),
			('INSERT INTO chains (k) SELECT i FROM generate_series(1, 400) i') x 3 ],
		'find dead rows' => [
			'DELETE FROM words WHERE k = 77 AND id % 4 = 0',
			'SET enable_seqscan = off; SET enable_bitmapscan = off;
				SELECT count(id) FROM words WHERE k = 77;
				SELECT count(id) FROM words WHERE k = 77',
			'INSERT INTO words (k) SELECT 77 FROM generate_series(1, 200)' ],
		'roll back' => [
			'BEGIN; INSERT INTO words (k) SELECT i FROM generate_series(5000, 5200) i; ROLLBACK',
			'UPDATE words SET k = k + 1 WHERE k BETWEEN 300 AND 400' ],
		'vacuum' => [
			'DELETE FROM words WHERE id % 3 <> 0',
			'DELETE FROM chains WHERE id % 5 <> 0',
			'VACUUM words',
			'VACUUM chains' ],
		# there is room on the table's pages, so that nothing prunes them, and what is known of
		# the dead rows travels with the records of the index
		'find dead rows on roomy pages' => [
			'DELETE FROM chains WHERE k = (SELECT k FROM chosen) AND id % 7 = 0',
			'SET enable_seqscan = off; SET enable_bitmapscan = off;
				SELECT count(id) FROM chains WHERE k = (SELECT k FROM chosen);
				SELECT count(id) FROM chains WHERE k = (SELECT k FROM chosen)',
			'INSERT INTO chains (k) SELECT k FROM chosen, generate_series(1, 200)',
			'INSERT INTO chains (k) SELECT k FROM chosen, generate_series(1, 200)' ],
		'use pages again' => [
			('INSERT INTO words (k) SELECT 79 FROM generate_series(1, 400)') x 3,
			('INSERT INTO words (k) SELECT i FROM generate_series(1, 150) i') x 2 ],
		'build' => [
			'CREATE INDEX CONCURRENTLY words_k2 ON words USING lazyhash (k) WITH (fillfactor = 20)',
			'CREATE INDEX words_k3 ON words USING lazyhash (k)',
			'REINDEX INDEX CONCURRENTLY words_k2',
			'INSERT INTO words (k) SELECT i FROM generate_series(1, 200) i',
			'DROP INDEX words_k3' ],
		($self->{test_points} ? ('lose a block' => \@lose_block) : ()),);
}

# ---- recording ----

# Options: mode (generic, custom, mixed), config (lines for postgresql.conf).
sub record
{
	my ($class, %options) = @_;
	my $self = bless {
		mode => $options{mode},
		node => PostgreSQL::Test::Cluster->new('recorded_' . ++$instances),
		copies => [],
		dir => PostgreSQL::Test::Utils::tempdir(),
	}, $class;

	$self->start_node($options{config} // '');
	$self->prepare_database;
	$self->run_stages;
	$self->read_wal;
	$self->{node}->stop('immediate');
	return $self;
}

sub start_node
{
	my ($self, $config) = @_;
	my $node = $self->{node};
	my $preload = $self->{mode} eq 'generic' ? '' : 'lazyhash';

	$node->init(extra => [ '--wal-segsize=1', '--no-sync', '--locale=C', '--encoding=UTF8' ]);
	# small, so that pages get written at any time; all WAL is kept
	$node->append_conf('postgresql.conf', qq{
		shared_preload_libraries = '$preload'
		shared_buffers = 1MB
		fsync = off
		autovacuum = off
		max_connections = 10
		wal_level = replica
		hot_standby = on
		max_wal_size = 1GB
		min_wal_size = 2MB
		wal_keep_size = 1GB
		wal_recycle = off
		wal_init_zero = off
		checkpoint_timeout = 1h
		bgwriter_delay = 10ms
		max_parallel_maintenance_workers = 0
		log_checkpoints = off
		jit = off
		$config
	});
	$node->start;
}

sub prepare_database
{
	my ($self) = @_;
	my $node = $self->{node};

	# each recovery begins with a copy: it shall be small
	$node->safe_psql('postgres', "UPDATE pg_database SET datistemplate = false");
	$node->safe_psql('postgres', "DROP DATABASE $_") foreach qw(template0 template1);
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_walinspect; CREATE EXTENSION lazyhash');
	$self->{test_points} = $node->safe_psql('postgres',
		q{LOAD 'lazyhash'; SELECT current_setting('lazyhash.fail_at', true) IS NOT NULL}) eq 't';
	$node->safe_psql('postgres', $functions);
	$node->safe_psql('postgres', 'VACUUM FULL; CHECKPOINT');
}

sub run_stages
{
	my ($self) = @_;
	my $node = $self->{node};
	my @stages = $self->stages;
	my $images = 'off';
	my $turn = 0;
	my %filenodes;

	$self->{start_lsn} = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	while (my ($name, $statements) = splice(@stages, 0, 2))
	{
		# full-page images hide what redo makes of a page; pages of different ages show it
		$images = $images eq 'on' ? 'off' : 'on';
		$node->safe_psql('postgres', "ALTER SYSTEM SET full_page_writes = $images");
		$node->reload;
		$node->safe_psql('postgres', 'CHECKPOINT') if @{ $self->{copies} } % 3 == 0;
		$self->copy($name);
		foreach my $statement (@$statements)
		{
			my $wal = $self->{mode} eq 'mixed' && $turn++ % 2 == 1 ? 'generic' : 'auto';
			# one statement an -c, for VACUUM and the like can be in no transaction block
			PostgreSQL::Test::Utils::run_log([
				'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'),
				'-c', "LOAD 'lazyhash'; SET lazyhash.wal = $wal",
				map { ('-c', $_) } ($statement =~ /^DO/ ? $statement : split(/;\s*/, $statement)) ])
			  or die "the workload failed at: $statement";
			$filenodes{$_} = 1 foreach split(/\n/, $node->safe_psql('postgres',
				'SELECT pg_relation_filenode(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
				 WHERE amname = \'lazyhash\' AND relpersistence = \'p\''));
		}
	}
	$node->safe_psql('postgres', "$flush; CHECKPOINT");
	$self->{filenodes} = [ sort keys %filenodes ];
}

# A server's processes, postmaster first.
sub processes
{
	my ($node) = @_;
	my ($postmaster) = split(/\n/, slurp_file($node->data_dir . '/postmaster.pid'));
	my @pids = ($postmaster);

	foreach my $stat (glob('/proc/[0-9]*/stat'))
	{
		open(my $fh, '<', $stat) or next;
		my $line = <$fh> // next;
		push @pids, $1 if $line =~ /^(\d+) \(.*\) \S (\d+)/ && $2 == $postmaster;
	}
	return @pids;
}

# Copies the data directory as it is at this moment, without WAL.
sub copy
{
	my ($self, $name) = @_;
	my $number = @{ $self->{copies} };
	my $to = "$self->{dir}/copy$number";
	my $from = $self->{node}->data_dir;
	# what is flushed by now is part of the WAL that belongs to the copy
	my $lsn = $self->{node}->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
	my @pids = processes($self->{node});

	kill('STOP', @pids);
	usleep(20_000);
	my $status = system("mkdir '$to' && cd '$from' && tar -cf - --exclude=./pg_wal --exclude=./log "
		  . "--exclude=./postmaster.pid . | tar -C '$to' -xf -");
	kill('CONT', @pids);
	die "could not copy the data directory" if $status != 0;
	mkdir "$to/pg_wal" or die "could not make $to/pg_wal: $!";
	mkdir "$to/pg_wal/archive_status" or die "could not make it: $!";
	my ($control) = run_command([ 'pg_controldata', $to ]);
	my ($redo) = $control =~ /REDO location:\s+(\S+)/;
	# of the recording, this is not wanted in a recovery
	append_to_file("$to/postgresql.conf", "max_wal_size = 1GB\nlogging_collector = off\n");
	push @{ $self->{copies} }, { dir => $to, lsn => lsn_number($lsn), redo => lsn_number($redo),
		name => $name };
}

sub lsn_number
{
	my ($high, $low) = split('/', shift);
	return hex($high) * 4294967296 + hex($low);
}

sub lsn_text
{
	my $lsn = shift;
	return sprintf('%X/%X', $lsn >> 32, $lsn & 0xFFFFFFFF);
}

# Finds the records of the indexes: where each ends, and of which kind it is.
sub read_wal
{
	my ($self) = @_;
	my $node = $self->{node};
	my $rels = join('|', @{ $self->{filenodes} });
	my $rows = $node->safe_psql('postgres', qq{
		SELECT end_lsn, resource_manager, record_type, regexp_count(block_ref, 'rel '),
		       main_data_length
		FROM pg_get_wal_records_info('$self->{start_lsn}', pg_current_wal_flush_lsn())
		WHERE block_ref ~ 'rel [0-9]+/[0-9]+/($rels) fork main'
		   OR (resource_manager = 'Btree' AND record_type = 'REUSE_PAGE')
		ORDER BY start_lsn});
	my $copy = 0;

	foreach my $row (split(/\n/, $rows))
	{
		my ($end, $manager, $type, $blocks, $length) = split(/\|/, $row);
		my $kind = $manager eq 'lazyhash' ? $type . ($length > 0 ? ' with horizon' : '')
		  : $manager eq 'Generic' ? "generic record of $blocks block" . ($blocks > 1 ? 's' : '')
		  : "$manager $type";
		my $lsn = lsn_number($end);

		$copy++
		  while $copy + 1 < @{ $self->{copies} } && $self->{copies}[ $copy + 1 ]{lsn} <= $lsn;
		next if $lsn < $self->{copies}[0]{lsn};
		push @{ $self->{records} }, { lsn => $lsn, kind => $kind, copy => $copy };
	}
	$self->{wal_dir} = "$self->{dir}/wal";
	mkdir $self->{wal_dir} or die "could not make $self->{wal_dir}: $!";
	system('cp ' . $node->data_dir . "/pg_wal/00000001* '$self->{wal_dir}'") == 0
	  or die "could not copy WAL";
}

# kind => how many records of it were written
sub counts
{
	my ($self) = @_;
	my %counts;

	$counts{ $_->{kind} }++ foreach @{ $self->{records} };
	return \%counts;
}

# Kinds that should have been written but were not.
sub missing_kinds
{
	my ($self) = @_;
	my $counts = $self->counts;
	my @generic = map { "generic record of $_ block" . ($_ > 1 ? 's' : '') } 1 .. 4;
	my @expected = $self->{mode} eq 'generic' ? (@generic, 'Btree REUSE_PAGE')
	  : $self->{mode} eq 'custom' ? (@kinds, $self->{test_points} ? 'FREE' : ())
	  # where the kinds take turns, the rare ones may come to be either
	  : (@generic, qw(APPEND POST SPLIT PHASE REMOVE));

	return grep { !$counts->{$_} } @expected;
}

# Chooses so many records (0: all), of each kind as many as of another as far as
# there are such, spread evenly over the workload.
sub choose
{
	my ($self, $wanted) = @_;
	my %by_kind;
	my @chosen;

	return @{ $self->{records} } if $wanted == 0 || $wanted >= @{ $self->{records} };
	push @{ $by_kind{ $_->{kind} } }, $_ foreach @{ $self->{records} };
	my @order = sort { @{ $by_kind{$a} } <=> @{ $by_kind{$b} } } keys %by_kind;
	while (my $kind = shift @order)
	{
		my @records = @{ $by_kind{$kind} };
		my $share = int(($wanted - @chosen) / (@order + 1));

		$share = 1 if $share < 1;
		$share = @records if $share > @records;
		push @chosen, map { $records[ int(($_ + 0.5) * @records / $share) ] } 0 .. $share - 1;
	}
	return sort { $a->{lsn} <=> $b->{lsn} } @chosen;
}

# ---- crashing ----

sub segment_name
{
	my $number = shift;
	my $per_id = 4294967296 / SEGMENT;
	return sprintf('%08X%08X%08X', 1, int($number / $per_id), $number % $per_id);
}

# Puts into a directory the WAL from one place up to another, and zeroes after.
sub put_wal
{
	my ($self, $to, $from_lsn, $end_lsn) = @_;
	my $last = int(($end_lsn - 1) / SEGMENT);

	for my $number (int($from_lsn / SEGMENT) .. $last)
	{
		my $name = segment_name($number);

		open(my $in, '<:raw', "$self->{wal_dir}/$name")
		  or die "could not read WAL segment $name: $!";
		read($in, my $bytes, SEGMENT) == SEGMENT or die "WAL segment $name is short";
		if ($number == $last)
		{
			my $kept = $end_lsn - $number * SEGMENT;
			substr($bytes, $kept) = "\0" x (SEGMENT - $kept);
		}
		open(my $out, '>:raw', "$to/$name") or die "could not write $to/$name: $!";
		print $out $bytes;
		close($out) or die "could not write $to/$name: $!";
	}
}

# The data directory as a crash at the end of this record leaves it.
sub make_crashed
{
	my ($self, $record, $dir) = @_;
	my $copy = $self->{copies}[ $record->{copy} ];

	rmtree($dir);
	system('cp', '-a', $copy->{dir}, $dir) == 0 or die "could not copy $copy->{dir}";
	$self->put_wal("$dir/pg_wal", $copy->{redo}, $record->{lsn});
}

# Recovers and looks.  Returns what went wrong, empty if nothing.
sub recover
{
	my ($self, $record, $dir) = @_;
	my $output = '';
	my $input = join("\n", @after_recovery) . "\n";

	$self->make_crashed($record, $dir);
	my $harness = IPC::Run::start(
		[ 'postgres', '--single', '-D', $dir, '-c', 'log_min_messages=warning', 'postgres' ],
		'<', \$input, '>&', \$output, IPC::Run::timeout(120));
	eval { $harness->finish; 1 } or do { $harness->kill_kill; $output .= "TIMEOUT $@"; };
	return '' if $output =~ /WARNING:  all is well/ && $output !~ /ERROR|PANIC|FATAL|TRAP|TIMEOUT/
	  && $? == 0;
	$output =~ s/^(backend> )+//gm;
	return $output;
}

# Recovers to the end of each of the records, in so many processes.  Returns the
# failures, as texts.
sub recover_all
{
	my ($self, $records, $nworkers) = @_;
	my $begun = time;
	my @pids;
	my @failures;

	for my $worker (0 .. $nworkers - 1)
	{
		my $pid = fork() // die "could not fork: $!";
		if ($pid == 0)
		{
			my $status = eval { $self->work($records, $worker, $nworkers); 1 } ? 0 : 1;
			append_to_file("$self->{dir}/failures$worker", "a worker died: $@\0") if $status;
			# nothing of the parent's is to be cleaned up here
			_exit(0);
		}
		push @pids, $pid;
	}
	waitpid($_, 0) foreach @pids;
	foreach my $file (glob("$self->{dir}/failures*"))
	{
		push @failures, split(/\0/, slurp_file($file));
		unlink $file;
	}
	my $done = 0;
	$done += -s $_ foreach glob("$self->{dir}/done*");
	unlink glob("$self->{dir}/done*");
	push @failures, "recovered to $done records instead of " . @$records if $done != @$records;
	$self->{seconds} = time - $begun;
	return @failures;
}

sub work
{
	my ($self, $records, $worker, $nworkers) = @_;
	my $dir = "$self->{dir}/crashed$worker";

	for (my $i = $worker; $i < @$records; $i += $nworkers)
	{
		my $record = $records->[$i];
		my $problem = $self->recover($record, $dir);

		append_to_file("$self->{dir}/done$worker", '.');
		next if $problem eq '';
		append_to_file("$self->{dir}/failures$worker",
			sprintf("crash after %s that ends at %s (copy before \"%s\"):\n%s\0",
				$record->{kind}, lsn_text($record->{lsn}),
				$self->{copies}[ $record->{copy} ]{name}, $problem));
	}
	rmtree($dir);
}

# ---- a standby that stops at each record ----

# Feeds WAL to a standby up to each of the records in turn, and asks it at each.
# Returns the failures; sets {walked} to the number of records at which it
# answered, and {locked} to that at which a table was locked, as replay is held
# up inside a transaction that locks it.
sub walk_standby
{
	my ($self, $records) = @_;
	my $begun = time;
	my $node = PostgreSQL::Test::Cluster->new('walked_' . ++$instances);
	my $data = $node->data_dir;
	my @failures;

	$self->{walked} = $self->{locked} = 0;
	mkdir $node->basedir;
	$self->make_crashed({ copy => 0, lsn => $self->{copies}[0]{lsn} }, $data);
	$node->append_conf('postgresql.conf', join("\n", 'port = ' . $node->port,
			"unix_socket_directories = '" . $node->host . "'", 'wal_retrieve_retry_interval = 1ms',
			"restore_command = ''", 'max_standby_archive_delay = 0',
			'max_standby_streaming_delay = 0',
			'max_wal_size = 1GB', 'log_statement = none', 'lock_timeout = 300ms', ''));
	$node->set_standby_mode;
	$node->start;
	foreach my $record (@$records)
	{
		my $problem = $self->ask_standby($node, $record);

		push @failures, sprintf("standby at %s that ends at %s:\n%s", $record->{kind},
			lsn_text($record->{lsn}), $problem) if $problem ne '';
		last if @failures >= 5;
	}
	$node->stop('immediate');
	$self->{seconds} = time - $begun;
	return @failures;
}

sub ask_standby
{
	my ($self, $node, $record) = @_;
	my $lsn = lsn_text($record->{lsn});
	my ($stdout, $stderr);

	$self->put_wal($node->data_dir . '/pg_wal', $self->{copies}[0]{redo}, $record->{lsn});
	$node->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'")
	  or return 'the WAL was not replayed';
	# until now the tables may not exist, or the query be cancelled by what is replayed last
	for my $try (1 .. 3)
	{
		my $status = $node->psql('postgres', 'SELECT verify()', stdout => \$stdout,
			stderr => \$stderr);

		return '' if $status == 0 && ++$self->{walked};
		return '' if $stderr =~ /due to lock timeout/ && ++$self->{locked};
		last if $stderr !~ /due to conflict with recovery/;
	}
	return $stderr;
}

1;

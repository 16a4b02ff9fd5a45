# CorruptPages: damage an index in a thousand ways, and see whether the server says so.
#
#     my $test = CorruptPages->new(seed => 1);
#     $test->run(100);
#     my @failures = @{ $test->{failures} };
#     print $test->summary;
#
# A database with tables and lazyhash indexes is copied again and again, file by file, so that no
# page of a copy is in memory; in each index of the copy one thing is changed.  Then the index is
# checked, inspected, searched, inserted into, vacuumed and rebuilt.
#
# What is accepted
# ----------------
# Never: a crash, a PANIC, a statement that does not end, a lock that nobody lets go, an error
# with another code than index_corrupted (XX002) or data_corrupted (XX001), an error that does not
# name a block and suggest REINDEX, a row that does not satisfy the condition, a row that the
# table does not have.  (One exception: a metapage whose version or features were changed is
# refused as that of a newer lazyhash, with feature_not_supported and a hint at REINDEX.)
#
# If lazyhash_check(index, true) finds nothing right after the change, then all that follows has to
# be right: each lookup, each insert, VACUUM, and another check at the end.  That is what makes the
# check worth calling.
#
# If it does find something, lookups may fail with the errors above, or miss rows, or return a row
# twice: an entry whose hash has changed cannot be told from any other by a lookup.
#
# After REINDEX all has to be right again.
#
# A run is told by its seed; within it each mutation has a number, and can be had again by itself.
#
# What the check cannot see, and need not
# ---------------------------------------
# Targeted changes come with an expectation: that the check "must" complain, that it "never" may,
# or that it "may", because it depends on the rest of the page.  "never" is:
#
# - in any page's header: LSN (towards the past), checksum (off here), the known flag bits,
#   pd_prune_xid, page size and version; bytes in the hole between entries and special area
# - version, deletions: counters that are only compared with what they were
# - the hint has-dead, and a dead bit that is taken away
# - nruns, if less, and nsorted, if less and there are no runs: what they leave out is looked
#   through entry by entry; entries of that part of the tail in another order
# - tail, stamp, version, split_next of overflow pages; all of free pages but kind, posted and
#   entries, hence also free pages of zeroes; blocks of zeroes at the end of the file
# - ffactor, if a page can hold so many: the index only grows sooner or later
# - the start of phases that do not exist yet
# - the free space map, which is not believed anyway
#
# "may" is, above all, whatever concerns entries of rows that nobody sees any more; the entries of
# a stale page, if all of them were of such rows; and a stamp that is later than the bucket's last
# split, but not later than that of any.
#
# An LSN beyond the end of WAL is left out: the server itself takes care of it, or rather does not,
# for tables and indexes of any kind.

package CorruptPages;

use strict;
use warnings;

use File::Copy qw(copy);
use FindBin;
use lib $FindBin::RealBin;
use IPC::Run;
use LazyFile;
use PageMutations;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time);

# Tables of the database that is copied.  "chains": pages in all states, a long chain of equal
# keys, free pages, buckets to come.  "split": a split of a long chain, left off in the middle.
my %tables = (
	chains1 => { shape => 'chains' },
	chains2 => { shape => 'chains' },
	chains3 => { shape => 'chains', unlogged => 1 },
	split1 => { shape => 'split' },
	split2 => { shape => 'split' },
	split3 => { shape => 'split', unlogged => 1 },);

# ---- SQL ----

my $functions = <<'SQL';
-- Looks up keys by the index, by both kinds of scan, and compares with what reading the table
-- finds.  Returns what is not as it should be; "keys" and "rows" for comfort.
CREATE FUNCTION look_up(tab regclass, keys int[])
RETURNS TABLE (way text, outcome text, key int, example text) LANGUAGE plpgsql AS $$
DECLARE
	scan text;
	want record;
	got tid[];
	wrong bigint;
	hint text;
	looked_up bigint := 0;
BEGIN
	PERFORM set_config('enable_indexscan', 'off', true),
	        set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'on', true);
	CREATE TEMP TABLE truth AS
		SELECT one.k, array_agg(q.ctid ORDER BY q.ctid) FILTER (WHERE q.ctid IS NOT NULL) AS rows
		FROM unnest(keys) AS one (k) LEFT JOIN all_rows(tab) AS q ON q.k = one.k GROUP BY one.k;
	FOREACH scan IN ARRAY '{indexscan, bitmapscan}'::text[] LOOP
		way := scan;
		PERFORM set_config('enable_indexscan', (scan = 'indexscan')::text, true),
		        set_config('enable_bitmapscan', (scan = 'bitmapscan')::text, true),
		        set_config('enable_seqscan', 'off', true);
		FOR want IN SELECT * FROM pg_temp.truth LOOP
			looked_up := looked_up + 1;
			key := want.k;
			BEGIN
				EXECUTE format('SELECT array_agg(t.ctid ORDER BY t.ctid), '
				               'count(*) FILTER (WHERE k IS DISTINCT FROM $1) '
				               'FROM %s t WHERE k = $1', tab)
					INTO got, wrong USING want.k;
				CONTINUE WHEN got IS NOT DISTINCT FROM want.rows AND wrong = 0;
				IF wrong > 0 THEN
					outcome := 'of another key';
				ELSIF EXISTS (SELECT unnest(got) EXCEPT SELECT unnest(want.rows)) THEN
					outcome := 'not in the table';
				ELSIF EXISTS (SELECT unnest(want.rows) EXCEPT SELECT unnest(got)) THEN
					outcome := 'missing';
				ELSE
					outcome := 'twice';
				END IF;
				example := format('key %s: %s rows, not %s', key, coalesce(cardinality(got), 0),
				                  coalesce(cardinality(want.rows), 0));
			EXCEPTION WHEN OTHERS THEN
				GET STACKED DIAGNOSTICS outcome = RETURNED_SQLSTATE, example = MESSAGE_TEXT,
					hint = PG_EXCEPTION_HINT;
				example := example || ' HINT: ' || hint;
			END;
			RETURN NEXT;
		END LOOP;
	END LOOP;
	DROP TABLE pg_temp.truth;
	SELECT 'both', 'keys', looked_up, '' INTO way, outcome, key, example;
	RETURN NEXT;
END $$;

CREATE FUNCTION all_rows(tab regclass) RETURNS TABLE (k int, ctid tid) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT t.k, t.ctid FROM %s t', tab);
END $$;

-- Inserts rows one by one.  Returns errors.
CREATE FUNCTION put(tab regclass, keys int[])
RETURNS TABLE (way text, outcome text, key int, example text) LANGUAGE plpgsql AS $$
DECLARE
	hint text;
	inserted bigint := 0;
BEGIN
	way := 'insert';
	FOREACH key IN ARRAY keys LOOP
		BEGIN
			EXECUTE format('INSERT INTO %s (k) VALUES ($1)', tab) USING key;
			inserted := inserted + 1;
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS outcome = RETURNED_SQLSTATE, example = MESSAGE_TEXT,
				hint = PG_EXCEPTION_HINT;
			example := example || ' HINT: ' || hint;
			RETURN NEXT;
		END;
	END LOOP;
	SELECT 'rows', inserted, '' INTO outcome, key, example;
	RETURN NEXT;
END $$;

-- Keys of these rows, and some others: there and not there.
CREATE FUNCTION some_keys(tab regclass, rows tid[]) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
	keys int[];
BEGIN
	EXECUTE format('SELECT array_agg(k) FROM ((SELECT k FROM %1$s WHERE ctid = ANY ($1) LIMIT 150)'
	               ' UNION (SELECT k FROM %1$s WHERE hashint4(id) %% 97 = 0 LIMIT 60)'
	               ' UNION SELECT 7 UNION SELECT -i * 7919 FROM generate_series(1, 20) i) k', tab)
		INTO keys USING rows;
	RETURN keys;
END $$;

-- Throws all pages of the relation out of memory, by reading others.
CREATE FUNCTION forget_pages(relation regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
	FOR attempt IN 1 .. 40 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM pg_buffercache
		                      WHERE relfilenode = pg_relation_filenode(relation)
		                        AND reldatabase = (SELECT oid FROM pg_database
		                                           WHERE datname = current_database()));
		PERFORM count(prosrc) FROM pg_proc WHERE oid > 0;
		PERFORM count(attname) FROM pg_attribute WHERE attrelid > 0;
	END LOOP;
END $$;
SQL

# ---- the database to be copied ----

sub new
{
	my ($class, %options) = @_;
	my $self = bless {
		seed => $options{seed} // 1,
		numbers => $options{numbers} && { map { $_ => 1 } split /[ ,]+/, $options{numbers} },
		verbose => $options{verbose},
		copies => 0,
		mutations => 0,
		failures => [],
		tally => {},
	}, $class;

	srand($self->{seed});
	$self->start_server;
	$self->make_tables;
	return $self;
}

sub start_server
{
	my ($self) = @_;
	my ($major) = `pg_config --version` =~ /(\d+)/;
	my $node = PostgreSQL::Test::Cluster->new('corrupt');

	$node->init(extra => [ '--locale=C', $major >= 18 ? '--no-data-checksums' : () ]);
	$node->append_conf('postgresql.conf', join("\n",
		"shared_preload_libraries = 'lazyhash'",
		'autovacuum = off',
		'restart_after_crash = off',
		# small, so that pages are soon out of memory
		'shared_buffers = 1MB',
		'max_wal_size = 1GB',
		'jit = off',
		"statement_timeout = '60s'",
		''));
	$node->start;
	$node->safe_psql('postgres', 'CREATE DATABASE pristine');
	$node->safe_psql('pristine', 'CREATE EXTENSION lazyhash');
	# without it no backend can be brought to meet damage with an old copy of the metapage
	my ($failed) = $node->psql('pristine', 'CREATE EXTENSION pg_buffercache');
	$self->{can_forget} = !$failed;
	$node->safe_psql('pristine', $functions);
	$self->{node} = $node;
	return;
}

sub file_name
{
	my ($self, $table) = @_;
	return $self->{node}->data_dir . "/$self->{path}{$table}";
}

# The tables as they are now.
sub files
{
	my ($self) = @_;
	return { map { $_ => LazyFile->read($self->file_name($_)) } keys %tables };
}

sub make_tables
{
	my ($self) = @_;
	my $node = $self->{node};

	foreach my $table (sort keys %tables)
	{
		my $kind = $tables{$table}{unlogged} ? 'UNLOGGED TABLE' : 'TABLE';
		my $fill = $tables{$table}{shape} eq 'chains' ? 10 : 75;

		$node->safe_psql('pristine', qq{
			CREATE $kind $table (id int GENERATED ALWAYS AS IDENTITY, k int, v int DEFAULT 0)
			WITH (fillfactor = 80)});
		$node->safe_psql('pristine', $tables{$table}{shape} eq 'chains' ? qq{
			CREATE INDEX ${table}_k ON $table USING lazyhash (k)
				WITH (fillfactor = $fill, batch = 8);
			INSERT INTO $table (k) SELECT 7 FROM generate_series(1, 5000);
			DELETE FROM $table WHERE id % 2 = 0;
			VACUUM $table;
			INSERT INTO $table (k) SELECT hashint4(i) FROM generate_series(1, 9000) i;
		} : qq{
			INSERT INTO $table (k) SELECT i FROM generate_series(1, 200000) i
				WHERE hashint4(i) & 15 = 3 ORDER BY i LIMIT 9000;
			INSERT INTO $table (k) SELECT hashint4(i) FROM generate_series(1, 1000) i;
			CREATE INDEX ${table}_k ON $table USING lazyhash (k)
				WITH (fillfactor = $fill, batch = 8);
		});
		$self->{path}{$table} =
		  $node->safe_psql('pristine', "SELECT pg_relation_filepath('${table}_k')");
	}
	$self->leave_splits_unfinished(grep { $tables{$_}{shape} eq 'split' } sort keys %tables);

	# what a page was like some time ago
	$node->safe_psql('postgres', 'CHECKPOINT');
	$self->{stale} = $self->files;
	$node->safe_psql('pristine', qq{
		DELETE FROM $_ WHERE id % 5 = 1;
		VACUUM $_;
		INSERT INTO $_ (k) SELECT hashint4(i) FROM generate_series(10001, 10500) i;
	}) foreach grep { $tables{$_}{shape} eq 'chains' } sort keys %tables;
	$self->start_a_phase($_) foreach grep { $tables{$_}{shape} eq 'chains' } sort keys %tables;
	# dead rows, some known as such to the index, and versions of rows that it has no entries for
	$node->safe_psql('pristine', qq{
		UPDATE $_ SET v = 1 WHERE id % 9 = 3;
		DELETE FROM $_ WHERE id % 7 = 2;
		SET enable_seqscan = off;
		SET enable_bitmapscan = off;
		SELECT count(*) FROM (SELECT DISTINCT hashint4(i) AS k FROM generate_series(1, 2000) i) q
			JOIN LATERAL (SELECT id FROM $_ WHERE $_.k = q.k OFFSET 0) t ON true;
		ANALYZE $_;
	}) foreach sort keys %tables;
	$node->stop;
	$self->{files} = $self->files;
	foreach my $table (sort keys %tables)
	{
		my $name = $self->file_name($table) . '_fsm';
		$self->{maps}{$table} = LazyFile->read($name) if -e $name;
	}
	$node->start;
	foreach my $table (sort keys %tables)
	{
		$node->safe_psql('pristine', "SELECT lazyhash_check('${table}_k', true)");
		$self->require_states($table);
	}
	return;
}

# Lets the index grow until it has a phase that is not used up.
sub start_a_phase
{
	my ($self, $table) = @_;

	foreach my $i (1 .. 100)
	{
		last if $self->{node}->safe_psql('pristine',
			"SELECT reserved_pages > 0 FROM lazyhash_stats('${table}_k')") eq 't';
		$self->{node}->safe_psql('pristine', "INSERT INTO $table (k) SELECT hashint4(i) "
			  . "FROM generate_series(20000 + 60 * $i, 20059 + 60 * $i) i");
	}
	return;
}

# Has the split of bucket 3 of each table fail in the middle, by damage that is mended then.
sub leave_splits_unfinished
{
	my ($self, @tables) = @_;
	my $node = $self->{node};
	my (%damaged, %whole);

	$node->stop;
	my $files = $self->files;
	foreach my $table (@tables)
	{
		my $file = $files->{$table};
		my ($primary) = grep { $file->get($_, 'bucket') == 3 } $file->blocks_of_kind(PRIMARY);
		my @chain = $file->chain($primary);

		die "the chain of bucket 3 has only " . @chain . ' pages' if @chain < 11;
		$damaged{$table} = $chain[9];
		$whole{$table} = $file->get($chain[9], 'page_id');
		$file->set($chain[9], 'page_id', 0);
		$file->write($self->file_name($table));
	}
	$node->start;
	foreach my $table (@tables)
	{
		foreach my $i (1 .. 100)
		{
			my ($failed) = $node->psql('pristine', "INSERT INTO $table (k) SELECT i "
				  . "FROM generate_series(500000 + 100 * $i, 500099 + 100 * $i) i "
				  . 'WHERE hashint4(i) & 15 NOT IN (3, 5)');
			last if $failed;
		}
	}
	$node->stop;
	$files = $self->files;
	foreach my $table (@tables)
	{
		my $file = $files->{$table};

		$file->set($damaged{$table}, 'page_id', $whole{$table});
		$file->write($self->file_name($table));
	}
	$node->start;
	return;
}

# The tables are to have what the mutations are made for.
sub require_states
{
	my ($self, $table) = @_;
	my $file = $self->{files}{$table};

	my @primary = $file->blocks_of_kind(PRIMARY);

	if ($tables{$table}{shape} eq 'chains')
	{
		die "no chain of three pages in $table" if !grep { $file->chain($_) >= 3 } @primary;
		die "no free page in $table" if !$file->blocks_of_kind(FREE);
		die "no reserved page in $table" if !$file->blocks_of_kind(RESERVED);
		die "no dead entry in $table" if !grep { $file->has($_, HAS_DEAD) } @primary;
	}
	else
	{
		my ($source) = grep { $file->has($_, BEING_SPLIT) } @primary;

		die "no split in $table" if !$source;
		die "split of $table has not moved on" if $file->get($source, 'split_next') == $source;
	}
	return;
}

# ---- mutations ----

# The next mutation, of this table's index.
sub mutate
{
	my ($self, $table) = @_;
	my $mutation = $self->{maps}{$table} && chance(0.05)
	  ? map_mutation($self->{files}{$table}, $self->{maps}{$table})
	  : mutation($self->{files}{$table}, $self->{stale}{$table});
	my %rows;

	# the rows of the pages concerned are those to look up
	foreach my $block (grep { $_ != 0 } @{ $mutation->{blocks} })
	{
		foreach my $file (grep { $block < $_->nblocks } $self->{files}{$table}, $mutation->{file})
		{
			$rows{"($_->{block},$_->{offset})"} = 1 foreach $file->entries($block);
		}
	}
	return {
		%$mutation,
		number => ++$self->{mutations},
		table => $table,
		rows => [ sort keys %rows ],
		stale_cache => $self->{can_forget} && chance(0.3),
		generic => chance(0.5),
	};
}

# ---- what is done to an index ----

sub script
{
	my ($self, $mutation, $file_name) = @_;
	my $table = $mutation->{table};
	my $index = "${table}_k";
	my $some_keys = '(SELECT array_agg(i * 7919) FROM generate_series(1, 60) i)';
	my $rows = "'{" . join(',', map { "\"$_\"" } @{ $mutation->{rows} }) . "}'";
	my @block = grep { $_ < $mutation->{file}->nblocks } @{ $mutation->{blocks} };
	my @steps;

	push @steps, '', q{SET lazyhash.wal = 'generic'} if $mutation->{generic};
	push @steps, '', q{SET client_min_messages = error};
	push @steps, '', "SELECT some_keys('$table', $rows) AS keys", 'gset';
	push @steps,
	  # the session knows the metapage by heart when it is changed
	  '', "SELECT count(*) FROM (SELECT FROM $table WHERE k = 123456 OFFSET 0) t",
	  '', "SELECT forget_pages('$index')",
	  '', "\\! cp '$file_name.changed' '$file_name'"
	  if $mutation->{stale_cache};
	push @steps,
	  check => "SELECT lazyhash_check('$index')",
	  'check all' => "SELECT lazyhash_check('$index', true)",
	  inspect => "SELECT FROM lazyhash_metapage_info('$index')",
	  inspect => "SELECT FROM lazyhash_stats('$index')",
	  inspect => "SELECT FROM lazyhash_bucket_info('$index')";
	push @steps,
	  inspect => "SELECT FROM lazyhash_page_info('$index', $block[0])",
	  entries => "SELECT FROM lazyhash_page_entries('$index', $block[0])"
	  if @block;
	push @steps,
	  'look up' => "SELECT * FROM look_up('$table', :'keys')",
	  insert => "SELECT * FROM put('$table', :'keys')",
	  insert => "SELECT * FROM put('$table', $some_keys)",
	  insert => "SELECT * FROM put('$table', array_fill(7, '{60}'))",
	  delete => "DELETE FROM $table WHERE id % 11 = 3",
	  'look up' => "SELECT * FROM look_up('$table', :'keys')",
	  insert => "SELECT * FROM put('$table', :'keys')",
	  vacuum => "VACUUM $table",
	  insert => "INSERT INTO $table (k) SELECT hashint4(i) FROM generate_series(200001, 200400) i",
	  'look up' => "SELECT * FROM look_up('$table', :'keys')",
	  'last check' => "SELECT lazyhash_check('$index', true)",
	  reindex => "REINDEX INDEX $index",
	  reindex => "SELECT lazyhash_check('$index', true)",
	  reindex => "SELECT * FROM look_up('$table', :'keys')";

	my $script = "\\set VERBOSITY verbose\n";
	while (@steps)
	{
		my ($step, $sql) = splice(@steps, 0, 2);
		my $end = ';';

		$end = ' \\' . shift @steps if @steps && $steps[0] eq 'gset';
		$end = '' if $sql =~ /^\\/;
		$script .= "\\warn \@$step\n\\echo \@$step\n$sql$end\n";
	}
	return $script;
}

# Runs a script; the errors and the results of look_up() and put(), each with the step it is from.
sub run_script
{
	my ($self, $database, $script) = @_;
	my ($out, $err) = ('', '');
	my $ended = eval {
		IPC::Run::run(
			[ 'psql', '-XAtq', '-d', $self->{node}->connstr($database), '-f', '-' ],
			'<', \$script, '>', \$out, '2>', \$err,
			IPC::Run::timeout(120));
		1;
	};
	my (@events, $step);

	return { what => 'does not end', step => '', message => "$@" } if !$ended;
	foreach my $line (split /\n/, $err)
	{
		$step = $1, next if $line =~ /^@(.*)/;
		push @events, { what => $1, step => $step, message => $2, hint => '' }
		  if $line =~ /(?:ERROR|FATAL|PANIC):  (\w{5}): (.*)/;
		$events[-1]{hint} = $1 if @events && $line =~ /^HINT:  (.*)/;
		push @events, { what => 'crash', step => $step, message => $line }
		  if $line =~ /server closed the connection|connection to server (?:was lost|at .* failed)/;
	}
	foreach my $line (split /\n/, $out)
	{
		$step = $1, next if $line =~ /^@(.*)/;
		my ($way, $outcome, $key, $example) = split /\|/, $line, 4;
		next if !defined $example || $outcome =~ /^(keys|rows)$/;
		my ($message, $hint) = split / HINT: /, $example;
		push @events, { what => $outcome, step => $step, message => $message, hint => $hint // '' };
	}
	return @events;
}

# ---- judging ----

sub is_accepted_error
{
	my ($mutation, $event) = @_;

	return 1 if $event->{step} eq 'entries' && $event->{what} eq '22023';
	return 0 if $event->{hint} !~ /REINDEX/;
	return 1 if $event->{what} =~ /^XX00[12]$/ && $event->{message} =~ /blocks? \d+/;
	return $event->{what} eq '0A000' && grep { $_ == 0 } @{ $mutation->{blocks} };
}

my $never = qr/crash|does not end|of another key|not in the table/;

# Why this is not as it should be; nothing if it is.
sub judge
{
	my ($mutation, @events) = @_;
	my ($complaint) = grep { $_->{step} eq 'check all' } @events;
	my @wrong;

	foreach my $event (@events)
	{
		my $is_error = $event->{what} =~ /^[0-9A-Z]{5}$/;
		my $bad =
			$event->{what} =~ $never ? 'never accepted'
		  : $is_error && !is_accepted_error($mutation, $event) ? 'not an error of this kind'
		  : $event->{step} eq 'reindex' ? 'REINDEX does not help'
		  : !$complaint && $event->{step} ne 'entries' ? 'the check found nothing'
		  : undef;

		push @wrong, "$bad: in \"$event->{step}\": $event->{what} $event->{message}"
		  . ($event->{hint} ? " HINT: $event->{hint}" : '')
		  if $bad;
	}
	push @wrong, 'the check has to find this' if !$complaint && $mutation->{expected} eq 'must';
	push @wrong, "the check need not complain of this: $complaint->{message}"
	  if $complaint && $mutation->{expected} eq 'never';
	my %seen;
	return grep { !$seen{ s/\d+/N/gr }++ } @wrong;
}

# Adds up what became of it.
sub count
{
	my ($self, $mutation, @events) = @_;
	my $found = grep { $_->{step} eq 'check all' } @events;
	my @later = grep { $_->{step} !~ /check|inspect|entries|reindex/ } @events;
	my $outcome =
		!@later ? 'all answers right'
	  : (grep { $_->{what} =~ /missing|twice/ } @later) ? 'rows missing or twice'
	  : 'errors';

	$self->{tally}{ $mutation->{family} }{ $found ? "found, $outcome" : 'harmless' }++;
	$self->{tally}{all}{ $found ? "found, $outcome" : 'harmless' }++;
	$self->{errors}{ $_->{what} }++ foreach grep { $_->{what} =~ /^[0-9A-Z]{5}$/ } @events;
	return;
}

# ---- the run ----

# Makes the mutation in the file of that name, does everything to the index, judges.  False after a
# crash or a hang.
sub try_mutation
{
	my ($self, $mutation, $database, $name) = @_;
	my $start = time;

	if ($mutation->{stale_cache})
	{
		copy($name, "$name.changed") or die "could not copy $name: $!";
		$mutation->{file}->write("$name.changed");
	}
	else { $mutation->{file}->write($name); }
	$mutation->{map}->write("${name}_fsm") if $mutation->{map};
	my @events = $self->run_script($database, $self->script($mutation, $name));
	unlink "$name.changed";
	$self->count($mutation, @events);

	my @wrong = judge($mutation, @events);
	my $title = "seed $self->{seed}, mutation $mutation->{number}, "
	  . "$mutation->{table}, $mutation->{name}"
	  . ($mutation->{stale_cache} ? ', cached metapage' : '')
	  . ($mutation->{generic} ? ', generic WAL' : '') . " [$mutation->{expected}]";
	@wrong = (@wrong[ 0 .. 5 ], '...') if @wrong > 6;
	push @{ $self->{failures} }, join("\n    ", $title, @wrong) if @wrong;
	print STDERR sprintf("%s, %.1f s\n", $title, time - $start),
	  map { "    $_->{step}: $_->{what} $_->{message}\n" } @events
	  if $self->{verbose};
	return !grep { $_->{what} =~ /crash|does not end/ } @events;
}

# One copy of the database, a mutation for each index in it.
sub run_copy
{
	my ($self, $most) = @_;
	my $node = $self->{node};
	my @mutations = map { $self->mutate($_) } (sort keys %tables)[ 0 .. $most - 1 ];
	my $database = 'copy' . ++$self->{copies};

	@mutations = grep { $self->{numbers}{ $_->{number} } } @mutations if $self->{numbers};
	return if !@mutations;
	$node->safe_psql('postgres',
		"CREATE DATABASE $database TEMPLATE pristine STRATEGY file_copy");
	my $oid = $node->safe_psql('postgres',
		"SELECT oid FROM pg_database WHERE datname = '$database'");
	foreach my $mutation (@mutations)
	{
		my $name = $self->file_name($mutation->{table}) =~ s!base/\d+/!base/$oid/!r;

		if (!$self->try_mutation($mutation, $database, $name))
		{
			$self->restart;
			return;
		}
	}
	$node->safe_psql('postgres', "DROP DATABASE $database");
	return;
}

# After a crash, or after something that holds a lock for ever.
sub restart
{
	my ($self) = @_;
	my $node = $self->{node};

	$node->stop('immediate', fail_ok => 1);
	unlink $node->data_dir . '/postmaster.pid';
	$node->_update_pid(0);
	$node->start;
	# what is not logged is empty now
	delete @tables{ grep { $tables{$_}{unlogged} } keys %tables };
	return;
}

sub run
{
	my ($self, $mutations) = @_;
	my $start = time;

	while ($self->{mutations} < $mutations)
	{
		my $left = $mutations - $self->{mutations};
		my $most = keys %tables;

		$self->run_copy($left < $most ? $left : $most);
	}
	$self->{seconds} = time - $start;
	return;
}

sub summary
{
	my ($self) = @_;
	my @outcomes = sort keys %{ $self->{tally}{all} };
	my $text = sprintf("%d mutations in %.0f s\n", $self->{mutations}, $self->{seconds});

	foreach my $family ((sort grep { $_ ne 'all' } keys %{ $self->{tally} }), 'all')
	{
		my $counts = $self->{tally}{$family};
		$text .= "$family: " . join(', ', map { ($counts->{$_} // 0) . " $_" } @outcomes) . "\n";
	}
	$text .= 'errors: '
	  . join(', ', map { "$self->{errors}{$_} of $_" } sort keys %{ $self->{errors} }) . "\n";
	return $text;
}

1;

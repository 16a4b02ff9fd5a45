# What the tests that put lazyhash under concurrent load share: servers in both WAL modes with a
# streaming standby that verifies each page it replays, pgbench in the background, and SQL functions
# that compare what an index finds with what reading the whole table finds.
#
# LAZYHASH_STRESS_SECONDS in the environment makes each load last so long; scripts/stress.sh sets
# it. LAZYHASH_STRESS_CLIENTS is the number of clients of the main load.  LAZYHASH_STRESS_CONF holds
# lines for postgresql.conf, separated by semicolons.  LAZYHASH_STRESS_LOG is a file to which the
# title of each load and its number of transactions are added.

package LazyStress;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(stress_seconds stress_clients new_primary new_standby start_load finish_load
  run_loads no_crash indexes_in_order install_comparison wrong_keys caught_up);

# The seconds that a load lasts, where the test program itself asks for so many.
sub stress_seconds
{
	my ($default) = @_;
	return $ENV{LAZYHASH_STRESS_SECONDS} || $default;
}

sub stress_clients
{
	my ($default) = @_;
	return $ENV{LAZYHASH_STRESS_CLIENTS} || $default;
}

# A running server for one WAL mode, "generic" or "custom", with the extension.  The first standby
# or backup made of it checks that each page comes out of replay as it was.
sub new_primary
{
	my ($name, $mode, @lines) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(allows_streaming => 1);
	# "all" does not cover a resource manager that is only registered later
	my @mode_lines =
	  $mode eq 'custom'
	  ? ("shared_preload_libraries = 'lazyhash'", "wal_consistency_checking = 'all, lazyhash'")
	  : ("wal_consistency_checking = 'all'");
	$node->append_conf(
		'postgresql.conf', join("\n",
			@mode_lines,
			'autovacuum = off',
			'log_statement = none',
			'max_connections = 80',
			'max_wal_size = 1GB',
			# the images of wal_consistency_checking are most of the work
			'wal_compression = ' . (`pg_config --configure` =~ /with-lz4/ ? 'lz4' : 'on'),
			'shared_buffers = 32MB',
			"deadlock_timeout = '100ms'",
			'hot_standby_feedback = on',
			'max_standby_streaming_delay = -1',
			'restart_after_crash = off',
			@lines,
			split(/;/, $ENV{LAZYHASH_STRESS_CONF} || ''),
			''));
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION lazyhash');
	return $node;
}

sub new_standby
{
	my ($primary) = @_;
	my $standby = PostgreSQL::Test::Cluster->new($primary->name . '_standby');

	$primary->backup('base');
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->start;
	return $standby;
}

# Starts pgbench on a node.  Scripts is a list of [ name, weight, text ].
sub start_load
{
	my ($node, $title, $clients, $seconds, $scripts, @options) = @_;
	my @files;

	foreach my $script (@$scripts)
	{
		my ($name, $weight, $text) = @$script;
		my $file = $node->basedir . "/$title-$name.sql";
		append_to_file($file, $text) unless -e $file;
		push @files, '-f', "$file\@$weight";
	}
	my $load = { title => $title, out => '', err => '' };
	$load->{run} = IPC::Run::start(
		[
			'pgbench', '-n', '-c', $clients, '-j', $clients > 8 ? 8 : $clients,
			'-T', $seconds, @options, @files, $node->connstr('postgres')
		],
		'<', \'',
		'>', \$load->{out},
		'2>', \$load->{err},
		IPC::Run::timeout($seconds + 600));
	return $load;
}

# Waits for it.  An error in any client that is not a matter of luck (a deadlock, a serialization
# failure) fails the test.  Returns the number of transactions.
sub finish_load
{
	my ($load) = @_;
	my $ended_well = $load->{run}->finish;
	my ($done) = $load->{out} =~ /number of transactions actually processed: (\d+)/;

	ok($ended_well && $load->{err} !~ /aborted/, "$load->{title} ran without an error")
	  or diag(substr($load->{err}, 0, 4000));
	cmp_ok($done || 0, '>', 0, "$load->{title} did something");
	note("$load->{title}: " . ($done || 0) . ' transactions');
	append_to_file($ENV{LAZYHASH_STRESS_LOG}, "$load->{title} " . ($done || 0) . "\n")
	  if $ENV{LAZYHASH_STRESS_LOG};
	return $done || 0;
}

# Several loads at once; each an array of arguments for start_load().
sub run_loads
{
	my @loads = map { start_load(@$_) } @_;
	my $sum = 0;

	$sum += finish_load($_) foreach @loads;
	return $sum;
}

# Waits until the standby has replayed all that the primary has logged.
sub caught_up
{
	my ($primary, $standby) = @_;

	# the checkpoint flushes what transactions without an xid have logged
	my $target = $primary->safe_psql('postgres',
		'CHECKPOINT; SELECT pg_current_wal_flush_lsn()');
	return $standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$target'");
}

# The log tells of no crash, no page that replay made differently, and no false alarm.
sub no_crash
{
	my ($node) = @_;
	my $log = slurp_file($node->logfile);
	my @bad = grep {
		/TRAP: |PANIC: |FATAL:  inconsistent page|was terminated by signal|is corrupted at block/
	} split /\n/, $log;

	is(join("\n", @bad), '', 'no crash and no corruption in the log of ' . $node->name);
	return;
}

# All lazyhash indexes of the node pass the checker, against their tables too.
sub indexes_in_order
{
	my ($node, $when) = @_;
	my ($status, $out, $err) = $node->psql('postgres', 'SELECT lazyhash_check_all(true)');

	is($status, 0, "indexes on " . $node->name . " are in order, $when") or diag($err);
	# replay stands still when this is called: nothing may be left out
	unlike($err, qr/bucket by bucket only/, "all was checked on " . $node->name . ", $when");
	cmp_ok($out || 0, '>', 0, "there were indexes to check on " . $node->name . ", $when");
	return;
}

# How many keys does an index scan or a bitmap scan answer otherwise than reading the table does?
# Keys that are not in the table are asked for as well.
sub install_comparison
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION wrong_keys(source regclass, key text, predicate text, others text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
	query text;
	line text;
	plan text;
	kind text;
	wrong bigint;
	sum bigint := 0;
BEGIN
	query := format('SELECT count(*) FROM (SELECT key, array_agg(row ORDER BY row) AS rows FROM'
	                ' (SELECT %2$s AS key, ctid AS row FROM %1$s WHERE %3$s'
	                '  UNION ALL SELECT %4$s, NULL) t'
	                ' WHERE key IS NOT NULL GROUP BY key) truth'
	                ' WHERE array_remove(rows, NULL) IS DISTINCT FROM'
	                ' ARRAY(SELECT t.ctid FROM %1$s t'
	                '  WHERE %2$s = truth.key AND %3$s ORDER BY t.ctid)',
	                source, key, predicate, others);
	FOREACH kind IN ARRAY ARRAY['Index Scan using', 'Bitmap Index Scan on'] LOOP
		PERFORM set_config('enable_seqscan', 'off', true),
		        set_config('enable_indexscan', (kind = 'Index Scan using')::text, true),
		        set_config('enable_bitmapscan', (kind <> 'Index Scan using')::text, true);
		plan := '';
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
			plan := plan || line || E'\n';
		END LOOP;
		IF position(kind IN plan) = 0 THEN
			RAISE EXCEPTION 'no % in: %', kind, plan;
		END IF;
		EXECUTE query INTO wrong;
		sum := sum + wrong;
	END LOOP;
	RETURN sum;
END
$$;
SQL
	return;
}

sub wrong_keys
{
	my ($node, $table, $key, $predicate, $others) = @_;

	return $node->safe_psql('postgres',
		"SET jit = off; SELECT wrong_keys('$table', \$k\$$key\$k\$, \$p\$$predicate\$p\$,"
		  . " \$o\$$others\$o\$)");
}

1;

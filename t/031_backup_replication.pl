# lazyhash indexes come whole out of a base backup taken under load, out of recovery to a point in
# time, out of pg_rewind, and are kept by a subscriber of logical replication.  In both WAL modes,
# and each time every index of every server passes the check, and answers as its table does.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use IPC::Run;
use Test::More;

my $functions = q{
	-- keys that the index finds other rows for than reading the table does
	CREATE FUNCTION wrong_keys(tab regclass) RETURNS bigint LANGUAGE plpgsql
	SET enable_seqscan = off AS $$
	DECLARE wrong bigint;
	BEGIN
		EXECUTE format('WITH truth AS MATERIALIZED (SELECT k, count(*) AS n FROM %1$s GROUP BY k '
		               'UNION ALL SELECT -i, 0 FROM generate_series(1, 100) i) '
		               'SELECT count(*) FROM truth WHERE n <> '
		               '(SELECT count(*) FROM %1$s t WHERE t.k = truth.k)', tab) INTO wrong;
		RETURN wrong;
	END $$;
};

# Buckets of all shapes, and growing.
my $tables = q{
	CREATE TABLE t (id serial PRIMARY KEY, k int, v text);
	CREATE INDEX t_k ON t USING lazyhash (k) WITH (fillfactor = 10, batch = 8);
	CREATE INDEX t_v ON t USING lazyhash (v);
	CREATE TABLE e (k int, EXCLUDE USING lazyhash (k WITH =));
	CREATE UNLOGGED TABLE u (k int);
	CREATE INDEX u_k ON u USING lazyhash (k);
	INSERT INTO t (k, v) SELECT 7, 'seven' FROM generate_series(1, 4000);
	INSERT INTO t (k, v) SELECT i, i % 50 FROM generate_series(1, 6000) i;
	INSERT INTO e SELECT i FROM generate_series(1, 2000) i;
	INSERT INTO u SELECT i FROM generate_series(1, 2000) i;
	DELETE FROM t WHERE k = 7 AND id % 3 > 0;
};

my $load = q{
	\set k random(10000, 100000)
	INSERT INTO t (k, v) SELECT :k + i, :k % 50 FROM generate_series(1, 40) i;
	INSERT INTO t (k, v) SELECT 7, 'seven' FROM generate_series(1, 20);
	DELETE FROM t WHERE id IN (SELECT id FROM t WHERE k = 7 LIMIT 30);
	UPDATE t SET v = v || 'x' WHERE k = :k + 3;
	INSERT INTO e VALUES (:k) ON CONFLICT DO NOTHING;
};

# All indexes are in order, and answer.
sub all_right
{
	my ($node, $when, $indexes) = @_;

	is($node->safe_psql('postgres',
			'SET client_min_messages = warning; SELECT lazyhash_check_all(true)'),
		$indexes, "$when: all $indexes indexes of " . $node->name . ' are in order');
	is($node->safe_psql('postgres', q{SELECT wrong_keys('t'), wrong_keys('e')}),
		'0|0', "$when: they answer as the tables do");
	return;
}

# It can be written to as well.
sub goes_on
{
	my ($node, $when, $indexes) = @_;

	$node->safe_psql('postgres', q{
		INSERT INTO t (k, v) SELECT i % 3000, 'more' FROM generate_series(1, 9000) i;
		DELETE FROM t WHERE k % 5 = 1;
		VACUUM t;
		INSERT INTO u SELECT i FROM generate_series(1, 500) i});
	all_right($node, "$when, written to", $indexes);
	return;
}

sub sum_of_rows
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		q{SELECT count(*), sum(id), sum(k), sum(hashtext(v)) FROM t});
}

sub new_server
{
	my ($name, $mode) = @_;
	my $node = PostgreSQL::Test::Cluster->new("${name}_$mode");

	$node->init(allows_streaming => 'logical', has_archiving => 1);
	$node->append_conf('postgresql.conf', join("\n",
		'autovacuum = off',
		'wal_log_hints = on',
		'wal_keep_size = 256MB',
		'max_wal_size = 1GB',
		$mode eq 'custom' ? "shared_preload_libraries = 'lazyhash'" : '',
		''));
	$node->start;
	return $node;
}

# Under load, with an index built during the backup.
sub base_backup_and_point_in_time
{
	my ($primary, $mode) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/load.sql';
	my ($out, $err) = ('', '');

	append_to_file($file, $load);
	my $pgbench = IPC::Run::start(
		[ 'pgbench', '-n', '-c', 3, '-T', 6, '-f', $file, $primary->connstr('postgres') ],
		'>', \$out, '2>', \$err, IPC::Run::timeout(300));
	$primary->backup("under_load_$mode");
	$primary->safe_psql('postgres', 'CREATE INDEX t_id ON t USING lazyhash (id)');
	$primary->safe_psql('postgres', 'VACUUM t');
	$pgbench->finish;
	is($err, '', "$mode: the load ran without an error") or diag($out);
	is($primary->safe_psql('postgres', q{SELECT count(*) > 100 FROM t WHERE k > 10000}),
		't', "$mode: there was a load");

	$primary->safe_psql('postgres', q{
		INSERT INTO t (k, v) SELECT i, 'before' FROM generate_series(200001, 202000) i;
		VACUUM t});
	my $before = sum_of_rows($primary);
	$primary->safe_psql('postgres', q{SELECT pg_create_restore_point('here')});
	$primary->safe_psql('postgres', q{
		INSERT INTO t (k, v) SELECT i, 'after' FROM generate_series(300001, 303000) i;
		DELETE FROM t WHERE k < 3000;
		VACUUM t;
		REINDEX INDEX t_v;
		SELECT pg_switch_wal()});
	all_right($primary, "$mode: primary", 5);

	# to the point in time, from the archive
	my $restored = PostgreSQL::Test::Cluster->new("restored_$mode");
	$restored->init_from_backup($primary, "under_load_$mode", has_restoring => 1, standby => 0);
	$restored->append_conf('postgresql.conf',
		"recovery_target_name = 'here'\nrecovery_target_action = 'promote'\narchive_mode = off\n");
	$restored->start;
	$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'no promotion';
	is(sum_of_rows($restored), $before, "$mode: recovery to a point in time has the rows of then");
	is($restored->safe_psql('postgres', 'SELECT count(*) FROM u'),
		0, "$mode: what is not logged is empty");
	all_right($restored, "$mode: point in time", 5);
	goes_on($restored, "$mode: point in time", 5);
	$restored->stop;

	# to the end
	my $latest = PostgreSQL::Test::Cluster->new("latest_$mode");
	$latest->init_from_backup($primary, "under_load_$mode", has_restoring => 1, standby => 0);
	$latest->append_conf('postgresql.conf', "archive_mode = off\n");
	$latest->start;
	$latest->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'no promotion';
	is(sum_of_rows($latest), sum_of_rows($primary), "$mode: recovery to the end has all rows");
	all_right($latest, "$mode: base backup", 5);
	goes_on($latest, "$mode: base backup", 5);
	$latest->stop;
	return;
}

# Primary and standby part ways; the former primary is rewound.
sub rewind
{
	my ($primary, $mode) = @_;
	my $standby = PostgreSQL::Test::Cluster->new("standby_$mode");

	$primary->backup("for_standby_$mode");
	$standby->init_from_backup($primary, "for_standby_$mode", has_streaming => 1);
	$standby->append_conf('postgresql.conf', "archive_mode = off\n");
	$standby->start;
	$primary->safe_psql('postgres',
		q{INSERT INTO t (k, v) SELECT i, 'both' FROM generate_series(1, 2000) i; CHECKPOINT});
	$primary->wait_for_catchup($standby);
	$standby->promote;
	$standby->safe_psql('postgres', 'CHECKPOINT');

	# splits, chains, removals on both sides, of which one side is to go
	$primary->safe_psql('postgres', q{
		INSERT INTO t (k, v) SELECT i, 'lost' FROM generate_series(400001, 408000) i;
		INSERT INTO t (k, v) SELECT 7, 'lost' FROM generate_series(1, 3000) i;
		DELETE FROM t WHERE k % 3 = 1;
		VACUUM t});
	$standby->safe_psql('postgres', q{
		INSERT INTO t (k, v) SELECT i, 'kept' FROM generate_series(500001, 503000) i;
		DELETE FROM t WHERE k % 4 = 1;
		VACUUM t});
	my $kept = sum_of_rows($standby);
	$primary->stop;
	command_ok(
		[ 'pg_rewind', '--target-pgdata', $primary->data_dir,
			'--source-server', $standby->connstr('postgres') ],
		"$mode: pg_rewind");
	# the files copied include the configuration
	$primary->append_conf('postgresql.conf', 'port = ' . $primary->port . "\n");
	$primary->enable_streaming($standby);
	$primary->set_standby_mode();
	$primary->start;
	$standby->wait_for_catchup($primary);
	is(sum_of_rows($primary), $kept, "$mode: rewound server has the rows of the other");
	all_right($primary, "$mode: rewound", 4);
	$standby->stop;
	$primary->promote;
	all_right($primary, "$mode: rewound and promoted", 5);
	goes_on($primary, "$mode: rewound and promoted", 5);
	return;
}

# A subscriber whose tables have no other indexes than ours, but for a primary key of one.
sub logical
{
	my ($publisher, $mode) = @_;
	my $subscriber = new_server('subscriber', $mode);
	my $schema = q{
		CREATE TABLE whole (k int, v text);
		ALTER TABLE whole REPLICA IDENTITY FULL;
		CREATE TABLE keyed (id int PRIMARY KEY, k int);
	};
	my $rows = sub {
		$_[0]->safe_psql('postgres',
			"SELECT (SELECT string_agg(w::text, ' ' ORDER BY w::text) FROM whole w), "
			  . "(SELECT string_agg(w::text, ' ' ORDER BY w::text) FROM keyed w)");
	};

	$publisher->safe_psql('postgres', $schema . q{
		INSERT INTO whole SELECT nullif(i % 5, 0), nullif(i % 7, 3) FROM generate_series(1, 400) i;
		INSERT INTO keyed SELECT i, nullif(i % 5, 0) FROM generate_series(1, 400) i;
		CREATE PUBLICATION pub FOR TABLE whole, keyed});
	$subscriber->safe_psql('postgres', $schema . q{
		CREATE EXTENSION lazyhash;
		CREATE INDEX whole_k ON whole USING lazyhash (k) WITH (fillfactor = 10, batch = 8);
		CREATE INDEX whole_v ON whole USING lazyhash (v);
		CREATE INDEX keyed_k ON keyed USING lazyhash (k);
		CREATE INDEX keyed_id ON keyed USING lazyhash (id)});
	my ($failed, undef, $error) = $subscriber->psql('postgres',
		'ALTER TABLE keyed REPLICA IDENTITY USING INDEX keyed_id');
	like($error, qr/cannot use non-unique index "keyed_id" as replica identity/,
		"$mode: no replica identity by a lazyhash index");
	$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION '"
		  . $publisher->connstr . " dbname=postgres' PUBLICATION pub");
	$subscriber->wait_for_subscription_sync($publisher, 'sub');
	is($rows->($subscriber), $rows->($publisher), "$mode: subscriber has the first rows");

	$publisher->safe_psql('postgres', q{
		UPDATE whole SET v = v || '.' WHERE k IS NULL;
		UPDATE whole SET k = NULL WHERE v = '2';
		UPDATE whole SET k = 70 WHERE v IS NULL;
		DELETE FROM whole WHERE k IS NULL AND v IS NULL;
		DELETE FROM whole WHERE ctid IN (SELECT min(ctid) FROM whole GROUP BY k, v);
		INSERT INTO whole SELECT i, 'new' FROM generate_series(1, 3000) i;
		UPDATE whole SET k = k + 1 WHERE v = 'new' AND k % 10 = 0;
		UPDATE keyed SET k = NULL WHERE id % 3 = 0;
		UPDATE keyed SET id = id + 1000 WHERE id % 4 = 0;
		DELETE FROM keyed WHERE k = 1;
		INSERT INTO keyed SELECT i, 7 FROM generate_series(5001, 8000) i});
	$publisher->wait_for_catchup('sub');
	is($rows->($subscriber), $rows->($publisher), "$mode: subscriber has all changes");

	# rows are replaced, and the subscriber vacuums meanwhile
	foreach my $i (1 .. 3)
	{
		$publisher->safe_psql('postgres', q{
			UPDATE keyed SET k = k + 1;
			DELETE FROM whole WHERE k % 3 = 0;
			INSERT INTO whole SELECT i, 'again' FROM generate_series(1, 500) i});
		$subscriber->safe_psql('postgres', 'VACUUM whole, keyed');
	}
	$publisher->wait_for_catchup('sub');
	is($rows->($subscriber), $rows->($publisher), "$mode: subscriber has all changes, vacuumed");
	is($subscriber->safe_psql('postgres',
			'SET client_min_messages = warning; SELECT lazyhash_check_all(true)'),
		4, "$mode: all indexes of the subscriber are in order");
	$subscriber->stop;
	return;
}

foreach my $mode ('generic', 'custom')
{
	my $primary = new_server('primary', $mode);

	$primary->safe_psql('postgres', "CREATE EXTENSION lazyhash;$functions$tables");
	is($primary->safe_psql('postgres', 'SHOW shared_preload_libraries'),
		$mode eq 'custom' ? 'lazyhash' : '', "$mode: that is the mode");
	base_backup_and_point_in_time($primary, $mode);
	rewind($primary, $mode);
	logical($primary, $mode);
	$primary->stop;
}

done_testing();

# pg_stat_lazyhash counts exactly what has happened to each index: by one session, by a hundred at
# once, by transactions that fail or go on; it forgets what was dropped, and starts anew when asked
# or when the server starts.  Without preloading it does the same from PostgreSQL 17 on, and says
# clearly that it cannot before.

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('preloaded', "shared_preload_libraries = 'lazyhash'");

sub new_node
{
	my ($name, @lines) = @_;
	my $new = PostgreSQL::Test::Cluster->new($name);

	$new->init(allows_streaming => 1);
	$new->append_conf('postgresql.conf',
		join("\n", 'max_connections = 130', 'autovacuum = off', 'max_prepared_transactions = 2',
			'log_statement = none', @lines, ''));
	$new->start;
	$new->safe_psql('postgres', 'CREATE EXTENSION lazyhash');
	return $new;
}

sub sql
{
	my ($text, $on) = @_;
	return ($on || $node)->safe_psql('postgres', $text);
}

# Columns of the view for one index, separated by bars.
sub counted
{
	my ($index, $columns, $on) = @_;
	return sql("SELECT $columns FROM pg_stat_lazyhash WHERE indexrelid = '$index'::regclass", $on);
}

# Sessions that stay: each answers what it is told, and waits.
sub start_session
{
	my ($on) = @_;
	my $session = { in => '', out => '' };

	$session->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $on->connstr('postgres') ],
		'<', \$session->{in}, '>', \$session->{out}, '2>&1', IPC::Run::timeout(600));
	return $session;
}

sub ask
{
	my ($session, $text) = @_;

	$session->{out} = '';
	$session->{in} .= "$text\n\\echo +done\n";
	$session->{run}->pump until $session->{out} =~ /^\+done$/m;
	return $session->{out} =~ s/\+done\n//r;
}

sub end_session
{
	my ($session) = @_;

	$session->{in} .= "\\q\n";
	$session->{run}->finish;
	return;
}

# What the index holds and what was counted as it came to be so must agree, if it was made empty.
sub in_balance
{
	my ($index, $when, $on) = @_;
	my $balance = sql(<<"SQL", $on);
SELECT c.inserts - c.dead_removed - c.vacuum_removed - s.entries AS entries,
       c.splits + b.buckets - s.buckets AS buckets,
       c.overflow_pages_added - c.overflow_pages_freed - s.overflow_pages AS overflow_pages,
       c.phases_added + b.phases - m.nphases AS phases
FROM pg_stat_lazyhash c, lazyhash_stats('$index') s, lazyhash_metapage_info('$index') m, at_first b
WHERE c.indexrelid = '$index'::regclass AND b.index = '$index'
SQL
	is($balance, '0|0|0|0', "$index is what was counted, $when");
	return;
}

sub make_index
{
	my ($name, $with, $on) = @_;

	sql(<<"SQL", $on);
CREATE TABLE IF NOT EXISTS at_first (index name, buckets bigint, phases int);
CREATE TABLE $name (k int, v int) WITH (fillfactor = 50);
CREATE INDEX ${name}_k ON $name USING lazyhash (k) $with;
INSERT INTO at_first SELECT '${name}_k', maxbucket + 1, nphases
	FROM lazyhash_metapage_info('${name}_k');
SQL
	return;
}

sub hundred_sessions
{
	my ($table, $on) = @_;
	my $file = $on->basedir . '/hundred.sql';

	append_to_file($file, <<"SQL") unless -e $file;
\\set k random(1, 3000)
\\set fate random(1, 10)
BEGIN;
INSERT INTO $table SELECT :k + i, 0 FROM generate_series(1, 10) i;
UPDATE $table SET v = v + 1 WHERE k = :k;
DELETE FROM $table WHERE k = :k + 7;
\\if :fate = 1
ROLLBACK;
\\else
COMMIT;
\\endif
SQL
	my $vacuum = $on->basedir . '/vacuum.sql';
	append_to_file($vacuum, "VACUUM $table;\n\\sleep 200 ms\n") unless -e $vacuum;
	my $vacuums = IPC::Run::start(
		[ 'pgbench', '-n', '-T', '60', '-f', $vacuum, $on->connstr('postgres') ],
		'<', \'', '>&', \my $ignored);
	$on->command_ok(
		[
			'pgbench', '-n', '-c', 100, '-j', 4, '-t', 30, '-f', $file, $on->connstr('postgres')
		],
		'a hundred sessions insert, update, delete');
	$vacuums->signal('INT');
	$vacuums->finish;
	return;
}

# ---- one session ----

make_index('plain', 'WITH (fillfactor = 10)');
is(counted('plain_k', 'relname, indexrelname, schemaname, inserts, splits, stats_since IS NULL'),
	'plain|plain_k|public|0|0|t', 'an index of which nothing was counted yet');
sql('INSERT INTO plain SELECT i, 0 FROM generate_series(1, 30000) i');
is(counted('plain_k', "inserts, splits > 0, phases_added > 0, cache_refreshes > 0,"
		. " stats_since BETWEEN now() - '1 hour'::interval AND now()"),
	'30000|t|t|t|t', '30000 rows');
in_balance('plain_k', 'after the inserts');
sql('INSERT INTO plain VALUES (NULL, 0)');
is(counted('plain_k', 'inserts'), 30000, 'a NULL is not in the index');

make_index('each', 'WITH (batch = 1)');
sql('INSERT INTO each SELECT i, 0 FROM generate_series(1, 500) i');
is(counted('each_k', 'inserts, postings'), '500|500', 'with batch = 1 each insert posts');
make_index('many', 'WITH (batch = 100)');
sql('INSERT INTO many SELECT 1, 0 FROM generate_series(1, 500) i');
is(counted('many_k', 'inserts, postings'), '500|5', 'with batch = 100 one in a hundred on a page');

sql('DELETE FROM plain WHERE k % 3 = 0; ');
sql('VACUUM plain');
is(counted('plain_k', 'vacuum_removed'), 10000, 'rows that VACUUM removed');

# more than a page of one key: the chain cannot be split away
make_index('chain', '');
sql('INSERT INTO chain SELECT 7, 0 FROM generate_series(1, 3000) i');
is( counted('chain_k', 'overflow_pages_added > 0'), 't', 'overflow pages');
in_balance('chain_k', 'with overflow pages');

# a cursor in the middle of the chain, which is shortened meanwhile
my $cursor = start_session($node);
ask($cursor, "SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN;"
		. " DECLARE c CURSOR FOR SELECT * FROM chain WHERE k = 7; FETCH 1 FROM c;");
sql('DELETE FROM chain WHERE ctid IN (SELECT ctid FROM chain LIMIT 100)');
my $before = counted('chain_k', 'scan_restarts');
# what the cursor sees must stay, what came later and went again need not
sql('INSERT INTO chain SELECT 7, 1 FROM generate_series(1, 3000)');
$node->psql('postgres',
	'BEGIN; INSERT INTO chain SELECT 7, 2 FROM generate_series(1, 4000); ROLLBACK');
sql('VACUUM chain');
is(counted('chain_k', 'overflow_pages_freed > 0'), 't', 'overflow pages freed by VACUUM');
ask($cursor, 'MOVE ALL FROM c; COMMIT;');
is(counted('chain_k', "scan_restarts > $before"), 't', 'a lookup that began anew');
end_session($cursor);
in_balance('chain_k', 'after VACUUM');

# a full page whose rows are dead, and known to be
make_index('dead', 'WITH (fillfactor = 100)');
my $page = sql("SELECT entries + room FROM lazyhash_page_info('dead_k', 1)");
sql("INSERT INTO dead SELECT 7, 0 FROM generate_series(1, $page)");
sql('DELETE FROM dead');
sql('SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM dead WHERE k = 7');
sql('INSERT INTO dead VALUES (7, 0)');
is(counted('dead_k', 'dead_removed'), $page, 'dead entries that an insert removed');
in_balance('dead_k', 'after the removal');

# ---- when it is counted ----

make_index('ends', '');
$node->psql('postgres',
	'BEGIN; INSERT INTO ends SELECT i, 0 FROM generate_series(1, 10) i; ROLLBACK');
is(counted('ends_k', 'inserts'), 10, 'a transaction that was rolled back');
$node->psql('postgres',
	'INSERT INTO ends SELECT CASE WHEN i = 11 THEN 1 / (i - 11) ELSE i END, 0'
	  . ' FROM generate_series(1, 20) i');
is(counted('ends_k', 'inserts'), 20, 'one that failed');
sql("BEGIN; INSERT INTO ends VALUES (1, 0); PREPARE TRANSACTION 'p'");
is(counted('ends_k', 'inserts'), 21, 'one that was prepared');
sql("COMMIT PREPARED 'p'");
is(counted('ends_k', 'inserts'), 21, 'and committed');
my $long = start_session($node);
ask($long, 'BEGIN; INSERT INTO ends SELECT i, 0 FROM generate_series(1, 10000) i;');
my ($on_its_way) = counted('ends_k', 'inserts') - 21;
ok($on_its_way >= 4096 && $on_its_way <= 10000, "one that goes on is counted on its way");
ask($long, 'SELECT pg_backend_pid() AS pid \\gset');
ask($long, 'COMMIT;');
is(counted('ends_k', 'inserts'), 10021, 'to the end');

# killed, and the others go on
ask($long, 'BEGIN; INSERT INTO ends SELECT i, 0 FROM generate_series(1, 7) i;');
my $pid = ask($long, '\\echo :pid');
sql("SELECT pg_terminate_backend($pid)");
ok( $node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid"),
	'a session is terminated');
is(counted('ends_k', 'inserts'), 10028, 'the last transaction of a session that was terminated');
$long->{run}->kill_kill;

# two indexes of one table by turns, and a table with many partitions
make_index('two', '');
sql('CREATE INDEX two_v ON two USING lazyhash (v)');
sql('INSERT INTO two SELECT i, i FROM generate_series(1, 9000) i');
is(counted('two_k', 'inserts') . counted('two_v', '-inserts'),
	'9000-9000', 'two indexes of a table');
sql('CREATE TABLE parted (k int) PARTITION BY HASH (k);'
	. join('',
		map { "CREATE TABLE p$_ PARTITION OF parted FOR VALUES WITH (MODULUS 50, REMAINDER $_);" }
		  0 .. 49)
	. 'CREATE INDEX ON parted USING lazyhash (k);'
	. 'INSERT INTO parted SELECT i FROM generate_series(1, 20000) i;');
is( sql("SELECT count(*), sum(inserts) FROM pg_stat_lazyhash WHERE relname ~ '^p[0-9]'"),
	'50|20000', 'fifty partitions');

# ---- a hundred sessions ----

make_index('crowd', 'WITH (fillfactor = 10, batch = 4)');
hundred_sessions('crowd', $node);
note(counted('crowd_k', '*'));
in_balance('crowd_k', 'after a hundred sessions');
is(counted('crowd_k', 'postings BETWEEN inserts / 6 AND inserts / 2'),
	't', 'postings are as many as batch says');
is(sql("SELECT lazyhash_check('crowd_k', true)"), '', 'and it is in order');

# ---- reset, and who may do what ----

sql('CREATE ROLE nobody');
is( sql("SET ROLE nobody; SELECT inserts FROM pg_stat_lazyhash WHERE indexrelname = 'two_k'"),
	9000, 'everybody may look');
my ($status, $out, $err) = $node->psql('postgres', 'SET ROLE nobody; SELECT lazyhash_stat_reset()');
like($err, qr/permission denied for function lazyhash_stat_reset/, 'but not reset');
my $started = counted('two_k', 'stats_since');
sql("SELECT lazyhash_stat_reset('two_k')");
is(counted('two_k', "inserts, splits, cache_refreshes, stats_since > '$started'"),
	'0|0|0|t', 'one index is reset');
is(counted('two_v', 'inserts'), 9000, 'and no other');
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION lazyhash; CREATE TABLE t (k int);'
		. ' CREATE INDEX t_k ON t USING lazyhash (k); INSERT INTO t VALUES (1), (2)');
sql('SELECT lazyhash_stat_reset()');
is(sql('SELECT sum(inserts) FROM pg_stat_lazyhash'), 0, 'all are reset');
is($node->safe_psql('other', 'SELECT indexrelname, inserts FROM pg_stat_lazyhash'),
	't_k|2', 'but those of another database');
sql('INSERT INTO two VALUES (1, 1)');
is(counted('two_k', 'inserts'), 1, 'and counting goes on');
($status, $out, $err) = $node->psql('postgres', "SELECT lazyhash_stat_reset('two')");
like($err, qr/"two" is not a lazyhash index/, 'a table cannot be reset');

# ---- what is dropped is forgotten ----

my $database = sql("SELECT oid FROM pg_database WHERE datname = 'other'");
my $of_database = "SELECT count(*) FROM lazyhash_stat_counters() WHERE datid = $database";
is(sql($of_database), 1, 'counters of another database');
$node->safe_psql('postgres', 'DROP DATABASE other');
is(sql($of_database), 0, 'are gone with it');

my $two = sql("SELECT 'two_k'::regclass::oid");
my $of_two = "SELECT count(*) FROM lazyhash_stat_counters() WHERE indexrelid = $two";
my $dropper = start_session($node);
ask($dropper, 'BEGIN; DROP INDEX two_k;');
is(sql($of_two), 1, 'while an index is being dropped');
ask($dropper, 'ROLLBACK; BEGIN; DROP INDEX two_k;');
is(counted('two_v', 'inserts'), 1, 'the view can be read then');
is(sql($of_two), 1, 'when that was rolled back');
ask($dropper, 'COMMIT;');
is(sql($of_two), 0, 'when it was dropped');
is(sql("SELECT count(*) FROM pg_stat_lazyhash WHERE indexrelid = $two"),
	0, 'it is not in the view');

# one that nobody else can see yet is not forgotten
ask($dropper, 'BEGIN; CREATE TABLE young (k int); CREATE INDEX young_k ON young USING lazyhash (k);'
		. ' INSERT INTO young SELECT i FROM generate_series(1, 5000) i;');
is( sql("SELECT count(*) FROM lazyhash_stat_counters() c WHERE inserts = 4096 AND NOT EXISTS"
		. " (SELECT FROM pg_class WHERE oid = c.indexrelid)"),
	1, 'an index that its transaction has yet to commit');
ask($dropper, 'COMMIT;');
is(counted('young_k', 'inserts'), 5000, 'keeps what was counted for it');
end_session($dropper);

# REINDEX keeps them
sql('REINDEX INDEX young_k; INSERT INTO young VALUES (0)');
is(counted('young_k', 'inserts'), 5001, 'REINDEX is no insert');

# ---- more indexes than there is room for ----

sql(<<'SQL');
CREATE PROCEDURE churn(times int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..times LOOP
		CREATE TABLE passing (k int);
		CREATE INDEX passing_k ON passing USING lazyhash (k);
		INSERT INTO passing VALUES (1);
		DROP TABLE passing;
		IF i % 500 = 0 THEN
			INSERT INTO ends VALUES (1, 0);
		END IF;
		COMMIT;
	END LOOP;
END
$$;
SQL
my $ends = counted('ends_k', 'inserts');
sql('SET synchronous_commit = off; CALL churn(4200)');
is(counted('ends_k', 'inserts'),
	$ends + 8, 'an index in use is not pushed out by those that came and went');
is(counted('plain_k', 'inserts, stats_since IS NULL'),
	'0|t', 'but one that was not in use for long');
cmp_ok(sql('SELECT count(*) FROM lazyhash_stat_counters()'),
	'<', 100, 'dropped indexes are forgotten');
sql('INSERT INTO plain VALUES (1, 0)');
is(counted('plain_k', 'inserts, stats_since IS NULL'), '1|f', 'and starts anew');

# ---- standby, restart and crash ----

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
sql('SET enable_seqscan = off; SELECT * FROM ends WHERE k = 1', $standby);
is(counted('ends_k', 'inserts, cache_refreshes', $standby),
	'0|1', 'a standby counts what it does itself');
$standby->stop;

$node->restart;
is(counted('ends_k', 'inserts, stats_since IS NULL'),
	'0|t', 'counters start at zero with the server');
sql('INSERT INTO ends VALUES (1, 0)');
is(counted('ends_k', 'inserts'), 1, 'and count');

$node->append_conf('postgresql.conf', 'restart_after_crash = on');
$node->reload;
my $victim = start_session($node);
$pid = ask($victim, "SELECT pg_backend_pid();");
chomp $pid;
kill 'KILL', $pid;
$victim->{run}->kill_kill;
ok( $node->poll_query_until(
		'postgres', "SELECT inserts = 0 FROM pg_stat_lazyhash WHERE indexrelname = 'ends_k'"),
	'counters start at zero after a crash of a backend');
sql('INSERT INTO ends VALUES (1, 0)');
is(counted('ends_k', 'inserts'), 1, 'and count');
$node->stop;

# ---- not preloaded ----

my $bare = new_node('not_preloaded');

make_index('crowd', 'WITH (fillfactor = 10, batch = 4)', $bare);
hundred_sessions('crowd', $bare);
if ($bare->pg_version < 17)
{
	($status, $out, $err) = $bare->psql('postgres', 'SELECT * FROM pg_stat_lazyhash');
	like($err, qr/statistics of lazyhash indexes are not being collected/,
		'the view says that it cannot');
	like($err, qr/HINT: .*shared_preload_libraries/, 'and what to do');
	($status, $out, $err) = $bare->psql('postgres', 'SELECT lazyhash_stat_reset()');
	like($err, qr/HINT: .*shared_preload_libraries/, 'and so does the reset');
}
else
{
	in_balance('crowd_k', 'after a hundred sessions, without preloading', $bare);
	sql('SELECT lazyhash_stat_reset()', $bare);
	is(counted('crowd_k', 'inserts', $bare), 0, 'reset');
	$bare->restart;
	is(counted('crowd_k', 'inserts, stats_since IS NULL', $bare), '0|t', 'zero after a restart');
}
is(sql("SELECT lazyhash_check('crowd_k', true)", $bare), '', 'and the index is in order');
$bare->stop;

done_testing();

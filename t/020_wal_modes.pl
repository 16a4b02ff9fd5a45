# Which WAL records lazyhash writes: its own where the library is preloaded, and
# generic ones otherwise or where lazyhash.wal says so; both in one index.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CrashAtAnyRecord;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\njit = off\nfsync = off\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION lazyhash; CREATE EXTENSION pg_walinspect');
$node->safe_psql('postgres', $CrashAtAnyRecord::functions);
$node->safe_psql('postgres', q{
	CREATE TABLE words (id serial, k bigint);
	CREATE INDEX words_k ON words USING lazyhash (k) WITH (fillfactor = 10, batch = 8);
});

sub current_lsn
{
	return $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
}

# The resource managers whose records touch the index while the statements run.
sub managers_of
{
	my ($sql) = @_;
	my $start = current_lsn();

	$node->safe_psql('postgres', $sql);
	# a commit flushes only if its transaction has an xid and has written WAL
	my $end = $node->safe_psql('postgres',
		"SELECT pg_logical_emit_message(true, 'flush', ''); SELECT pg_current_wal_flush_lsn()");
	$end =~ s/.*\n//s;
	return $node->safe_psql('postgres', qq{
		SELECT string_agg(DISTINCT resource_manager, ' ' ORDER BY resource_manager)
		FROM pg_get_wal_records_info('$start', '$end')
		WHERE block_ref ~ ('/' || pg_relation_filenode('words_k') || ' fork main') AND
		      resource_manager <> 'XLOG'});
}

my $insert = 'INSERT INTO words (k) SELECT i FROM generate_series(1, 500) i';

# ---- not preloaded ----

is(managers_of($insert), 'Generic', 'not preloaded: generic records');
is($node->safe_psql('postgres', "LOAD 'lazyhash'; SHOW lazyhash.wal"), 'auto', 'by default, auto');
is(managers_of("LOAD 'lazyhash'; SET lazyhash.wal = 'auto'; $insert"),
	'Generic', 'not preloaded: auto means generic records');
is(managers_of("SET session_preload_libraries = 'lazyhash'; $insert"),
	'Generic', 'loaded, but not by the postmaster: generic records');
is($node->safe_psql('postgres',
		'SELECT count(*) FROM pg_get_wal_resource_managers() WHERE NOT rm_builtin'),
	0, 'not preloaded: no resource manager is registered');

# ---- preloaded ----

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'lazyhash'");
$node->restart;
is($node->safe_psql('postgres',
		'SELECT rm_name FROM pg_get_wal_resource_managers() WHERE NOT rm_builtin'),
	'lazyhash', 'preloaded: the resource manager is registered');
my $id = $node->safe_psql('postgres',
	"SELECT rm_id FROM pg_get_wal_resource_managers() WHERE rm_name = 'lazyhash'");
my $start = current_lsn();
is(managers_of($insert), 'lazyhash', 'preloaded: own records');
is(managers_of("SET lazyhash.wal = generic; $insert"), 'Generic', 'generic records where so set');
is(managers_of("SET lazyhash.wal = generic; $insert; RESET lazyhash.wal; $insert"),
	'Generic lazyhash', 'both in one session, one after the other');
is(managers_of('DELETE FROM words WHERE id % 2 = 0; VACUUM words'), 'lazyhash', 'VACUUM too');
$node->safe_psql('postgres', 'SELECT verify()');

# ---- who may choose ----

$node->safe_psql('postgres', 'CREATE ROLE somebody');
my ($status, $stdout, $stderr) = $node->psql('postgres',
	"SET ROLE somebody; SET lazyhash.wal = 'generic'");
like($stderr, qr/permission denied to set parameter "lazyhash.wal"/, 'not everybody may choose');
($status, $stdout, $stderr) = $node->psql('postgres', "SET lazyhash.wal = 'custom'");
like($stderr, qr/invalid value for parameter "lazyhash.wal": "custom"/, 'other values are refused');

# ---- readable ----

# long chains, so that there are records of long splits
$node->safe_psql('postgres', "INSERT INTO words (k) SELECT 7 FROM generate_series(1, 4000)");
$node->safe_psql('postgres', 'DELETE FROM words WHERE k = 7 AND id % 4 <> 0; VACUUM words');
my %expected = (
	APPEND => qr/^blk 0: append$/,
	POST => qr/^blk 0: append; (?:merge; )?post [+-]\d+; blk 1: ntuples [+-]\d+$/,
	SPLIT =>
	  qr/^blk 0: remove_matching mask=0x\w+ value=0x.*; blk \d+: maxbucket \d+; ntuples [+-]\d+$/,
	SPLIT_BEGIN => qr/^blk 0: flags set=0x0100 clear=0x0000; stamp \d+; .*; blk 2: maxbucket \d+$/,
	SPLIT_MOVE => qr/remove n=\d+; post -\d+/,
	SPLIT_FINISH => qr/^blk 0: flags set=0x0000 clear=0x0100; /,
	OVERFLOW => qr/^blk 0: tail \d+; /,
	REMOVE => qr/^blk 0: remove n=\d+/,
	SQUEEZE => qr/free$/,
	PHASE => qr/^blk 0: init flags=0x0010 .*; blk 1: phase \d+$/,);
$node->safe_psql('postgres', $CrashAtAnyRecord::flush);
my $rows = $node->safe_psql('postgres', qq{
	SELECT record_type, description
	FROM pg_get_wal_records_info('$start', pg_current_wal_flush_lsn())
	WHERE resource_manager = 'lazyhash' AND fpi_length = 0});
my %seen;
my @unreadable;
foreach my $row (split(/\n/, $rows))
{
	my ($type, $description) = split(/\|/, $row);

	$seen{$type} = 1;
	push @unreadable, $row
	  if $type =~ /UNKNOWN/ || $description =~ /malformed/ ||
	  $description !~ ($expected{$type} // qr/./);
}
is(scalar(@unreadable), 0, 'descriptions of all records say what was done')
  or diag(join("\n", splice(@unreadable, 0, 5)));
is(join(' ', grep { !$seen{$_} } sort keys %expected), '', 'there were records of all these kinds');

# ---- recovery from both kinds ----

$node->safe_psql('postgres', "CHECKPOINT; $insert; SET lazyhash.wal = generic; $insert; "
	  . "RESET lazyhash.wal; $insert; DELETE FROM words WHERE id % 3 = 0");
$node->stop('immediate');
$node->start;
$node->safe_psql('postgres', 'SELECT verify()');
pass('recovery from records of both kinds, one after the other');

# ---- a clash of numbers ----

SKIP:
{
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my ($include) = run_command([ 'pg_config', '--includedir-server' ]);
	my ($cc) = run_command([ 'pg_config', '--cc' ]);

	append_to_file("$dir/clash.c", qq{
		#include "postgres.h"
		#include "access/xlog_internal.h"
		#include "fmgr.h"
		PG_MODULE_MAGIC;
		void _PG_init(void);
		static void redo(XLogReaderState *record) { }
		static RmgrData rmgr = {.rm_name = "clash", .rm_redo = redo};
		void _PG_init(void) { RegisterCustomRmgr($id, &rmgr); }
	});
	skip 'no compiler', 2
	  if system("$cc -fPIC -shared -w -I '$include' -o '$dir/clash.so' '$dir/clash.c' "
		  . '2>/dev/null') != 0;

	$node->stop;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'lazyhash, $dir/clash.so'");
	my $log_end = -s $node->logfile;
	ok(!$node->start(fail_ok => 1), 'with another library that has the same number, no start');
	like(slurp_file($node->logfile, $log_end),
		qr/failed to register custom resource manager "clash" with ID $id.*"lazyhash"/s,
		'the message names both');
}

done_testing();

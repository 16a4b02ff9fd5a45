# Who has an older version gets to this one by ALTER EXTENSION UPDATE, in place: the indexes stay as
# they are, and the extension is then what CREATE EXTENSION makes anew.  All versions that the
# change log names are gone through, so that a release without its update script is noticed.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::Bin/..";
my ($default) = slurp_file("$top/lazyhash.control") =~ /^default_version = '(.+)'/m;
my @versions = slurp_file("$top/CHANGELOG.md") =~ /^## (\d+\.\d+\.\d+)/mg;

# Everything that belongs to the extension, with its definition, comment and privileges.
my $members = <<'SQL';
SELECT pg_describe_object(d.classid, d.objid, 0) COLLATE "C",
       obj_description(d.objid, d.classid::regclass::text::name),
       p.acl, CASE WHEN p.prokind IN ('f', 'p') THEN pg_get_functiondef(p.oid) END,
       CASE WHEN v.relkind = 'v' THEN pg_get_viewdef(v.oid) END, v.relacl
FROM pg_depend d
     LEFT JOIN (SELECT oid, prokind, proacl AS acl FROM pg_proc) p
       ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
     LEFT JOIN pg_class v ON d.classid = 'pg_class'::regclass AND v.oid = d.objid
WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
  AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'lazyhash')
ORDER BY 1;
SELECT o.opcname, o.opcintype::regtype, o.opcdefault, o.opckeytype::regtype, f.opfname,
       array(SELECT (amoplefttype::regtype, amoprighttype::regtype, amopstrategy,
                     amopopr::regoperator)::text
             FROM pg_amop WHERE amopfamily = f.oid ORDER BY 1),
       array(SELECT (amproclefttype::regtype, amprocrighttype::regtype, amprocnum,
                     amproc::regprocedure)::text
             FROM pg_amproc WHERE amprocfamily = f.oid ORDER BY 1)
FROM pg_opclass o JOIN pg_opfamily f ON f.oid = o.opcfamily
WHERE o.opcmethod = (SELECT oid FROM pg_am WHERE amname = 'lazyhash')
ORDER BY 1, 2;
SQL

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;

sub query
{
	my ($database, $sql) = @_;
	return $node->safe_psql($database, $sql);
}

is($versions[0], $default, 'the change log begins with the version that is installed by default');
like(slurp_file("$top/META.json"), qr/^\s{3}"version": "\Q$default\E"/m,
	'META.json is of that version');

query('postgres', 'CREATE EXTENSION lazyhash');
my $wanted = query('postgres', $members);
cmp_ok(scalar(() = $wanted =~ /^operator class /mg), '>=', 40, 'members are listed');
is(query('postgres', "SELECT extversion FROM pg_extension WHERE extname = 'lazyhash'"),
	$default, 'CREATE EXTENSION makes the default version');

# that a difference would be seen
is( query('postgres',
		"BEGIN; COMMENT ON FUNCTION lazyhash_check_all(bool) IS 'other'; $members") eq $wanted,
	'', 'another comment makes a difference');
is( query('postgres',
		"BEGIN; GRANT EXECUTE ON FUNCTION lazyhash_check_all(bool) TO PUBLIC; $members") eq $wanted,
	'', 'another privilege makes a difference');

foreach my $version (@versions)
{
	my $database = "from_$version";
	my $in_place = "SELECT relfilenode FROM pg_class WHERE relname = 't_k'";

	query('postgres', qq{CREATE DATABASE "$database"});
	query($database, qq{CREATE EXTENSION lazyhash VERSION '$version'});
	query($database, 'CREATE TABLE t (k int); INSERT INTO t SELECT generate_series(1, 10000)');
	query($database, 'CREATE INDEX t_k ON t USING lazyhash (k)');
	my $before = query($database, $in_place);

	query($database, 'ALTER EXTENSION lazyhash UPDATE');
	is(query($database, $members), $wanted, "from $version: the same as made anew");
	is(query($database, $in_place), $before, "from $version: the index stays as it is");
	is(query($database, "SELECT lazyhash_check('t_k', true)"),
		'', "from $version: the index is in order");
	is(query($database, 'SET enable_seqscan = off; SELECT count(*) FROM t WHERE k = 77'),
		'1', "from $version: the index answers");
}

$node->stop;
done_testing();

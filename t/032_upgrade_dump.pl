# A whole cluster with lazyhash indexes moves to another one: by pg_dumpall, which writes what
# makes everything anew, and by pg_upgrade, which takes the files of the indexes over as they are.
# Both have to bring all operator classes, those for citext and for types of users included; the
# dump of what has come over is the same dump again.  (From one version to another:
# scripts/test-upgrade.sh.)

use strict;
use warnings;

use Cwd qw(getcwd);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tmp = PostgreSQL::Test::Utils::tempdir();
my $here = getcwd();
chomp(my $bindir = `pg_config --bindir`);

sub new_cluster
{
	my ($name, $mode) = @_;
	my $node = PostgreSQL::Test::Cluster->new("${name}_$mode");

	$node->init(extra => ['--locale=C']);
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'lazyhash'\n")
	  if $mode eq 'custom';
	$node->append_conf('postgresql.conf', "autovacuum = off\n");
	return $node;
}

# Two databases; in one the extension is in another schema, and citext comes first.
sub fill
{
	my ($node) = @_;
	my $citext = $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_available_extensions WHERE name = 'citext'");

	$node->safe_psql('postgres', 'CREATE DATABASE plain; CREATE DATABASE other');
	$node->safe_psql('plain', q{
		CREATE ROLE inspector;
		CREATE EXTENSION lazyhash;
		COMMENT ON ACCESS METHOD lazyhash IS 'of this database';
		GRANT EXECUTE ON FUNCTION lazyhash_check(regclass, boolean) TO inspector;
		CREATE TYPE mood AS ENUM ('bad', 'good');
		CREATE TABLE t (k int, v text, m mood, d date, n numeric, r int4range, a int[],
			CONSTRAINT t_n EXCLUDE USING lazyhash (n WITH =));
		INSERT INTO t SELECT i, i % 100, CASE i % 2 WHEN 0 THEN 'bad'::mood ELSE 'good' END,
			'2000-01-01'::date + i % 1000, i, int4range(i, i + 1), ARRAY[i]
			FROM generate_series(1, 6000) i;
		CREATE INDEX t_k ON t USING lazyhash (k) WITH (fillfactor = 10, batch = 8);
		CREATE INDEX t_v ON t USING lazyhash (v text_pattern_ops);
		CREATE INDEX t_m ON t USING lazyhash (m);
		CREATE INDEX t_d ON t USING lazyhash (d) WHERE k % 3 = 0;
		CREATE INDEX t_r ON t USING lazyhash (r);
		CREATE INDEX t_a ON t USING lazyhash (a);
		CREATE INDEX t_expression ON t USING lazyhash (lower(v));
		CREATE UNLOGGED TABLE u (k int);
		CREATE INDEX u_k ON u USING lazyhash (k);
		INSERT INTO u SELECT i FROM generate_series(1, 1000) i;
		CREATE TABLE p (k int) PARTITION BY HASH (k);
		CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0);
		CREATE TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1);
		CREATE INDEX p_k ON p USING lazyhash (k);
		INSERT INTO p SELECT i FROM generate_series(1, 3000) i;
		-- chains, free pages, dead rows, counts that are pending
		INSERT INTO t (k) SELECT 7 FROM generate_series(1, 4000);
		DELETE FROM t WHERE k = 7 AND v IS NULL;
		VACUUM t;
		INSERT INTO t (k) SELECT i FROM generate_series(6001, 6900) i;
		DELETE FROM t WHERE k % 10 = 1;
	});
	$node->safe_psql('other', q{
		CREATE SCHEMA indexing;
		} . ($citext ? 'CREATE EXTENSION citext;' : '') . q{
		CREATE EXTENSION lazyhash SCHEMA indexing;
		-- a type of a user's, with hash classes of its own
		CREATE TYPE pair AS (x int, y int);
		CREATE FUNCTION pair_eq(pair, pair) RETURNS boolean IMMUTABLE STRICT LANGUAGE sql
			AS 'SELECT ($1).x = ($2).x AND ($1).y = ($2).y';
		CREATE FUNCTION pair_hash(pair) RETURNS int IMMUTABLE STRICT LANGUAGE sql
			AS 'SELECT hashint4(($1).x) # hashint4(($1).y)';
		CREATE OPERATOR === (FUNCTION = pair_eq, LEFTARG = pair, RIGHTARG = pair, COMMUTATOR = ===);
		CREATE OPERATOR CLASS pair_ops FOR TYPE pair USING hash AS
			OPERATOR 1 ===, FUNCTION 1 pair_hash(pair);
		SELECT indexing.lazyhash_add_opclasses();
		CREATE TABLE t (k int, p pair);
		INSERT INTO t SELECT i, (i, i % 10)::pair FROM generate_series(1, 2000) i;
		CREATE INDEX t_p ON t USING lazyhash (p pair_ops);
		} . ($citext ? q{
		CREATE TABLE c (name citext);
		INSERT INTO c SELECT 'Name ' || i FROM generate_series(1, 2000) i;
		CREATE INDEX c_name ON c USING lazyhash (name);} : ''));
	return $citext;
}

# What is known of operator classes, in words.
sub classes
{
	my ($node, $database) = @_;
	return $node->safe_psql($database, q{
		SELECT n.nspname, c.opcname, f.opfname, c.opcintype::regtype, c.opcdefault,
		       (SELECT count(*) FROM pg_amop WHERE amopfamily = f.oid),
		       (SELECT count(*) FROM pg_amproc WHERE amprocfamily = f.oid),
		       EXISTS (SELECT FROM pg_depend WHERE objid = c.oid AND deptype = 'e'),
		       EXISTS (SELECT FROM pg_depend WHERE objid = f.oid AND deptype = 'e'),
		       amvalidate(c.oid)
		FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
		     JOIN pg_namespace n ON n.oid = c.opcnamespace JOIN pg_opfamily f ON f.oid = c.opcfamily
		WHERE a.amname = 'lazyhash' ORDER BY 1, 2, 3});
}

sub dump_all
{
	my ($node) = @_;
	my $file = $tmp . '/' . $node->name . '.sql';

	$node->command_ok([ 'pg_dumpall', '--no-sync', '--file', $file ],
		'pg_dumpall of ' . $node->name);
	# without a word that is new each time; and rows may lie in another order
	return $file, join '', sort grep { !/^\\(un)?restrict / } split /^/, slurp_file($file);
}

# All indexes are in order, give answers, and take rows.
sub all_right
{
	my ($node, $citext) = @_;
	my $name = $node->name;
	my $quietly = 'SET client_min_messages = warning; SET enable_seqscan = off;';

	is($node->safe_psql('plain', "$quietly SELECT lazyhash_check_all(true)"),
		11, "$name: all indexes of one database are in order");
	is($node->safe_psql('other', "$quietly SELECT indexing.lazyhash_check_all(true)"),
		1 + $citext, "$name: those of the other");
	my $questions = q{
		SELECT (SELECT count(*) FROM t WHERE k = 7), (SELECT count(*) FROM t WHERE v = '7'),
		       (SELECT count(*) FROM t WHERE m = 'good'), (SELECT count(*) FROM t WHERE n = 77),
		       (SELECT count(*) FROM t WHERE d = '2000-01-04' AND k % 3 = 0),
		       (SELECT count(*) FROM t WHERE r = '[5,6)'), (SELECT count(*) FROM t WHERE a = '{5}'),
		       (SELECT count(*) FROM t WHERE lower(v) = '8'), (SELECT count(*) FROM u WHERE k = 7),
		       (SELECT count(*) FROM p WHERE k = 7)};
	is($node->safe_psql('plain', "$quietly $questions"),
		'1|60|2400|1|2|1|1|60|1|1', "$name: they answer");
	is($node->safe_psql('other', "$quietly SELECT count(*) FROM t WHERE p === (77, 7)::pair"),
		1, "$name: one for a type of a user's");
	is($node->safe_psql('other', "$quietly SELECT name FROM c WHERE name = 'NAME 77'"),
		'Name 77', "$name: one for citext")
	  if $citext;
	is($node->safe_psql('plain', 'SELECT * FROM lazyhash_add_opclasses() UNION ALL '
			  . 'SELECT * FROM lazyhash_refresh_opclasses()'),
		'', "$name: no operator class is missing");
	is($node->safe_psql('other', 'SELECT * FROM indexing.lazyhash_add_opclasses() UNION ALL '
			  . 'SELECT * FROM indexing.lazyhash_refresh_opclasses()'),
		'', "$name: nor in the other database");

	$node->safe_psql('plain', q{
		INSERT INTO t (k, v) SELECT i % 900, 'new' FROM generate_series(1, 5000) i;
		INSERT INTO t (n) VALUES (77) ON CONFLICT DO NOTHING;
		DELETE FROM t WHERE k % 7 = 3;
		VACUUM t});
	is($node->safe_psql('plain', "$quietly SELECT lazyhash_check_all(true)"),
		11, "$name: in order after they have been written to");
	return;
}

foreach my $mode ('generic', 'custom')
{
	my $old = new_cluster('old', $mode);
	$old->start;
	my $citext = fill($old);
	my %classes = map { $_ => classes($old, $_) } 'plain', 'other';
	my ($file, $script) = dump_all($old);

	cmp_ok(scalar(split /\n/, $classes{other}), '>', 40, "$mode: there are operator classes");
	unlike(join("\n", values %classes), qr/\|f$/m, "$mode: all of them are valid");

	my $restored = new_cluster('restored', $mode);
	$restored->start;
	# the role that runs it is there already
	$restored->command_checks_all(
		[ 'psql', '-X', '-q', '-f', $file, 'postgres' ],
		0, [qr//], [qr/\A(?:[^\n]*role "[^"]*" already exists\n)?\z/],
		"$mode: the script of pg_dumpall runs");
	is(classes($restored, $_), $classes{$_}, "$mode: operator classes of $_")
	  foreach 'plain', 'other';
	ok((dump_all($restored))[1] eq $script, "$mode: the restored cluster dumps as the first did");
	all_right($restored, $citext);
	$restored->stop;

	$old->stop;
	my $upgraded = new_cluster('upgraded', $mode);
	chdir $tmp or die "could not go to $tmp: $!";
	command_ok(
		[ 'pg_upgrade', '--old-datadir', $old->data_dir, '--new-datadir', $upgraded->data_dir,
			'--old-bindir', $bindir, '--new-bindir', $bindir, '--socketdir', $upgraded->host,
			'--old-port', $old->port, '--new-port', $upgraded->port ],
		"$mode: pg_upgrade");
	chdir $here or die "could not go to $here: $!";
	$upgraded->start;
	is(classes($upgraded, $_), $classes{$_}, "$mode: operator classes of $_")
	  foreach 'plain', 'other';
	ok((dump_all($upgraded))[1] eq $script, "$mode: the upgraded cluster dumps as the first did");
	all_right($upgraded, $citext);
	$upgraded->stop;
}

done_testing();

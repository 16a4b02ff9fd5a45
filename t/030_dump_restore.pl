# What pg_dump writes out restores: indexes and constraints with their parameters, and the
# operator classes that lazyhash_add_opclasses() made for the types of other extensions and of
# users.  A dump of what was restored is the same dump again.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;

my $citext = $node->safe_psql('postgres',
	"SELECT count(*) FROM pg_available_extensions WHERE name = 'citext'");

# the extension is in a schema that is not on the search path, and whose name needs quotes
$node->safe_psql('postgres', 'CREATE DATABASE origin');
$node->safe_psql(
	'origin', q{
	CREATE SCHEMA "My Indexes";
	CREATE EXTENSION lazyhash SCHEMA "My Indexes";

	CREATE TYPE celsius;
	CREATE FUNCTION celsius_in(cstring) RETURNS celsius
		IMMUTABLE STRICT LANGUAGE internal AS 'int4in';
	CREATE FUNCTION celsius_out(celsius) RETURNS cstring
		IMMUTABLE STRICT LANGUAGE internal AS 'int4out';
	CREATE TYPE celsius (INPUT = celsius_in, OUTPUT = celsius_out, LIKE = int4);
	CREATE FUNCTION celsius_eq(celsius, celsius) RETURNS boolean
		IMMUTABLE STRICT LANGUAGE internal AS 'int4eq';
	CREATE FUNCTION celsius_hash(celsius) RETURNS int
		IMMUTABLE STRICT LANGUAGE internal AS 'hashint4';
	CREATE OPERATOR = (FUNCTION = celsius_eq, LEFTARG = celsius, RIGHTARG = celsius,
		COMMUTATOR = =, HASHES, RESTRICT = eqsel, JOIN = eqjoinsel);
	CREATE OPERATOR CLASS celsius_ops DEFAULT FOR TYPE celsius USING hash AS
		OPERATOR 1 = (celsius, celsius), FUNCTION 1 celsius_hash(celsius);
	SELECT "My Indexes".lazyhash_add_opclasses();

	CREATE TABLE t (k int, v text, r int4range, c celsius,
		CONSTRAINT t_k EXCLUDE USING lazyhash (k WITH =) WITH (batch = 16));
	INSERT INTO t SELECT i, i % 100, int4range(i, i + 1), (i % 50)::text::celsius
		FROM generate_series(1, 5000) i;
	CREATE INDEX t_v ON t USING lazyhash (v "My Indexes".text_pattern_ops)
		WITH (fillfactor = 50);
	CREATE INDEX t_lower ON t USING lazyhash (lower(v)) WHERE k > 100;
	CREATE INDEX t_r ON t USING lazyhash (r);
	CREATE INDEX t_c ON t USING lazyhash (c);
	CREATE UNLOGGED TABLE u AS SELECT i AS k FROM generate_series(1, 1000) i;
	CREATE INDEX u_k ON u USING lazyhash (k);
	CREATE TABLE p (k int) PARTITION BY RANGE (k);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000);
	CREATE INDEX p_k ON p USING lazyhash (k);
	INSERT INTO p SELECT i FROM generate_series(1, 900) i;
});
$node->safe_psql(
	'origin', q{
	CREATE SCHEMA "Text";
	CREATE EXTENSION citext SCHEMA "Text";
	SELECT "My Indexes".lazyhash_add_opclasses();
	CREATE TABLE c (name "Text".citext);
	CREATE INDEX c_name ON c USING lazyhash (name);
	INSERT INTO c SELECT 'Name ' || i FROM generate_series(1, 1000) i;
}) if $citext;

# pg_dump marks its scripts with a word that is new each time
sub dump_of
{
	my ($database) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/$database.sql";

	$node->command_ok([ 'pg_dump', '--file', $file, $database ], "dump of $database");
	return $file, join '', grep { !/^\\(un)?restrict / } split /^/, slurp_file($file);
}

# Each index is whole, and answers.
sub check_restored
{
	my ($database) = @_;
	my $indexes = 'FROM pg_class c JOIN pg_am a ON a.oid = c.relam'
	  . " WHERE a.amname = 'lazyhash' AND c.relkind = 'i'";

	is( $node->safe_psql($database,
			qq{SELECT count("My Indexes".lazyhash_check(c.oid, true)) $indexes}),
		7 + $citext,
		"$database: all indexes are there and pass the check");
	is( $node->safe_psql(
			$database, q{
			SET enable_seqscan = off;
			SELECT (SELECT count(*) FROM t WHERE k = 7), (SELECT count(*) FROM t WHERE v = '7'),
			       (SELECT count(*) FROM t WHERE lower(v) = '7' AND k > 100),
			       (SELECT count(*) FROM t WHERE c = '7'), (SELECT count(*) FROM u WHERE k = 7),
			       (SELECT count(*) FROM p WHERE k = 7)}),
		'1|50|49|100|1|1',
		"$database: they answer");
	is( $node->safe_psql($database,
			q{SELECT count(*) FROM "My Indexes".lazyhash_add_opclasses()}),
		0,
		"$database: no operator class is missing");
	return unless $citext;
	is( $node->safe_psql(
			$database, q{
			SET enable_seqscan = off; SET search_path = public, "Text";
			SELECT name FROM c WHERE name = 'NAME 7'}),
		'Name 7',
		"$database: citext");
}

check_restored('origin');
my ($file, $script) = dump_of('origin');

$node->safe_psql('postgres', 'CREATE DATABASE copy');
$node->command_ok(
	[ 'psql', '--no-psqlrc', '--quiet', '--set=ON_ERROR_STOP=1', "--file=$file", 'copy' ],
	'restore of the script');
check_restored('copy');
my (undef, $second) = dump_of('copy');
is($second, $script, 'the copy dumps as the original does');

# an archive, restored by two processes
my $archive = "$PostgreSQL::Test::Utils::tmp_check/origin.dump";
$node->command_ok([ 'pg_dump', '--format=custom', '--file', $archive, 'origin' ], 'archive');
$node->safe_psql('postgres', 'CREATE DATABASE parallel');
$node->command_ok(
	[ 'pg_restore', '--exit-on-error', '--jobs=2', '--dbname=parallel', $archive ],
	'restore of the archive');
check_restored('parallel');

# --clean takes everything away before it makes it again
$node->command_ok(
	[ 'pg_restore', '--exit-on-error', '--clean', '--if-exists', '--dbname=copy', $archive ],
	'restore over what was restored');
check_restored('copy');

$node->stop;
done_testing();

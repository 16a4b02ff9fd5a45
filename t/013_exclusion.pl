# EXCLUDE USING lazyhash (... WITH =) under concurrent inserts, deletes and VACUUM: there are never
# two rows with one key, and where keys cannot meet, by construction, no conflict is reported.
#
# The check of such a constraint looks at rows that no snapshot protects, so VACUUM may take rows
# away and give their place to others while it lasts.  Of a partial constraint nobody looks at the
# predicate again: rows outside of it, with the very keys that are in use inside, are put in and
# taken out all the time.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;
use LazyStress;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_primary('exclusion', 'custom', "wal_consistency_checking = ''");

$node->safe_psql('postgres', <<'SQL');
-- keys that sessions fight for
CREATE TABLE fought (k int, EXCLUDE USING lazyhash (k WITH =) WITH (fillfactor = 10, batch = 4));
CREATE TABLE fought_part (k int, live bool,
	EXCLUDE USING lazyhash (k WITH =) WITH (fillfactor = 10, batch = 4) WHERE (live));
-- keys of which each session has its own
CREATE TABLE own (k int, EXCLUDE USING lazyhash (k WITH =) WITH (fillfactor = 10, batch = 4));
CREATE TABLE own_part (k int, live bool,
	EXCLUDE USING lazyhash (k WITH =) WITH (fillfactor = 10, batch = 4) WHERE (live));
-- found without the index under test
CREATE INDEX ON own (k);
CREATE INDEX ON own_part (k);

CREATE SEQUENCE conflicts;
CREATE FUNCTION try_insert(key int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO fought VALUES (key);
	INSERT INTO fought_part VALUES (key, true);
EXCEPTION WHEN exclusion_violation OR deadlock_detected THEN
	PERFORM nextval('conflicts');
END
$$;
-- rows of each kind are there at most once
CREATE FUNCTION doubles() RETURNS bigint LANGUAGE sql STABLE AS $$
SELECT (SELECT count(*) FROM (SELECT k FROM fought GROUP BY k HAVING count(*) > 1) a)
     + (SELECT count(*)
          FROM (SELECT k FROM fought_part WHERE live GROUP BY k HAVING count(*) > 1) b)
$$;
SQL

my $fight = <<'SQL';
\set k random(1, 400)
\set fate random(1, 10)
BEGIN;
SELECT try_insert(:k);
\if :fate = 1
ROLLBACK;
\else
COMMIT;
\endif
SQL

my $skip = <<'SQL';
\set k random(1, 400)
INSERT INTO fought VALUES (:k) ON CONFLICT DO NOTHING;
INSERT INTO fought_part VALUES (:k, true), (:k + 1, false) ON CONFLICT DO NOTHING;
SQL

my $delete = <<'SQL';
\set k random(1, 400)
DELETE FROM fought WHERE k = :k;
DELETE FROM fought_part WHERE k = :k;
SQL

my $watch = <<'SQL';
SELECT 1 / (doubles() = 0)::int;
\sleep 50 ms
SQL

# Any error here ends the client, and fails the test.  client_id tells the sessions' keys apart.
my $own = <<'SQL';
\set k random(0, 60) * 100 + :client_id
\set fate random(1, 8)
BEGIN;
DELETE FROM own WHERE k = :k;
INSERT INTO own VALUES (:k);
DELETE FROM own_part WHERE k = :k AND live;
INSERT INTO own_part VALUES (:k, true);
SAVEPOINT a;
DELETE FROM own WHERE k = :k;
INSERT INTO own VALUES (:k);
\if :fate <= 2
ROLLBACK TO a;
\endif
\if :fate = 8
ROLLBACK;
\else
COMMIT;
\endif
SQL
my $outside = <<'SQL';
\set k random(0, 60) * 100 + random(0, 7)
INSERT INTO own_part SELECT :k, false FROM generate_series(1, 5);
DELETE FROM own_part
WHERE NOT live AND k IN (SELECT k FROM own_part WHERE NOT live LIMIT 1 OFFSET 30);
SQL

my $vacuum = <<'SQL';
VACUUM own, own_part, fought, fought_part;
\sleep 5 ms
SQL

my $seconds = stress_seconds(8);
my $clients = stress_clients(4);
run_loads(
	[
		$node, 'fight', $clients, $seconds,
		[ [ fight => 3, $fight ], [ skip => 2, $skip ], [ delete => 3, $delete ] ]
	],
	[ $node, 'watch', 1, $seconds, [ [ watch => 1, $watch ] ] ],
	[ $node, 'own', $clients, $seconds, [ [ own => 1, $own ] ] ],
	[ $node, 'outside', 2, $seconds, [ [ outside => 1, $outside ] ] ],
	[ $node, 'vacuum', 1, $seconds, [ [ vacuum => 1, $vacuum ] ] ]);

is($node->safe_psql('postgres', 'SELECT doubles()'), '0', 'no two rows with one key');
is( $node->safe_psql('postgres',
		'SELECT count(*) FROM (SELECT k FROM own GROUP BY k HAVING count(*) > 1) x'),
	'0',
	'nor where each session has its own keys');
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM fought_part WHERE live'),
	'>', 50, 'there are rows that were fought for');
cmp_ok($node->safe_psql('postgres', 'SELECT last_value FROM conflicts'),
	'>', 50, 'sessions did get into conflict');
unlike(slurp_file($node->logfile), qr/violates exclusion constraint "own/,
	'no conflict where keys cannot meet');
indexes_in_order($node, 'after the load');
no_crash($node);
$node->stop('immediate');

done_testing();

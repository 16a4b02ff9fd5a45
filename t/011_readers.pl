# A reader finds the same rows as long as its snapshot lasts, whatever happens to the chain that it
# reads: splits in one change and in steps, squeezing by VACUUM, removal of dead entries, new
# overflow pages.
#
# In one REPEATABLE READ transaction each reader looks up a key by reading the table, by an index
# scan, by a bitmap scan, and with cursors that are left open in the middle of a chain; all must
# give the same rows. The keys have many duplicates and share the low bits of their hashes, so that
# their buckets are long chains that are split again and again; one key has so many that such a
# split hardly shortens the chain.  The table is emptied in between, so that this happens all the
# time. Readers on a standby do the same while it replays all that.  Both WAL modes.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;
use LazyStress;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $nkeys = 100;

sub make_table
{
	my ($node) = @_;

	$node->safe_psql('postgres', <<SQL);
CREATE TABLE r (k int, payload int) WITH (fillfactor = 90);
CREATE INDEX r_k ON r USING lazyhash (k) WITH (fillfactor = 10, batch = 8);
-- 10 keys that lie in one bucket until there are more than 256, 20 more until there are more than
-- 32, and others that lie anywhere, so that there are chains of two pages too
CREATE TABLE r_key AS SELECT row_number() OVER () AS i, k FROM
	((SELECT k FROM generate_series(1, 100000) k WHERE (hashint4(k) & 255) = 77 LIMIT 10) UNION ALL
	 (SELECT k FROM generate_series(1, 100000) k WHERE (hashint4(k) & 31) = 11 LIMIT 20) UNION ALL
	 SELECT k FROM generate_series(1, $nkeys - 30) k) x;
CREATE UNIQUE INDEX ON r_key (i);
CREATE FUNCTION nth_key(n int) RETURNS int LANGUAGE sql STABLE AS
'SELECT k FROM r_key WHERE i = 1 + n % $nkeys';

CREATE FUNCTION by_table(key int) RETURNS tid[] LANGUAGE plpgsql STABLE
SET enable_indexscan = off SET enable_bitmapscan = off AS
\$\$BEGIN RETURN ARRAY(SELECT ctid FROM r WHERE k = key ORDER BY ctid); END\$\$;
CREATE FUNCTION by_index(key int) RETURNS tid[] LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off AS
\$\$BEGIN RETURN ARRAY(SELECT ctid FROM r WHERE k = key ORDER BY ctid); END\$\$;
CREATE FUNCTION by_bitmap(key int) RETURNS tid[] LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_indexscan = off AS
\$\$BEGIN RETURN ARRAY(SELECT ctid FROM r WHERE k = key ORDER BY ctid); END\$\$;
-- fetches some rows at a time, and lets others work in between
CREATE FUNCTION by_cursor(key int, step int) RETURNS tid[] LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off AS \$\$
DECLARE
	c CURSOR FOR SELECT ctid FROM r WHERE k = key;
	row record;
	rows tid[] := '{}';
BEGIN
	FOR row IN c LOOP
		rows := rows || row.ctid;
		IF cardinality(rows) % step = 0 THEN
			PERFORM pg_sleep(0.001 * random());
		END IF;
	END LOOP;
	RETURN ARRAY(SELECT unnest(rows) ORDER BY 1);
END\$\$;

CREATE FUNCTION compare_once(key int, step int) RETURNS void LANGUAGE plpgsql STABLE AS \$\$
DECLARE
	truth tid[] := by_table(key);
	found tid[];
	way text;
BEGIN
	FOREACH way IN ARRAY ARRAY['by_index', 'by_bitmap', 'by_cursor'] LOOP
		CASE way
			WHEN 'by_index' THEN found := by_index(key);
			WHEN 'by_bitmap' THEN found := by_bitmap(key);
			ELSE found := by_cursor(key, step);
		END CASE;
		IF found IS DISTINCT FROM truth THEN
			RAISE EXCEPTION 'key %: % finds % rows, the table has %; missing %, too many %',
				key, way,
				cardinality(found), cardinality(truth),
				ARRAY(SELECT unnest(truth) EXCEPT ALL SELECT unnest(found)),
				ARRAY(SELECT unnest(found) EXCEPT ALL SELECT unnest(truth));
		END IF;
	END LOOP;
END\$\$;

CREATE FUNCTION grow(key int, n int) RETURNS void LANGUAGE sql AS
'INSERT INTO r SELECT key, i FROM generate_series(1, n) i';
CREATE FUNCTION shrink(key int, n int) RETURNS void LANGUAGE sql AS
'DELETE FROM r WHERE ctid = ANY (ARRAY(SELECT ctid FROM r WHERE k = key LIMIT n))';
SQL
	my $plan = $node->safe_psql('postgres',
		'SET enable_seqscan = off; SET enable_bitmapscan = off; '
		  . 'EXPLAIN SELECT ctid FROM r WHERE k = 1');
	like($plan, qr/Index Scan using r_k/, 'the index is what is tested');
	return;
}

my $read = <<'SQL';
\set n random_exponential(0, 99, 4)
\set step random(1, 300)
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT compare_once(nth_key(:n), :step);
SELECT compare_once(nth_key(:n), 100000);
SELECT compare_once(nth_key(:n + 1), :step);
COMMIT;
SQL

# a cursor of the session, with lookups by others and by itself in between
my $cursor = <<'SQL';
\set n random_exponential(0, 99, 4)
BEGIN ISOLATION LEVEL REPEATABLE READ;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
DECLARE outer_cursor CURSOR WITH HOLD FOR SELECT ctid FROM r WHERE k = (SELECT nth_key(:n));
FETCH 10 FROM outer_cursor;
SELECT compare_once(nth_key(:n + 1), 50);
FETCH 500 FROM outer_cursor;
\set pause random(0, 60)
\sleep :pause ms
FETCH 500 FROM outer_cursor;
SELECT compare_once(nth_key(:n), 50);
COMMIT;
CLOSE outer_cursor;
SQL

my $write = <<'SQL';
\set n random_exponential(0, 99, 4)
\set m random_exponential(0, 99, 4)
\set rows random(1, 400)
\set fate random(1, 20)
BEGIN;
SELECT grow(nth_key(:n), :rows);
\if :fate % 3 = 0
SELECT grow(nth_key(0), :rows);
\endif
\if :fate <= 14
SELECT shrink(nth_key(:m), :rows + 20);
\endif
\if :fate = 1
ROLLBACK;
\else
COMMIT;
\endif
SQL

my $update = <<'SQL';
\set n random_exponential(0, 99, 4)
\set m random_exponential(0, 99, 4)
UPDATE r SET k = nth_key(:m)
WHERE ctid = ANY (ARRAY(SELECT ctid FROM r WHERE k = nth_key(:n) LIMIT 50));
UPDATE r SET payload = payload + 1
WHERE ctid = ANY (ARRAY(SELECT ctid FROM r WHERE k = nth_key(:m) LIMIT 20));
SQL

# slowly too, so that it is often in the middle of a chain
my $vacuum = <<'SQL';
\set pause random(0, 80)
\set cost random(1, 200)
\sleep :pause ms
SET vacuum_cost_delay = '1ms';
SET vacuum_cost_limit = :cost;
VACUUM r;
SQL

# by turns: an empty index that starts with one bucket, of one or the other kind, and one that was
# built
my $empty = <<'SQL';
\set pause random(300, 2500)
\set full random(0, 1) * 90 + 10
\sleep :pause ms
BEGIN;
ALTER INDEX r_k SET (fillfactor = :full);
TRUNCATE r;
COMMIT;
SQL
my $rebuild = <<'SQL';
\set pause random(300, 2500)
\sleep :pause ms
REINDEX INDEX r_k;
SQL

foreach my $mode ('generic', 'custom')
{
	my $primary = new_primary($mode, $mode);
	my $seconds = stress_seconds(8);

	make_table($primary);
	my $standby = new_standby($primary);

	run_loads(
		[ $primary, 'readers', 4, $seconds, [ [ read => 3, $read ], [ cursor => 1, $cursor ] ] ],
		[ $standby, 'standby', 2, $seconds, [ [ read => 3, $read ] ] ],
		[
			$primary, 'writers', stress_clients(4), $seconds,
			[ [ write => 5, $write ], [ update => 1, $update ] ]
		],
		[ $primary, 'vacuum', 1, $seconds, [ [ vacuum => 1, $vacuum ] ] ],
		# no longer than this, so that there is something left to check
		[ $primary, 'renew', 1, $seconds - 3,
			[ [ empty => 2, $empty ], [ rebuild => 1, $rebuild ] ] ]);

	my ($buckets, $pages) = split /\|/,
	  $primary->safe_psql('postgres',
		"SELECT maxbucket + 1, pg_relation_size('r_k') / 8192 FROM lazyhash_metapage_info('r_k')");
	note("$mode: $buckets buckets, $pages pages");

	indexes_in_order($primary, 'after the load');
	ok(caught_up($primary, $standby), 'the standby has replayed everything');
	indexes_in_order($standby, 'after replay');
	foreach my $node ($primary, $standby)
	{
		$node->safe_psql('postgres', 'SELECT compare_once(k, 1000) FROM r_key');
		no_crash($node);
		$node->stop('immediate');
	}
}

done_testing();

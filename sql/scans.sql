--
-- Every kind of scan that equality can be looked up with finds each matching row exactly once.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA scans;
SET search_path = scans, public;

-- key i is there i times for i below 100, then one row a key, and nulls; key 7 has many pages of
-- rows
CREATE TABLE t (k int, n int GENERATED ALWAYS AS IDENTITY);
INSERT INTO t SELECT i FROM generate_series(1, 99) i, generate_series(1, i) j;
INSERT INTO t SELECT i FROM generate_series(100, 3000) i;
INSERT INTO t SELECT NULL FROM generate_series(1, 50) i;
CREATE INDEX t_k ON t USING lazyhash (k);
INSERT INTO t SELECT 7 FROM generate_series(1, 5000) i;
ANALYZE t;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
SET enable_seqscan = off;

-- index scan and bitmap scan
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE k = 50;
SELECT count(*), count(DISTINCT n) FROM t WHERE k = 50;
SELECT count(*), count(DISTINCT n) FROM t WHERE k = 7;
SELECT count(*) FROM t WHERE k = 5000;
SELECT count(*) FROM t WHERE k = -1;
SET enable_bitmapscan = on;
SET enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE k = 50;
SELECT count(*), count(DISTINCT n) FROM t WHERE k = 50;
SELECT count(*), count(DISTINCT n) FROM t WHERE k = 7;
SELECT count(*) FROM t WHERE k = 5000;

-- bitmaps of several look-ups, of two indexes, and one that is too large to name each row
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE k = 60 OR k = 61;
SELECT count(*) FROM t WHERE k = 60 OR k = 61;
CREATE INDEX t_n ON t USING lazyhash (n);
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE k = 60 OR n = 5;
SELECT count(*) FROM t WHERE k = 60 OR n = 5;
SET work_mem = '64kB';
SELECT count(*) FROM t WHERE k = 7 OR k = 90;
RESET work_mem;
DROP INDEX t_n;
RESET enable_indexscan;

-- lists
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE k IN (1, 2, 3, 2);
SELECT count(*) FROM t WHERE k IN (1, 2, 3, 2);
SELECT count(*) FROM t WHERE k = ANY ('{10,NULL,20}');
SELECT count(*) FROM t WHERE k = ANY ('{}');
SELECT count(*) FROM t WHERE k = ANY (NULL::int[]);
SET enable_bitmapscan = off;
SELECT * FROM pg_temp.plan_of($$SELECT count(*) FROM t WHERE k IN (1, 2, 3)$$);
RESET enable_bitmapscan;

-- nulls are equal to nothing, and not in the index
SELECT count(*) FROM t WHERE k = NULL;
SELECT count(*) FROM t WHERE k = (SELECT NULL::int);
SELECT count(*) FROM t WHERE k IN (NULL, 50);
SELECT count(*) FROM t WHERE k IS NULL;
SET enable_bitmapscan = off;
PREPARE by_key(int) AS SELECT count(*) FROM t WHERE k = $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_key(3);
EXECUTE by_key(3);
EXECUTE by_key(NULL);
EXECUTE by_key(7);
EXECUTE by_key(4000);
RESET plan_cache_mode;

-- the index holds hash codes only: values that share one are told apart by the table
CREATE TABLE collide (k bigint, n int GENERATED ALWAYS AS IDENTITY);
CREATE INDEX collide_k ON collide USING lazyhash (k);
INSERT INTO collide SELECT i * factor FROM generate_series(1, 1000) i,
	(VALUES (1), (4294967296)) f(factor);
SELECT hashint8(5) = hashint8(5 * 4294967296) AS one_code;
SELECT pg_temp.wrong_keys('collide_k') AS wrong;
SELECT k FROM collide WHERE k = 5;
SELECT k FROM collide WHERE k = 5 * 4294967296;
DELETE FROM collide WHERE k = 5;
SELECT k FROM collide WHERE k = 5;
SELECT k FROM collide WHERE k IN (5, 5 * 4294967296);

-- a scan that stops early
SELECT k FROM t WHERE k = 7 LIMIT 3;
SELECT EXISTS (SELECT FROM t WHERE k = 99), EXISTS (SELECT FROM t WHERE k = 4000);

-- the inner side of a nested loop: the scan begins anew for each outer row, nulls among them
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
CREATE TABLE outer_side (k int);
INSERT INTO outer_side VALUES (7), (3), (NULL), (3), (4000), (99), (NULL), (2999);
ANALYZE outer_side;
SELECT * FROM pg_temp.plan_of($$SELECT o.k, t.n FROM outer_side o LEFT JOIN t ON t.k = o.k$$);
SELECT o.k, count(t.n), count(DISTINCT t.n) FROM outer_side o LEFT JOIN t ON t.k = o.k
GROUP BY 1 ORDER BY 1;
SELECT o.k, EXISTS (SELECT FROM t WHERE t.k = o.k) FROM outer_side o ORDER BY 1;
SELECT o.k, l.found
FROM outer_side o, LATERAL (SELECT count(*) AS found FROM t WHERE t.k = o.k LIMIT 1) l ORDER BY 1;
-- two keys for one look-up: a row must have both
SELECT * FROM pg_temp.plan_of($$
	SELECT t.n FROM outer_side a CROSS JOIN outer_side b LEFT JOIN t ON t.k = a.k AND t.k = b.k$$);
SELECT a.k, b.k, count(t.k)
FROM outer_side a CROSS JOIN outer_side b LEFT JOIN t ON t.k = a.k AND t.k = b.k
GROUP BY 1, 2 HAVING count(t.k) > 0 OR a.k = 99 ORDER BY 1, 2;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_memoize;

-- cursors go forward, a few rows at a time, and more than one at once
BEGIN;
DECLARE c1 CURSOR FOR SELECT k FROM t WHERE k = 4;
DECLARE c2 CURSOR FOR SELECT k FROM t WHERE k = 5;
FETCH 2 FROM c1;
FETCH 1 FROM c2;
FETCH 1 FROM c1;
MOVE 3 IN c2;
FETCH 5 FROM c1;
FETCH 5 FROM c2;
FETCH BACKWARD 1 FROM c1;
ROLLBACK;
-- one that shall go backward as well keeps what it has read
BEGIN;
EXPLAIN (COSTS OFF) DECLARE c3 SCROLL CURSOR FOR SELECT k FROM t WHERE k = 4;
DECLARE c3 SCROLL CURSOR FOR SELECT k FROM t WHERE k = 4;
FETCH ALL FROM c3;
FETCH BACKWARD 2 FROM c3;
FETCH ABSOLUTE 1 FROM c3;
ROLLBACK;
-- one that outlives its transaction
BEGIN;
DECLARE c4 CURSOR WITH HOLD FOR SELECT k FROM t WHERE k = 3;
FETCH 1 FROM c4;
COMMIT;
FETCH ALL FROM c4;
CLOSE c4;
-- one whose rows change meanwhile, by its own hand: it sees what it saw when it began
BEGIN;
DECLARE c5 CURSOR FOR SELECT k FROM t WHERE k = 20;
FETCH 2 FROM c5;
INSERT INTO t SELECT 20 FROM generate_series(1, 3000);
DELETE FROM t WHERE k = 20;
SELECT pg_temp.rest_of('c5');
ROLLBACK;
-- update and delete where the cursor is
BEGIN;
DECLARE c6 CURSOR FOR SELECT k FROM t WHERE k = 6 FOR UPDATE;
FETCH 1 FROM c6;
UPDATE t SET k = 6 WHERE CURRENT OF c6;
FETCH 2 FROM c6;
DELETE FROM t WHERE CURRENT OF c6;
SELECT pg_temp.rest_of('c6');
SELECT count(*) FROM t WHERE k = 6;
ROLLBACK;

-- a statement does not find the rows that it makes itself
INSERT INTO t SELECT k FROM t WHERE k = 9;
SELECT count(*) FROM t WHERE k = 9;
UPDATE t SET k = k WHERE k = 9;
SELECT count(*) FROM t WHERE k = 9;

-- the functions behind PL/pgSQL loops
DO $$
DECLARE
	r record;
	seen int := 0;
BEGIN
	FOR r IN SELECT * FROM t WHERE k = 30 LOOP
		INSERT INTO t VALUES (30);
		seen := seen + 1;
	END LOOP;
	RAISE NOTICE 'seen: %', seen;
END
$$;
SELECT count(*) FROM t WHERE k = 30;

-- what the access method is asked about itself
SELECT p, pg_index_column_has_property('t_k'::regclass, 1, p)
FROM unnest(ARRAY['asc', 'desc', 'orderable', 'distance_orderable', 'returnable', 'search_array',
	'search_nulls']) p;
SELECT p, pg_index_has_property('t_k'::regclass, p)
FROM unnest(ARRAY['clusterable', 'index_scan', 'bitmap_scan', 'backward_scan']) p;
SELECT p, pg_indexam_has_property(oid, p)
FROM pg_am, unnest(ARRAY['can_order', 'can_unique', 'can_multi_col', 'can_exclude',
	'can_include']) p
WHERE amname = 'lazyhash';

RESET enable_bitmapscan;
RESET enable_seqscan;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA scans CASCADE;

--
-- The planner uses an index for what it can answer, at the price that the built-in kind has, and
-- for nothing else.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA planner;
SET search_path = planner, public;
CREATE TABLE t (k int, several int, v text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, i % 1000, md5(i::text) FROM generate_series(1, 50000) i;
CREATE INDEX t_k ON t USING lazyhash (k);
CREATE INDEX t_several ON t USING lazyhash (several);
CREATE INDEX t_v ON t USING lazyhash (v);
VACUUM ANALYZE t;

-- without being told to
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE k = 7;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE 7 = k;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE v = md5('7');
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE k = 7 AND v <> '';
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE several = 7;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE k IN (7, 8, 9);
EXPLAIN (COSTS OFF) DELETE FROM t WHERE k = 7;
-- a join of a few rows with many
CREATE TABLE few AS SELECT i * 100 AS k FROM generate_series(1, 5) i;
ANALYZE few;
EXPLAIN (COSTS OFF) SELECT * FROM few JOIN t USING (k);
EXPLAIN (COSTS OFF) SELECT * FROM few WHERE NOT EXISTS (SELECT FROM t WHERE t.k = few.k);
-- most of a table is read faster as it lies
EXPLAIN (COSTS OFF) SELECT count(*) FROM t t1 JOIN t t2 ON t1.k = t2.k;

-- not for these, even when anything else is dear
SET enable_seqscan = off;
SELECT * FROM pg_temp.plan_of($$SELECT * FROM t WHERE k < 7$$);
SELECT * FROM pg_temp.plan_of($$SELECT * FROM t WHERE k BETWEEN 6 AND 7$$);
SELECT * FROM pg_temp.plan_of($$SELECT * FROM t WHERE k <> 7$$);
SELECT * FROM pg_temp.plan_of($$SELECT * FROM t WHERE k IS NULL$$);
SELECT * FROM pg_temp.plan_of($$SELECT * FROM t WHERE k IS NOT NULL$$);
SELECT * FROM pg_temp.plan_of($$SELECT * FROM t ORDER BY k LIMIT 1$$);
SELECT * FROM pg_temp.plan_of($$SELECT max(k) FROM t$$);
SELECT * FROM pg_temp.plan_of($$SELECT * FROM t WHERE v LIKE 'abc%'$$);
SELECT * FROM pg_temp.plan_of($$SELECT * FROM t WHERE k = 7.5$$);
SELECT * FROM pg_temp.plan_of($$SELECT k FROM t$$);
-- the values are not in the index, so the table is always read
EXPLAIN (COSTS OFF) SELECT k FROM t WHERE k = 7;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE k = 7;
RESET enable_seqscan;

-- the price of a look-up, in the planner's units
CREATE FUNCTION price(query text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	IF plan->0->'Plan'->>'Node Type' <> 'Index Scan' THEN
		RAISE EXCEPTION 'not an index scan: %', plan;
	END IF;
	RETURN plan->0->'Plan'->>'Total Cost';
END
$$;
CREATE FUNCTION price_with(method text, target text, query text) RETURNS numeric LANGUAGE plpgsql
	AS $$
DECLARE
	answer numeric;
BEGIN
	-- the other indexes are out of the way for as long as this takes
	BEGIN
		DROP INDEX t_k, t_several, t_v;
		EXECUTE format('CREATE INDEX ON t USING %s (%s)', method, target);
		answer := price(query);
		RAISE EXCEPTION USING errcode = 'P0001', message = answer::text;
	EXCEPTION WHEN raise_exception THEN
		RETURN sqlerrm;
	END;
END
$$;
SET enable_bitmapscan = off;
SELECT query, lazyhash <= hash AS as_cheap_as_hash, lazyhash <= btree AS as_cheap_as_btree
FROM (SELECT query, price_with('lazyhash', target, query) AS lazyhash,
             price_with('hash', target, query) AS hash, price_with('btree', target, query) AS btree
      FROM (VALUES ('k', 'SELECT * FROM t WHERE k = 7'),
                   ('several', 'SELECT * FROM t WHERE several = 7'),
                   ('v', $q$SELECT * FROM t WHERE v = md5('7')$q$)) q(target, query)) prices;
-- a look-up of a key that has many rows costs more than that of one that has few
SELECT price('SELECT * FROM t WHERE several = 7') > price('SELECT * FROM t WHERE k = 7') AS by_rows;
RESET enable_bitmapscan;

-- beside a B-tree of the same column, equality goes one way and ranges the other
CREATE INDEX t_k_btree ON t (k);
VACUUM ANALYZE t;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE k = 7;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE k BETWEEN 6 AND 7;

-- a partial index for the queries that imply its predicate
CREATE INDEX t_several_part ON t USING lazyhash (several) WHERE k > 49000;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE several = 7 AND k > 49500;
PREPARE part(int) AS SELECT * FROM t WHERE several = 7 AND k > $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE part(49500);
RESET plan_cache_mode;

-- an empty table, and one never analyzed
CREATE TABLE none (k int);
CREATE INDEX none_k ON none USING lazyhash (k);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM none WHERE k = 7;
RESET enable_bitmapscan;
RESET enable_seqscan;

SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA planner CASCADE;

--
-- What can be done to an index of the built-in kind can be done to one of this.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA ddl;
SET search_path = ddl, public;
CREATE TABLE t (k int, v text);
INSERT INTO t SELECT i, 'v' || i % 1000 FROM generate_series(1, 5000) i;

-- concurrently
CREATE INDEX CONCURRENTLY t_k ON t USING lazyhash (k);
SELECT indisvalid, indisready FROM pg_index WHERE indexrelid = 't_k'::regclass;
INSERT INTO t SELECT i, 'w' FROM generate_series(5001, 7000) i;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
CREATE INDEX CONCURRENTLY IF NOT EXISTS t_k ON t USING lazyhash (k);
CREATE INDEX CONCURRENTLY t_bad ON t USING lazyhash ((1 / (k - 7)));
SELECT indisvalid FROM pg_index WHERE indexrelid = 't_bad'::regclass;
DELETE FROM t WHERE k = 7;
REINDEX INDEX CONCURRENTLY t_bad;
SELECT indisvalid FROM pg_index WHERE indexrelid = 't_bad'::regclass;
SELECT pg_temp.wrong_keys('t_bad') AS wrong;
DROP INDEX CONCURRENTLY t_bad;

-- REINDEX: the index, its table, the schema, concurrently and not
SELECT pg_relation_filenode('t_k') AS before \gset
REINDEX INDEX t_k;
SELECT pg_relation_filenode('t_k') <> :before AS new_file;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
SELECT pg_relation_filenode('t_k') AS before \gset
REINDEX INDEX CONCURRENTLY t_k;
SELECT pg_relation_filenode('t_k') <> :before AS new_file;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
REINDEX TABLE t;
REINDEX TABLE CONCURRENTLY t;
REINDEX SCHEMA ddl;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
-- in a transaction that is rolled back, the old file is still there
BEGIN;
REINDEX INDEX t_k;
INSERT INTO t SELECT i, 'x' FROM generate_series(8001, 9000) i;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
ROLLBACK;
SELECT pg_temp.wrong_keys('t_k') AS wrong;

-- expressions and predicates
CREATE INDEX t_lower ON t USING lazyhash (lower(v));
CREATE INDEX t_mod ON t USING lazyhash ((k % 100)) WHERE v <> 'v3';
CREATE INDEX t_part ON t USING lazyhash (v) WHERE k > 2500;
INSERT INTO t VALUES (8001, 'V1'), (8002, 'v3'), (10, 'V10'), (NULL, 'V10'), (8003, NULL);
UPDATE t SET v = upper(v) WHERE k % 3 = 0;
UPDATE t SET k = k - 3000 WHERE k BETWEEN 2501 AND 3000;
SELECT pg_temp.wrong_keys('t_lower') + pg_temp.wrong_keys('t_mod') + pg_temp.wrong_keys('t_part')
	AS wrong;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE lower(v) = 'v10';
SELECT count(*) FROM t WHERE lower(v) = 'v10';
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE v = 'v10' AND k > 3000;
SELECT * FROM pg_temp.plan_of($$SELECT * FROM t WHERE v = 'v10' AND k > 2000$$);
SELECT count(*) FROM t WHERE v = 'v10' AND k > 3000;
RESET enable_bitmapscan;
RESET enable_seqscan;
ANALYZE t;
SELECT count(*) > 0 AS statistics FROM pg_stats WHERE tablename = 't_lower';

-- changes of the table
ALTER TABLE t ALTER k TYPE bigint;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
DROP INDEX t_mod, t_part;
ALTER TABLE t ALTER k TYPE text USING k::text || ' text';
SELECT pg_temp.wrong_keys('t_k') AS wrong;
ALTER TABLE t ADD COLUMN n int DEFAULT 7;
CREATE INDEX t_n ON t USING lazyhash (n);
SELECT pg_temp.wrong_keys('t_n') AS wrong;
ALTER TABLE t DROP COLUMN n;
SELECT to_regclass('t_n');
ALTER TABLE t RENAME k TO key;
ALTER INDEX t_k RENAME TO t_key;
SELECT pg_get_indexdef('t_key'::regclass);
CREATE SCHEMA ddl_other;
ALTER TABLE t SET SCHEMA ddl_other;
ALTER TABLE ddl_other.t SET SCHEMA ddl;
SELECT pg_temp.wrong_keys('t_key') AS wrong;
ALTER TABLE t ALTER key SET STATISTICS 10;
COMMENT ON INDEX t_key IS 'an index';
SELECT obj_description('t_key'::regclass);
CREATE STATISTICS t_stat ON lower(v), key FROM t;
ANALYZE t;

-- partitions: the index of the parent is made for those there are and for those that come
CREATE TABLE p (k int, region text) PARTITION BY LIST (region);
CREATE TABLE p_a PARTITION OF p FOR VALUES IN ('a');
CREATE TABLE p_b PARTITION OF p FOR VALUES IN ('b') PARTITION BY RANGE (k);
CREATE TABLE p_b1 PARTITION OF p_b FOR VALUES FROM (0) TO (1000);
INSERT INTO p SELECT i, 'a' FROM generate_series(1, 1000) i;
CREATE INDEX p_k ON p USING lazyhash (k) WITH (fillfactor = 60);
CREATE TABLE p_b2 PARTITION OF p_b FOR VALUES FROM (1000) TO (10000);
CREATE TABLE p_c PARTITION OF p FOR VALUES IN ('c');
INSERT INTO p SELECT i, 'b' FROM generate_series(1, 3000) i;
INSERT INTO p SELECT i, 'c' FROM generate_series(1, 1000) i;
UPDATE p SET region = 'c' WHERE k % 10 = 0 AND region = 'a';
SELECT relname, relkind, reloptions FROM pg_class
WHERE relname ~ '^p_.*k_idx$' OR relname = 'p_k' ORDER BY relname COLLATE "C";
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM p WHERE k = 500;
SELECT * FROM p WHERE k = 500 ORDER BY region;
EXPLAIN (COSTS OFF) SELECT * FROM p WHERE k = 500 AND region = 'b';
-- one that had an index before it was attached
CREATE TABLE p_d (k int, region text);
CREATE INDEX p_d_mine ON p_d USING lazyhash (k);
INSERT INTO p_d SELECT i, 'd' FROM generate_series(1, 1000) i;
ALTER TABLE p ATTACH PARTITION p_d FOR VALUES IN ('d');
SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = 'p_d_mine'::regclass;
ALTER TABLE p DETACH PARTITION p_c;
ALTER TABLE p DETACH PARTITION p_a CONCURRENTLY;
SELECT * FROM p WHERE k = 500 ORDER BY region;
CREATE INDEX p_only ON ONLY p USING lazyhash (region);
SELECT indisvalid FROM pg_index WHERE indexrelid = 'p_only'::regclass;
REINDEX INDEX p_k;
REINDEX TABLE CONCURRENTLY p;
SELECT * FROM p WHERE k = 700 ORDER BY region;
RESET enable_bitmapscan;
RESET enable_seqscan;
SELECT pg_temp.wrong_keys('p_d_mine') + pg_temp.wrong_keys('p_b2_k_idx') AS wrong;
-- each partition by itself can have an exclusion constraint
ALTER TABLE p_d ADD EXCLUDE USING lazyhash (k WITH =);
INSERT INTO p VALUES (7, 'd');

-- LIKE and inheritance
CREATE TABLE origin (k int, v text, EXCLUDE USING lazyhash (k WITH =) WITH (batch = 16));
CREATE INDEX origin_v ON origin USING lazyhash (v text_pattern_ops) WITH (fillfactor = 40)
	WHERE k > 0;
CREATE TABLE copy (LIKE origin INCLUDING INDEXES);
\d copy
SELECT relname, reloptions FROM pg_class WHERE relname ~ '^copy_' AND relkind = 'i' ORDER BY 1;
INSERT INTO copy SELECT i, i FROM generate_series(1, 500) i;
INSERT INTO copy VALUES (7, 'x');
SELECT pg_temp.wrong_keys('copy_k_excl') AS wrong;
CREATE TABLE heir () INHERITS (origin);
CREATE INDEX heir_k ON heir USING lazyhash (k);
INSERT INTO heir SELECT i, i FROM generate_series(1, 500) i;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM origin WHERE k = 7;
SELECT * FROM origin WHERE k = 7;
RESET enable_bitmapscan;
RESET enable_seqscan;

-- materialized views
CREATE MATERIALIZED VIEW m AS SELECT i AS k, i % 10 AS v FROM generate_series(1, 1000) i;
CREATE INDEX m_k ON m USING lazyhash (k);
CREATE UNIQUE INDEX m_unique ON m (k);
REFRESH MATERIALIZED VIEW m;
REFRESH MATERIALIZED VIEW CONCURRENTLY m;
DROP INDEX m_unique;
SELECT pg_temp.wrong_keys('m_k') AS wrong;

-- tablespaces
SET allow_in_place_tablespaces = on;
SET client_min_messages = warning;
DROP TABLESPACE IF EXISTS regress_lazyhash_space;
RESET client_min_messages;
CREATE TABLESPACE regress_lazyhash_space LOCATION '';
CREATE INDEX t_space ON t USING lazyhash (key) TABLESPACE regress_lazyhash_space;
DROP INDEX t_key;
SELECT pg_temp.wrong_keys('t_space') AS wrong;
INSERT INTO t SELECT i || ' more', 'x' FROM generate_series(1, 2000) i;
ALTER INDEX t_space SET TABLESPACE pg_default;
SELECT pg_temp.wrong_keys('t_space') AS wrong;
SELECT lazyhash_check('t_space', true);
ALTER INDEX t_space SET TABLESPACE regress_lazyhash_space;
INSERT INTO t SELECT i || ' yet more', 'x' FROM generate_series(1, 2000) i;
REINDEX (TABLESPACE pg_default) INDEX t_space;
SELECT pg_temp.wrong_keys('t_space') AS wrong;
DROP TABLESPACE regress_lazyhash_space;

SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA ddl CASCADE;
DROP SCHEMA ddl_other CASCADE;

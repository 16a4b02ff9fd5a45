--
-- VACUUM removes the entries of dead rows and no others, and the room that they took is used again.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA vacuum;
SET search_path = vacuum, public;

-- 20000 keys of one row, and a hundred of a hundred rows
CREATE TABLE t (k int, n int GENERATED ALWAYS AS IDENTITY) WITH (autovacuum_enabled = off);
CREATE INDEX t_k ON t USING lazyhash (k);
INSERT INTO t SELECT i FROM generate_series(1, 20000) i;
INSERT INTO t SELECT i % 100 + 1 FROM generate_series(1, 10000) i;
SELECT pg_relation_size('t_k') AS size \gset

-- a table without dead rows
VACUUM t;
SELECT pg_temp.wrong_keys('t_k') AS wrong;

-- every second row goes
DELETE FROM t WHERE n % 2 = 0;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
VACUUM t;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
SELECT lazyhash_check('t_k', true);
SELECT reltuples FROM pg_class WHERE oid = 't_k'::regclass;

-- all go, and nothing is left to find
DELETE FROM t;
VACUUM t;
SELECT lazyhash_check('t_k', true);
SELECT reltuples FROM pg_class WHERE oid = 't_k'::regclass;
SET enable_seqscan = off;
SELECT count(*) FROM t WHERE k = 1;
RESET enable_seqscan;

-- the same rows again: the index need not grow for them
INSERT INTO t SELECT i FROM generate_series(1, 20000) i;
INSERT INTO t SELECT i % 100 + 1 FROM generate_series(1, 10000) i;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
SELECT pg_relation_size('t_k') <= :size * 1.1 AS room_used_again;

-- a table that is emptied and filled over and over, each time with other keys
CREATE TABLE queue (k int) WITH (autovacuum_enabled = off);
CREATE INDEX queue_k ON queue USING lazyhash (k);
INSERT INTO queue SELECT i % 3 FROM generate_series(1, 5000) i;
SELECT pg_relation_size('queue_k') AS size \gset
DELETE FROM queue;
VACUUM queue;
INSERT INTO queue SELECT i % 3 FROM generate_series(1, 5000) i;
DELETE FROM queue;
VACUUM queue;
INSERT INTO queue SELECT i % 3 + 5 FROM generate_series(1, 5000) i;
DELETE FROM queue WHERE k = 6;
VACUUM queue;
INSERT INTO queue SELECT 6 FROM generate_series(1, 1600) i;
SELECT pg_relation_size('queue_k') <= :size * 2 AS bounded;
SELECT pg_temp.wrong_keys('queue_k') AS wrong;

-- long chains become short, and what is left of them is found
CREATE TABLE chain (k int, n int GENERATED ALWAYS AS IDENTITY) WITH (autovacuum_enabled = off);
CREATE INDEX chain_k ON chain USING lazyhash (k);
INSERT INTO chain SELECT i % 2 FROM generate_series(1, 20000) i;
DELETE FROM chain WHERE n % 20 <> 0;
VACUUM chain;
SELECT pg_temp.wrong_keys('chain_k') AS wrong;
SELECT lazyhash_check('chain_k', true);
-- the pages set free serve other buckets
SELECT pg_relation_size('chain_k') AS size \gset
INSERT INTO chain SELECT 2 + i % 2 FROM generate_series(1, 8000) i;
SELECT pg_relation_size('chain_k') <= :size * 1.2 AS pages_used_again;
SELECT pg_temp.wrong_keys('chain_k') AS wrong;

-- dead rows that were updated away
UPDATE chain SET k = k + 10 WHERE n % 3 = 0;
UPDATE chain SET k = k;
VACUUM chain;
SELECT pg_temp.wrong_keys('chain_k') AS wrong;

-- the options of VACUUM
DELETE FROM t WHERE n % 3 = 0;
VACUUM (INDEX_CLEANUP off) t;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
SELECT lazyhash_check('t_k', true);
VACUUM (INDEX_CLEANUP on) t;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
DELETE FROM t WHERE n % 5 = 0;
VACUUM (FREEZE, ANALYZE) t;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
-- two indexes, each by a process of its own
CREATE INDEX t_n ON t USING lazyhash (n);
SET min_parallel_index_scan_size = 0;
SET max_parallel_maintenance_workers = 2;
DELETE FROM t WHERE n % 7 = 0;
VACUUM (PARALLEL 2) t;
RESET min_parallel_index_scan_size;
RESET max_parallel_maintenance_workers;
SELECT pg_temp.wrong_keys('t_k') + pg_temp.wrong_keys('t_n') AS wrong;
-- more dead rows than there is memory for: several passes over the index
CREATE TABLE passes (k int) WITH (autovacuum_enabled = off);
CREATE INDEX passes_k ON passes USING lazyhash (k);
INSERT INTO passes SELECT i FROM generate_series(1, 180000) i;
DELETE FROM passes WHERE k % 90 <> 0;
SET maintenance_work_mem = '1MB';
VACUUM passes;
RESET maintenance_work_mem;
SELECT reltuples FROM pg_class WHERE oid = 'passes_k'::regclass;
SELECT pg_temp.wrong_keys('passes_k') AS wrong;
-- a new file
VACUUM FULL t;
SELECT pg_temp.wrong_keys('t_k') + pg_temp.wrong_keys('t_n') AS wrong;
CREATE INDEX t_order ON t (n);
CLUSTER t USING t_order;
DROP INDEX t_order;
SELECT pg_temp.wrong_keys('t_k') + pg_temp.wrong_keys('t_n') AS wrong;

-- rows that a rolled back transaction left behind
BEGIN;
INSERT INTO t SELECT i FROM generate_series(1, 5000) i;
ROLLBACK;
VACUUM t;
SELECT pg_temp.wrong_keys('t_k') AS wrong;

-- look-ups mark the entries of dead rows, and such marks hide nothing that is alive
CREATE TABLE marked (k int, n int) WITH (autovacuum_enabled = off);
CREATE INDEX marked_k ON marked USING lazyhash (k);
INSERT INTO marked SELECT 1, i FROM generate_series(1, 3000) i;
DELETE FROM marked WHERE n % 2 = 0;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM marked WHERE k = 1;
SELECT count(*) FROM marked WHERE k = 1;
INSERT INTO marked SELECT 1, -i FROM generate_series(1, 3000) i;
SELECT count(*) FROM marked WHERE k = 1;
RESET enable_bitmapscan;
RESET enable_seqscan;
SELECT pg_temp.wrong_keys('marked_k') AS wrong;
SELECT lazyhash_check('marked_k', true);
VACUUM marked;
SELECT pg_temp.wrong_keys('marked_k') AS wrong;

-- a partial index, most of whose table is not in it
CREATE TABLE partial (k int, open boolean) WITH (autovacuum_enabled = off);
INSERT INTO partial SELECT i, i % 10 = 0 FROM generate_series(1, 5000) i;
CREATE INDEX partial_k ON partial USING lazyhash (k) WHERE open;
UPDATE partial SET open = false WHERE k % 20 = 0;
UPDATE partial SET open = true WHERE k % 7 = 0;
VACUUM partial;
SELECT pg_temp.wrong_keys('partial_k') AS wrong;

SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA vacuum CASCADE;

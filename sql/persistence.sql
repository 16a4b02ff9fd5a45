--
-- Indexes of temporary and of unlogged tables.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA persistence;
SET search_path = persistence, public;

-- temporary
CREATE TEMP TABLE temp_t (k int, v text);
CREATE INDEX temp_k ON temp_t USING lazyhash (k);
INSERT INTO temp_t SELECT i, i FROM generate_series(1, 10000) i;
INSERT INTO temp_t SELECT 7, i FROM generate_series(1, 3000) i;
SELECT pg_temp.wrong_keys('temp_k') AS wrong;
DELETE FROM temp_t WHERE v::int % 2 = 0;
VACUUM temp_t;
INSERT INTO temp_t SELECT i, i FROM generate_series(1, 3000) i;
SELECT pg_temp.wrong_keys('temp_k') AS wrong;
BEGIN;
TRUNCATE temp_t;
INSERT INTO temp_t VALUES (1, 1);
ROLLBACK;
SELECT pg_temp.wrong_keys('temp_k') AS wrong;
-- one that is emptied whenever a transaction ends, and one that goes then
CREATE TEMP TABLE temp_rows (k int, EXCLUDE USING lazyhash (k WITH =)) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO temp_rows SELECT i FROM generate_series(1, 2000) i;
INSERT INTO temp_rows VALUES (7) ON CONFLICT DO NOTHING;
SELECT pg_temp.wrong_keys('temp_rows_k_excl') AS wrong, count(*) FROM temp_rows;
COMMIT;
SELECT pg_temp.wrong_keys('temp_rows_k_excl') AS wrong, count(*) FROM temp_rows;
BEGIN;
INSERT INTO temp_rows SELECT i FROM generate_series(1, 2000) i;
SELECT pg_temp.wrong_keys('temp_rows_k_excl') AS wrong, count(*) FROM temp_rows;
ROLLBACK;
INSERT INTO temp_rows VALUES (7);
SELECT count(*) FROM temp_rows;
BEGIN;
CREATE TEMP TABLE temp_gone ON COMMIT DROP AS SELECT i AS k FROM generate_series(1, 2000) i;
CREATE INDEX temp_gone_k ON temp_gone USING lazyhash (k);
SELECT pg_temp.wrong_keys('temp_gone_k') AS wrong;
COMMIT;
SELECT to_regclass('temp_gone_k');

-- unlogged: what stands after a crash is an empty index, whose image is there from the beginning
CREATE UNLOGGED TABLE unlogged_t (k int, v int);
CREATE INDEX unlogged_k ON unlogged_t USING lazyhash (k);
SELECT pg_relation_size('unlogged_k', 'init') > 0 AS init_fork;
INSERT INTO unlogged_t SELECT i, i FROM generate_series(1, 10000) i;
INSERT INTO unlogged_t SELECT 7, i FROM generate_series(1, 3000) i;
SELECT pg_temp.wrong_keys('unlogged_k') AS wrong;
DELETE FROM unlogged_t WHERE v % 2 = 0;
VACUUM unlogged_t;
SELECT pg_temp.wrong_keys('unlogged_k') AS wrong;
TRUNCATE unlogged_t;
SELECT pg_relation_size('unlogged_k', 'init') > 0 AS init_fork;
INSERT INTO unlogged_t SELECT i, i FROM generate_series(1, 2000) i;
SELECT pg_temp.wrong_keys('unlogged_k') AS wrong;
REINDEX INDEX CONCURRENTLY unlogged_k;
SELECT pg_relation_size('unlogged_k', 'init') > 0 AS init_fork;
SELECT pg_temp.wrong_keys('unlogged_k') AS wrong;
-- of a table that holds rows already
CREATE UNLOGGED TABLE unlogged_u AS SELECT i AS k FROM generate_series(1, 5000) i;
CREATE INDEX unlogged_u_k ON unlogged_u USING lazyhash (k);
SELECT pg_relation_size('unlogged_u_k', 'init') < pg_relation_size('unlogged_u_k', 'main')
	AS init_is_empty;
SELECT pg_temp.wrong_keys('unlogged_u_k') AS wrong;

-- from one kind to the other and back
ALTER TABLE unlogged_t SET LOGGED;
SELECT pg_relation_size('unlogged_k', 'init') AS init_fork, relpersistence FROM pg_class
	WHERE relname = 'unlogged_k';
INSERT INTO unlogged_t SELECT i, i FROM generate_series(2001, 4000) i;
SELECT pg_temp.wrong_keys('unlogged_k') AS wrong;
ALTER TABLE unlogged_t SET UNLOGGED;
SELECT pg_relation_size('unlogged_k', 'init') > 0 AS init_fork, relpersistence FROM pg_class
	WHERE relname = 'unlogged_k';
INSERT INTO unlogged_t SELECT i, i FROM generate_series(4001, 6000) i;
SELECT pg_temp.wrong_keys('unlogged_k') AS wrong;

SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA persistence CASCADE;

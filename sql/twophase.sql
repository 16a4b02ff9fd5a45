--
-- Prepared transactions: what they did to an index holds when they commit, and is found by nobody
-- when they roll back.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA twophase;
SET search_path = twophase, public;
CREATE TABLE t (k int);
CREATE INDEX t_k ON t USING lazyhash (k);
INSERT INTO t SELECT i FROM generate_series(1, 1000) i;

SELECT current_setting('max_prepared_transactions')::int < 3 AS none \gset
\if :none
SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA twophase CASCADE;
\quit
\endif

-- three of them at once, each with enough rows to split buckets
BEGIN;
INSERT INTO t SELECT i FROM generate_series(1001, 6000) i;
PREPARE TRANSACTION 'regress_lazyhash_1';
BEGIN;
INSERT INTO t SELECT i FROM generate_series(6001, 11000) i;
SAVEPOINT a;
INSERT INTO t SELECT i FROM generate_series(11001, 12000) i;
ROLLBACK TO a;
DELETE FROM t WHERE k <= 100;
PREPARE TRANSACTION 'regress_lazyhash_2';
BEGIN;
CREATE TABLE u AS SELECT i AS k FROM generate_series(1, 3000) i;
CREATE INDEX u_k ON u USING lazyhash (k);
INSERT INTO u SELECT i FROM generate_series(3001, 4000) i;
PREPARE TRANSACTION 'regress_lazyhash_3';
SELECT count(*) FROM t;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
INSERT INTO t SELECT i FROM generate_series(12001, 13000) i;
COMMIT PREPARED 'regress_lazyhash_2';
SELECT count(*) FROM t;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
ROLLBACK PREPARED 'regress_lazyhash_1';
SELECT count(*) FROM t;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
COMMIT PREPARED 'regress_lazyhash_3';
SELECT pg_temp.wrong_keys('u_k') AS wrong;
VACUUM t;
SELECT pg_temp.wrong_keys('t_k') AS wrong;

-- an exclusion constraint waits for nobody who has gone
CREATE TABLE x (k int, EXCLUDE USING lazyhash (k WITH =));
BEGIN;
INSERT INTO x VALUES (1), (2);
PREPARE TRANSACTION 'regress_lazyhash_4';
INSERT INTO x VALUES (3);
SET lock_timeout = '10ms';
\set SHOW_CONTEXT never
INSERT INTO x VALUES (1);
\set SHOW_CONTEXT errors
RESET lock_timeout;
COMMIT PREPARED 'regress_lazyhash_4';
INSERT INTO x VALUES (1);
BEGIN;
INSERT INTO x VALUES (4);
PREPARE TRANSACTION 'regress_lazyhash_5';
ROLLBACK PREPARED 'regress_lazyhash_5';
INSERT INTO x VALUES (4);
SELECT * FROM x ORDER BY k;

-- serializable ones keep the locks that their look-ups took
BEGIN ISOLATION LEVEL SERIALIZABLE;
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM t WHERE k = 20000;
INSERT INTO t VALUES (20001);
PREPARE TRANSACTION 'regress_lazyhash_6';
SELECT count(*) > 0 AS held FROM pg_locks WHERE mode = 'SIReadLock' AND relation = 't_k'::regclass;
ROLLBACK PREPARED 'regress_lazyhash_6';

SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA twophase CASCADE;

--
-- Whatever a transaction does to a table and however it ends, the index finds the rows that there
-- are.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA dml;
SET search_path = dml, public;
CREATE TABLE t (k int, v int, pad text DEFAULT repeat('x', 100))
	WITH (autovacuum_enabled = off, fillfactor = 50);
CREATE INDEX t_k ON t USING lazyhash (k);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 2000) i;
SELECT pg_temp.wrong_keys('t_k') AS wrong;

-- updates that leave the key alone stay within their page, and the index is not told
UPDATE t SET v = v + 1 WHERE k % 4 = 0;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT k, v FROM t WHERE k = 8;
-- a chain of several versions
UPDATE t SET v = v + 1 WHERE k = 8;
UPDATE t SET v = v + 1 WHERE k = 8;
SELECT k, v FROM t WHERE k = 8;

-- updates of the key
UPDATE t SET k = -k WHERE k % 3 = 0;
SELECT k, v FROM t WHERE k = 9;
SELECT k, v FROM t WHERE k = -9;
-- away and back: two entries of one hash for rows of one chain
UPDATE t SET k = 1000000 WHERE k = 10;
UPDATE t SET k = 10 WHERE k = 1000000;
SELECT k, v FROM t WHERE k = 10;
UPDATE t SET k = NULL WHERE k = 11;
SELECT k, v FROM t WHERE k = 11;
UPDATE t SET k = 11 WHERE k IS NULL;
SELECT k, v FROM t WHERE k = 11;
-- an update that leaves the key alone and finds no room in its page
UPDATE t SET pad = repeat('y', 1500) WHERE k % 5 = 0;
SELECT k, v, length(pad) FROM t WHERE k = 20;
RESET enable_bitmapscan;
RESET enable_seqscan;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
-- the chains lose their dead versions, the index entries keep pointing at what is left
VACUUM t;
SELECT pg_temp.wrong_keys('t_k') AS wrong;

-- roll back
BEGIN;
INSERT INTO t SELECT i, 1 FROM generate_series(3001, 4000) i;
UPDATE t SET k = k + 100000 WHERE k BETWEEN 1 AND 100;
DELETE FROM t WHERE k BETWEEN 101 AND 200;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
ROLLBACK;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
SELECT count(*) FROM t WHERE k > 2000 OR v IS NULL;

-- savepoints
BEGIN;
INSERT INTO t VALUES (5001, 1);
SAVEPOINT a;
INSERT INTO t VALUES (5002, 1), (5001, 2);
SAVEPOINT b;
UPDATE t SET k = 5003 WHERE k = 5001;
SET LOCAL enable_seqscan = off;
SELECT k, v FROM t WHERE k = 5003 ORDER BY v;
ROLLBACK TO b;
SELECT k, v FROM t WHERE k = 5001 ORDER BY v;
SELECT k, v FROM t WHERE k = 5003;
RELEASE a;
SAVEPOINT c;
DELETE FROM t WHERE k = 5002;
ROLLBACK TO c;
INSERT INTO t VALUES (5004, 1);
COMMIT;
SELECT k, v FROM t WHERE k > 5000 ORDER BY k, v;
SELECT pg_temp.wrong_keys('t_k') AS wrong;

-- many subtransactions, half of which fail
DO $$
BEGIN
	FOR i IN 6001 .. 7000 LOOP
		BEGIN
			INSERT INTO t VALUES (i, 1);
			IF i % 2 = 0 THEN
				RAISE EXCEPTION 'no';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END
$$;
SELECT count(*) FROM t WHERE k BETWEEN 6001 AND 7000;
SELECT pg_temp.wrong_keys('t_k') AS wrong;

-- a statement that fails half way
CREATE TABLE limited (k int, EXCLUDE USING lazyhash (k WITH =), CHECK (k < 500));
INSERT INTO limited SELECT i FROM generate_series(1, 600) i;
SELECT count(*) FROM limited;
INSERT INTO limited SELECT i FROM generate_series(1, 400) i;
SELECT pg_temp.wrong_keys('limited_k_excl') AS wrong;

-- TRUNCATE, alone, before and after other statements of its transaction, and taken back
CREATE TABLE cut (k int);
CREATE INDEX cut_k ON cut USING lazyhash (k);
INSERT INTO cut SELECT i FROM generate_series(1, 5000) i;
TRUNCATE cut;
SELECT pg_temp.wrong_keys('cut_k') AS wrong;
INSERT INTO cut SELECT i FROM generate_series(1, 1000) i;
BEGIN;
INSERT INTO cut VALUES (-1);
TRUNCATE cut;
INSERT INTO cut SELECT i FROM generate_series(2001, 4000) i;
SELECT pg_temp.wrong_keys('cut_k') AS wrong;
ROLLBACK;
SELECT pg_temp.wrong_keys('cut_k') AS wrong;
SELECT count(*), min(k), max(k) FROM cut;
BEGIN;
TRUNCATE cut;
INSERT INTO cut SELECT i FROM generate_series(2001, 4000) i;
SAVEPOINT s;
TRUNCATE cut;
INSERT INTO cut VALUES (1);
ROLLBACK TO s;
COMMIT;
SELECT pg_temp.wrong_keys('cut_k') AS wrong;
SELECT count(*), min(k), max(k) FROM cut;
-- in the transaction that makes the table
BEGIN;
CREATE TABLE fresh (k int);
CREATE INDEX fresh_k ON fresh USING lazyhash (k);
INSERT INTO fresh SELECT i FROM generate_series(1, 1000) i;
TRUNCATE fresh;
INSERT INTO fresh SELECT i FROM generate_series(1, 1000) i;
SELECT pg_temp.wrong_keys('fresh_k') AS wrong;
COMMIT;
SELECT pg_temp.wrong_keys('fresh_k') AS wrong;

-- MERGE, UPDATE FROM and DELETE USING look rows up by key
CREATE TABLE changes (k int, v int);
INSERT INTO changes VALUES (20, 100), (40, 100), (8001, 100);
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_bitmapscan = off;
SELECT * FROM pg_temp.plan_of($$UPDATE t SET v = c.v FROM changes c WHERE t.k = c.k$$);
UPDATE t SET v = c.v FROM changes c WHERE t.k = c.k;
MERGE INTO t USING changes c ON t.k = c.k
	WHEN MATCHED AND t.k = 40 THEN DELETE
	WHEN MATCHED THEN UPDATE SET v = 101
	WHEN NOT MATCHED THEN INSERT VALUES (c.k, 102);
SELECT t.k, t.v FROM changes c JOIN t ON t.k = c.k ORDER BY 1;
DELETE FROM t USING changes c WHERE t.k = c.k;
SELECT t.k, t.v FROM changes c JOIN t ON t.k = c.k ORDER BY 1;
RESET enable_bitmapscan;
RESET enable_mergejoin;
RESET enable_hashjoin;
RESET enable_seqscan;
SELECT pg_temp.wrong_keys('t_k') AS wrong;

-- rows that a trigger changes, and those that a foreign key takes along
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (parent_id int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
CREATE INDEX child_parent_id ON child USING lazyhash (parent_id);
INSERT INTO parent SELECT i FROM generate_series(1, 100) i;
INSERT INTO child SELECT i % 100 + 1 FROM generate_series(1, 1000) i;
SET enable_seqscan = off;
DELETE FROM parent WHERE id <= 50;
UPDATE parent SET id = id + 1000 WHERE id <= 75;
RESET enable_seqscan;
SELECT count(*), count(*) FILTER (WHERE parent_id > 1000) AS moved FROM child;
SELECT pg_temp.wrong_keys('child_parent_id') AS wrong;

-- several indexes on one column
CREATE INDEX t_k2 ON t USING lazyhash (k) WITH (fillfactor = 30);
CREATE INDEX t_v ON t USING lazyhash (v);
CREATE INDEX t_hash ON t USING hash (k);
CREATE INDEX t_btree ON t (k);
UPDATE t SET k = k + 1, v = k;
DROP INDEX t_hash, t_btree;
SELECT pg_temp.wrong_keys('t_v') AS wrong;
SELECT lazyhash_check('t_k', true);
DROP INDEX t_k;
SELECT pg_temp.wrong_keys('t_k2') AS wrong;

SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA dml CASCADE;

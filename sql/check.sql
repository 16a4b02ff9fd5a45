--
-- lazyhash_check finds nothing wrong with an index that is in order, whatever its table has been
-- through, and says clearly what it cannot check.  That it finds damage is tested in
-- t/002_check_detects.pl.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA checks;
SET search_path = checks, public;

-- empty, built empty and filled, emptied again
CREATE TABLE t (k int, v int, note text) WITH (autovacuum_enabled = off, fillfactor = 60);
CREATE INDEX t_k ON t USING lazyhash (k) WITH (fillfactor = 20, batch = 5);
SELECT lazyhash_check('t_k'), lazyhash_check('t_k', true);
INSERT INTO t SELECT i, i % 100, 'row ' || i FROM generate_series(1, 5000) i;
SELECT lazyhash_check('t_k', true);

-- NULL keys are not in the index, nor rows outside the predicate; keys that are computed
INSERT INTO t SELECT NULL, i, NULL FROM generate_series(1, 100) i;
CREATE INDEX t_partial ON t USING lazyhash (v) WHERE k > 2500;
CREATE INDEX t_expression ON t USING lazyhash (lower(note));
CREATE INDEX t_row_expression ON t USING lazyhash ((k + v)) WHERE note IS NOT NULL;
SELECT lazyhash_check('t_k', true), lazyhash_check('t_partial', true),
       lazyhash_check('t_expression', true), lazyhash_check('t_row_expression', true);

-- chains of row versions: the entry points to the first, the row that is visible is another
UPDATE t SET note = note || '!' WHERE k % 7 = 0;
DROP INDEX t_expression, t_row_expression;
UPDATE t SET note = note || '?' WHERE k % 7 = 0;
UPDATE t SET note = note || '.' WHERE k % 14 = 0;
SELECT lazyhash_check('t_k', true), lazyhash_check('t_partial', true);
-- an index that is younger than such chains, and on the very column in which the versions differ
CREATE INDEX t_note ON t USING lazyhash (note);
SELECT lazyhash_check('t_note', true);

-- keys change, rows go, transactions fail
UPDATE t SET k = k + 10000 WHERE k % 5 = 0;
DELETE FROM t WHERE k % 11 = 0;
BEGIN;
INSERT INTO t SELECT i, i, 'never' FROM generate_series(20001, 21000) i;
SAVEPOINT s;
UPDATE t SET k = -k WHERE k % 2 = 0;
-- what the transaction itself has done is there already
SELECT lazyhash_check('t_k', true), lazyhash_check('t_partial', true);
ROLLBACK TO s;
SELECT lazyhash_check('t_k', true);
ROLLBACK;
SELECT lazyhash_check('t_k', true), lazyhash_check('t_partial', true),
       lazyhash_check('t_note', true);
VACUUM t;
SELECT lazyhash_check('t_k', true), lazyhash_check('t_partial', true),
       lazyhash_check('t_note', true);

-- whatever snapshot the transaction has, the check takes a new one: an older one might see row
-- versions that are not in the index, which is younger than they
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) > 0 AS snapshot_taken FROM t;
UPDATE t SET note = 'hot' WHERE k = 1;
UPDATE t SET note = 'hotter' WHERE k = 1;
CREATE INDEX t_note_2 ON t USING lazyhash (note);
SELECT lazyhash_check('t_note_2', true), lazyhash_check('t_k', true);
COMMIT;
BEGIN READ ONLY;
SELECT lazyhash_check('t_note_2', true);
COMMIT;

-- an entry that scans have found dead
SET enable_seqscan = off;
SET enable_bitmapscan = off;
DELETE FROM t WHERE k = 2;
SELECT count(*) FROM t WHERE k = 2;
SELECT lazyhash_check('t_k', true);
RESET enable_bitmapscan;
RESET enable_seqscan;

-- more entries than memory holds, also more of one key; a table block has many of them
SET maintenance_work_mem = '1MB';
CREATE TABLE big (k int) WITH (autovacuum_enabled = off);
INSERT INTO big SELECT CASE WHEN i % 2 = 0 THEN i END FROM generate_series(1, 200000) i;
INSERT INTO big SELECT 42 FROM generate_series(1, 100000);
CREATE INDEX big_k ON big USING lazyhash (k);
INSERT INTO big SELECT i + 500000 FROM generate_series(1, 30000) i;
SELECT lazyhash_check('big_k', true);
RESET maintenance_work_mem;

-- unlogged and temporary
CREATE UNLOGGED TABLE u (k text);
CREATE INDEX u_k ON u USING lazyhash (k);
INSERT INTO u SELECT i::text FROM generate_series(1, 3000) i;
CREATE TEMPORARY TABLE tt (k numeric);
CREATE INDEX tt_k ON tt USING lazyhash (k);
INSERT INTO tt SELECT i FROM generate_series(1, 3000) i;
SELECT lazyhash_check('u_k', true), lazyhash_check('tt_k', true);

-- locks are let go at once
BEGIN;
SELECT lazyhash_check('t_k', true);
SELECT count(*) FROM pg_locks
WHERE pid = pg_backend_pid() AND relation IN ('t'::regclass, 't_k'::regclass)
  AND mode = 'ShareLock';
COMMIT;

-- what cannot be checked
CREATE INDEX t_btree ON t USING btree (k);
SELECT lazyhash_check('t_btree');
SELECT lazyhash_check('t');
SELECT lazyhash_check(0);
SELECT lazyhash_check(NULL) IS NULL AS strict;
CREATE TABLE p (k int) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000);
CREATE INDEX p_k ON p USING lazyhash (k);
INSERT INTO p SELECT i FROM generate_series(0, 999) i;
SELECT lazyhash_check('p_k');
SELECT lazyhash_check('p1_k_idx', true);
CREATE TABLE bad (k int);
INSERT INTO bad VALUES (0);
CREATE INDEX CONCURRENTLY bad_k ON bad USING lazyhash ((1 / k));
SELECT lazyhash_check('bad_k');

-- all of them, but for that one; a NOTICE says so for each
SET client_min_messages = warning;
SELECT lazyhash_check_all(true) = count(*) AS all_valid_ones
FROM pg_class c JOIN pg_am a ON a.oid = c.relam JOIN pg_index i ON i.indexrelid = c.oid
WHERE a.amname = 'lazyhash' AND c.relkind = 'i' AND i.indisvalid
  AND (c.relpersistence <> 't' OR c.relnamespace = pg_my_temp_schema());
RESET client_min_messages;

-- expressions are the owner's code, whoever checks
CREATE ROLE regress_lazyhash_owner;
GRANT USAGE, CREATE ON SCHEMA checks TO regress_lazyhash_owner;
SET ROLE regress_lazyhash_owner;
CREATE FUNCTION who(int) RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $$ BEGIN RETURN current_user || $1; END $$;
CREATE TABLE owned (k int);
INSERT INTO owned SELECT i FROM generate_series(1, 100) i;
CREATE INDEX owned_who ON owned USING lazyhash (who(k));
RESET ROLE;
SELECT lazyhash_check('owned_who', true);

-- and nobody checks who was not told to
SET ROLE regress_lazyhash_owner;
SELECT lazyhash_check('owned_who');
SELECT lazyhash_check_all();
RESET ROLE;
GRANT EXECUTE ON FUNCTION lazyhash_check(regclass, boolean) TO regress_lazyhash_owner;
SET ROLE regress_lazyhash_owner;
SELECT lazyhash_check('owned_who', true);
RESET ROLE;
REVOKE EXECUTE ON FUNCTION lazyhash_check(regclass, boolean) FROM regress_lazyhash_owner;

SET client_min_messages = warning;
DROP SCHEMA checks CASCADE;
DROP ROLE regress_lazyhash_owner;

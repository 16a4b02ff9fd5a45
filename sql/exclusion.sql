--
-- EXCLUDE USING lazyhash (c WITH =) keeps equal values out of a table, for as long as the
-- constraint says.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA exclusion;
SET search_path = exclusion, public;

CREATE TABLE t (k text, v int, CONSTRAINT t_k_excl EXCLUDE USING lazyhash (k WITH =));
\d t
INSERT INTO t SELECT 'key ' || i, i FROM generate_series(1, 3000) i;
INSERT INTO t VALUES ('key 7', 0);
INSERT INTO t VALUES ('another', 0), ('another', 1);
INSERT INTO t VALUES (NULL, 0), (NULL, 1);
UPDATE t SET k = 'key 8' WHERE k = 'key 7';
UPDATE t SET k = 'key 7' WHERE k = 'key 7';
UPDATE t SET v = v + 1 WHERE k = 'key 7';
-- what is deleted is in nobody's way, nor is what was rolled back
DELETE FROM t WHERE k = 'key 7';
INSERT INTO t VALUES ('key 7', 7);
BEGIN;
INSERT INTO t VALUES ('rolled back', 1);
ROLLBACK;
INSERT INTO t VALUES ('rolled back', 2);
-- a row moves out of the way in the same transaction
BEGIN;
UPDATE t SET k = 'moved' WHERE k = 'key 9';
INSERT INTO t VALUES ('key 9', 0);
COMMIT;
SELECT k, v FROM t WHERE k IN ('key 9', 'moved') ORDER BY 1;

-- ON CONFLICT
INSERT INTO t VALUES ('key 8', 0), ('new', 0) ON CONFLICT DO NOTHING;
INSERT INTO t VALUES ('key 10', 0), ('newer', 0), ('newer', 1)
	ON CONFLICT ON CONSTRAINT t_k_excl DO NOTHING RETURNING *;
INSERT INTO t SELECT 'key ' || i, 0 FROM generate_series(2991, 3010) i ON CONFLICT DO NOTHING;
SELECT count(*) FROM t WHERE k ~ '^key 30[01].$';
INSERT INTO t VALUES ('key 8', 0) ON CONFLICT (k) DO NOTHING;
INSERT INTO t VALUES ('key 8', 0) ON CONFLICT ON CONSTRAINT t_k_excl DO UPDATE SET v = 0;
-- beside a primary key: the one's conflict handled, the other's an error
CREATE TABLE keyed (id int PRIMARY KEY, k int, EXCLUDE USING lazyhash (k WITH =));
INSERT INTO keyed VALUES (1, 1);
INSERT INTO keyed VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET k = excluded.k;
INSERT INTO keyed VALUES (2, 2) ON CONFLICT (id) DO NOTHING;
INSERT INTO keyed VALUES (2, 2) ON CONFLICT DO NOTHING;
SELECT * FROM keyed;

-- deferred: checked when the transaction ends, or when it says so
CREATE TABLE later (k int, EXCLUDE USING lazyhash (k WITH =) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO later SELECT i FROM generate_series(1, 100) i;
UPDATE later SET k = k + 1;
BEGIN;
INSERT INTO later VALUES (50);
SELECT count(*) FROM later WHERE k = 50;
DELETE FROM later WHERE ctid = (SELECT min(ctid) FROM later WHERE k = 50);
COMMIT;
BEGIN;
INSERT INTO later VALUES (50);
COMMIT;
BEGIN;
INSERT INTO later VALUES (50);
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
BEGIN;
SET CONSTRAINTS ALL IMMEDIATE;
INSERT INTO later VALUES (50);
ROLLBACK;
SELECT count(*), count(DISTINCT k) FROM later;

-- partial: only rows that the predicate holds for keep each other out
CREATE TABLE seats (seat int, gone boolean NOT NULL DEFAULT false,
	EXCLUDE USING lazyhash (seat WITH =) WHERE (NOT gone));
INSERT INTO seats SELECT i FROM generate_series(1, 500) i;
INSERT INTO seats VALUES (7);
UPDATE seats SET gone = true WHERE seat = 7;
INSERT INTO seats VALUES (7);
INSERT INTO seats VALUES (7, true), (7, true);
UPDATE seats SET gone = false WHERE seat = 7;
INSERT INTO seats VALUES (7), (501) ON CONFLICT DO NOTHING;
SELECT seat, gone, count(*) FROM seats WHERE seat IN (7, 501) GROUP BY 1, 2 ORDER BY 1, 2;

-- an expression
CREATE TABLE logins (name text, EXCLUDE USING lazyhash (lower(name) WITH =));
INSERT INTO logins VALUES ('Root'), ('nobody');
INSERT INTO logins VALUES ('rOOt');
INSERT INTO logins VALUES ('rOOt') ON CONFLICT DO NOTHING;

-- types whose equal values look different
CREATE TABLE odd (f float8, n numeric,
	EXCLUDE USING lazyhash (f WITH =), EXCLUDE USING lazyhash (n WITH =));
INSERT INTO odd VALUES ('0', 1.0), ('NaN', 2);
INSERT INTO odd VALUES ('-0', 3);
INSERT INTO odd VALUES ('NaN', 4);
INSERT INTO odd VALUES (1, 1.00);

-- values that share a hash code are not equal
CREATE TABLE alike (k bigint, EXCLUDE USING lazyhash (k WITH =));
SELECT hashint8(7) = hashint8(7 * 4294967296) AS one_code;
INSERT INTO alike VALUES (7), (7 * 4294967296);
INSERT INTO alike VALUES (7 * 4294967296);
INSERT INTO alike VALUES (7), (8) ON CONFLICT DO NOTHING;
SELECT * FROM alike ORDER BY k;

-- a commutative operator of another type does not do, nor one that is not equality
SELECT pg_temp.error_of($$CREATE TABLE bad (k int, EXCLUDE USING lazyhash (k WITH <>))$$);
SELECT pg_temp.error_of($$CREATE TABLE bad (k int, EXCLUDE USING lazyhash (k WITH <))$$);
SELECT pg_temp.error_of($$CREATE TABLE bad (r int4range, EXCLUDE USING lazyhash (r WITH &&))$$);
CREATE TABLE bad (a int, b int, EXCLUDE USING lazyhash (a WITH =, b WITH =));

-- added to a table that holds rows, and to one that violates it
CREATE TABLE added AS SELECT i AS k, i / 2 AS half FROM generate_series(1, 2000) i;
ALTER TABLE added ADD CONSTRAINT added_k EXCLUDE USING lazyhash (k WITH =);
ALTER TABLE added ADD CONSTRAINT added_half EXCLUDE USING lazyhash (half WITH =);
INSERT INTO added VALUES (1, 0);
ALTER TABLE added DROP CONSTRAINT added_k;
INSERT INTO added VALUES (1, 0);
SELECT to_regclass('added_k'), to_regclass('added_half');

-- with VACUUM between, long chains and marked entries
CREATE TABLE busy (k int, EXCLUDE USING lazyhash (k WITH =)) WITH (autovacuum_enabled = off);
INSERT INTO busy SELECT i FROM generate_series(1, 100) i;
DO $$
BEGIN
	FOR i IN 1 .. 30 LOOP
		DELETE FROM busy WHERE k BETWEEN 1 AND 50;
		INSERT INTO busy SELECT j FROM generate_series(1, 50) j;
		UPDATE busy SET k = k WHERE k > 50;
	END LOOP;
END
$$;
VACUUM busy;
INSERT INTO busy VALUES (1);
INSERT INTO busy VALUES (100);
INSERT INTO busy VALUES (101);
SELECT count(*), count(DISTINCT k) FROM busy;
REINDEX TABLE busy;
INSERT INTO busy VALUES (101);

SELECT pg_temp.wrong_keys('t_k_excl') + pg_temp.wrong_keys('keyed_k_excl')
	+ pg_temp.wrong_keys('later_k_excl')
	+ pg_temp.wrong_keys('seats_seat_excl') + pg_temp.wrong_keys('busy_k_excl') AS wrong;
SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA exclusion CASCADE;

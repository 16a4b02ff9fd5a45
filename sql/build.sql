--
-- CREATE INDEX: whatever the table holds, the index answers as reading the table does.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA build;
SET search_path = build, public;

-- nothing, nulls only, one row
CREATE TABLE empty (k int);
CREATE INDEX empty_k ON empty USING lazyhash (k);
CREATE TABLE nulls WITH (autovacuum_enabled = off) AS
	SELECT NULL::int AS k FROM generate_series(1, 1000);
CREATE INDEX nulls_k ON nulls USING lazyhash (k);
CREATE TABLE one AS SELECT 1 AS k;
CREATE INDEX one_k ON one USING lazyhash (k);
SELECT pg_temp.wrong_keys('empty_k') + pg_temp.wrong_keys('nulls_k') + pg_temp.wrong_keys('one_k')
	AS wrong;
-- an index of nulls is as small as one of nothing
SELECT pg_relation_size('nulls_k') = pg_relation_size('empty_k') AS same;
SET enable_seqscan = off;
SELECT * FROM empty WHERE k = 1;
SELECT * FROM nulls WHERE k = 1;
SELECT * FROM one WHERE k = 1;
SELECT * FROM one WHERE k = 2;
RESET enable_seqscan;
-- and what was built of nothing takes rows
INSERT INTO empty SELECT i FROM generate_series(1, 3000) i;
INSERT INTO nulls SELECT i FROM generate_series(1, 3000) i;
INSERT INTO one SELECT i FROM generate_series(1, 3000) i;
SELECT pg_temp.wrong_keys('empty_k') + pg_temp.wrong_keys('nulls_k') + pg_temp.wrong_keys('one_k')
	AS wrong;

-- many rows: all different, each some times, all the same, most the same
CREATE TABLE many WITH (autovacuum_enabled = off) AS
	SELECT i AS different, i % 5000 AS several, 42 AS same,
	       CASE WHEN i % 10 = 0 THEN i ELSE 42 END AS most,
	       md5(i::text) AS md5, md5((i % 20)::text) AS few
	FROM generate_series(1, 50000) i;
CREATE INDEX many_different ON many USING lazyhash (different);
CREATE INDEX many_several ON many USING lazyhash (several);
CREATE INDEX many_same ON many USING lazyhash (same);
CREATE INDEX many_most ON many USING lazyhash (most);
CREATE INDEX many_md5 ON many USING lazyhash (md5);
CREATE INDEX many_few ON many USING lazyhash (few);
SELECT c.relname, pg_temp.wrong_keys(c.oid, 4) AS wrong FROM pg_class c
WHERE relnamespace = 'build'::regnamespace AND relname ~ '^many_' ORDER BY 1;
SET enable_seqscan = off;
SELECT count(*) FROM many WHERE different = 50001;
SELECT count(*) FROM many WHERE same = 41;
SELECT count(*) FROM many WHERE same = 42;
SELECT count(*) FROM many WHERE few = md5('7');
RESET enable_seqscan;

-- an entry takes 10 bytes, a quarter of each page is left free, and the number of buckets may be
-- rounded up to the next doubling
SELECT pg_relation_size('many_different') BETWEEN 50000 * 10 AND 50000 * 10 * 2.8 AS compact;

-- extremes of fill factor and batch
CREATE INDEX many_10 ON many USING lazyhash (different) WITH (fillfactor = 10, batch = 1);
CREATE INDEX many_100 ON many USING lazyhash (several) WITH (fillfactor = 100, batch = 406);
DROP INDEX many_different, many_several;
SELECT pg_temp.wrong_keys('many_10', 10) + pg_temp.wrong_keys('many_100') AS wrong;

-- with little memory
SET maintenance_work_mem = '1MB';
CREATE TABLE big AS SELECT (i * 7919::bigint) % 300007 AS k FROM generate_series(1, 200000) i;
CREATE INDEX big_k ON big USING lazyhash (k);
RESET maintenance_work_mem;
-- the same index comes out of any amount of memory
CREATE INDEX big_k2 ON big USING lazyhash (k);
SELECT pg_relation_size('big_k') = pg_relation_size('big_k2') AS same;
DROP INDEX big_k2;
SELECT pg_temp.wrong_keys('big_k', 20) AS wrong;

-- in parallel
CREATE TABLE par AS SELECT i % 70000 AS k FROM generate_series(1, 200000) i;
ALTER TABLE par SET (parallel_workers = 2);
SET max_parallel_maintenance_workers = 2;
SET min_parallel_table_scan_size = 0;
CREATE INDEX par_k ON par USING lazyhash (k);
RESET min_parallel_table_scan_size;
RESET max_parallel_maintenance_workers;
SELECT pg_temp.wrong_keys('par_k', 10) AS wrong;

-- rows that are dead, and rows that changed in place, when the index is built
CREATE TABLE chains (k int, v int) WITH (autovacuum_enabled = off, fillfactor = 50);
INSERT INTO chains SELECT i, 0 FROM generate_series(1, 1000) i;
UPDATE chains SET v = 1;
UPDATE chains SET k = -k WHERE k % 3 = 0;
DELETE FROM chains WHERE k % 5 = 0;
CREATE INDEX chains_k ON chains USING lazyhash (k);
SELECT pg_temp.wrong_keys('chains_k') AS wrong;

-- in the transaction that made the table, and in one that fails
BEGIN;
CREATE TABLE young (k int);
INSERT INTO young SELECT i FROM generate_series(1, 2000) i;
CREATE INDEX young_k ON young USING lazyhash (k);
INSERT INTO young SELECT i FROM generate_series(1, 2000) i;
COMMIT;
SELECT pg_temp.wrong_keys('young_k') AS wrong;
BEGIN;
CREATE INDEX young_k2 ON young USING lazyhash (k);
INSERT INTO young VALUES (2001);
ROLLBACK;
CREATE INDEX young_bad ON young USING lazyhash ((1 / (k - 1000)));
SELECT relname FROM pg_class WHERE relname ~ '^young_' AND relnamespace = 'build'::regnamespace;

-- the planner is told how many rows there are
SELECT relname, reltuples FROM pg_class
WHERE relnamespace = 'build'::regnamespace AND relname IN ('many_md5', 'many_same', 'nulls_k',
	'chains_k') ORDER BY 1;

SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA build CASCADE;

--
-- An index grows with its table: by single rows and in bulk, of few keys and of many, and it
-- stays as large as one that is built of the same rows, within bounds.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA growth;
SET search_path = growth, public;

-- one row a statement, each in a subtransaction of its own every third time
CREATE TABLE single (k int);
CREATE INDEX single_k ON single USING lazyhash (k) WITH (fillfactor = 10);
DO $$
BEGIN
	FOR i IN 1 .. 6000 LOOP
		IF i % 3 = 0 THEN
			BEGIN
				INSERT INTO single VALUES (i);
			EXCEPTION WHEN division_by_zero THEN
				NULL;
			END;
		ELSE
			INSERT INTO single VALUES (i);
		END IF;
	END LOOP;
END
$$;
SELECT pg_temp.wrong_keys('single_k') AS wrong;

-- as large as the one that is built, within a factor that rounding explains
CREATE FUNCTION grown_to_built(index regclass) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	grown numeric := pg_relation_size(index);
BEGIN
	EXECUTE format('REINDEX INDEX %s', index);
	RETURN grown / pg_relation_size(index);
END
$$;
SELECT grown_to_built('single_k') BETWEEN 0.5 AND 2 AS as_built;
SELECT pg_temp.wrong_keys('single_k') AS wrong;

-- many rows a statement: the buckets are split over and over, a page at a time
CREATE TABLE bulk (k int);
CREATE INDEX bulk_k ON bulk USING lazyhash (k);
INSERT INTO bulk SELECT i FROM generate_series(1, 100) i;
INSERT INTO bulk SELECT i FROM generate_series(101, 2000) i;
INSERT INTO bulk SELECT (i * 7919::bigint) % 1000003 FROM generate_series(2001, 60000) i;
SELECT pg_temp.wrong_keys('bulk_k', 20) AS wrong;
SELECT lazyhash_check('bulk_k', true);
SELECT grown_to_built('bulk_k') BETWEEN 0.5 AND 2 AS as_built;
-- an index does not grow on the row after it was built, nor is it slow to grow after that
SELECT pg_relation_size('bulk_k') AS built \gset
INSERT INTO bulk VALUES (0);
SELECT pg_relation_size('bulk_k') = :built AS same;
INSERT INTO bulk SELECT -i FROM generate_series(1, 140000) i;
SELECT pg_relation_size('bulk_k') >= 2 * :built AS grown;
SELECT pg_temp.wrong_keys('bulk_k', 20) AS wrong;

-- low cardinality: long chains of equal keys, which no split can part
CREATE TABLE two (k boolean);
CREATE INDEX two_k ON two USING lazyhash (k);
INSERT INTO two SELECT i % 2 = 0 FROM generate_series(1, 30000) i;
SELECT pg_temp.wrong_keys('two_k') AS wrong;
CREATE TABLE same (k text);
CREATE INDEX same_k ON same USING lazyhash (k);
INSERT INTO same SELECT 'the same' FROM generate_series(1, 30000) i;
SELECT pg_temp.wrong_keys('same_k') AS wrong;
-- the pages that equal keys cannot use stay within bounds: three times what the entries take
SELECT pg_relation_size('two_k') < 30000 * 10 * 4 AS bounded,
       pg_relation_size('same_k') < 30000 * 10 * 4 AS bounded;
-- then other keys come, and buckets with long chains are split
INSERT INTO same SELECT 'key ' || i FROM generate_series(1, 30000) i;
INSERT INTO same SELECT 'key ' || i % 100 FROM generate_series(1, 20000) i;
SELECT pg_temp.wrong_keys('same_k', 5) AS wrong;
SET enable_seqscan = off;
SELECT count(*) FROM same WHERE k = 'the same';
SELECT count(*) FROM same WHERE k = 'key 7';
SELECT count(*) FROM same WHERE k = 'key 30001';
RESET enable_seqscan;

-- a few heavy keys among many light ones
CREATE TABLE skewed (k int);
CREATE INDEX skewed_k ON skewed USING lazyhash (k) WITH (batch = 1);
INSERT INTO skewed SELECT CASE WHEN i % 2 = 0 THEN i % 6 ELSE i END
	FROM generate_series(1, 40000) i;
SELECT pg_temp.wrong_keys('skewed_k') AS wrong;

-- chains that are made of different keys, for a full batch is more than a bucket should hold
CREATE TABLE lazy (k int);
CREATE INDEX lazy_k ON lazy USING lazyhash (k) WITH (batch = 406, fillfactor = 10);
INSERT INTO lazy SELECT i FROM generate_series(1, 20000) i;
SELECT pg_temp.wrong_keys('lazy_k') AS wrong;
CREATE TABLE full_pages (k int);
CREATE INDEX full_pages_k ON full_pages USING lazyhash (k) WITH (fillfactor = 100);
INSERT INTO full_pages SELECT i FROM generate_series(1, 40000) i;
SELECT pg_temp.wrong_keys('full_pages_k', 5) AS wrong;

-- what a rolled back statement added is there, and found by nobody
BEGIN;
INSERT INTO bulk SELECT 500000 + i FROM generate_series(1, 20000) i;
ROLLBACK;
SET enable_seqscan = off;
SELECT count(*) FROM bulk WHERE k = 500500;
RESET enable_seqscan;
SELECT pg_temp.wrong_keys('bulk_k', 20) AS wrong;

-- COPY
CREATE TABLE copied (k text);
CREATE INDEX copied_k ON copied USING lazyhash (k);
COPY copied FROM stdin;
one
two
\N
three
two
\.
SELECT pg_temp.wrong_keys('copied_k') AS wrong;

SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA growth CASCADE;

--
-- Equality is that of the index's collation: what a nondeterministic collation holds equal is found
-- together, and an index is not used for another collation.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA collations;
SET search_path = collations, public;

-- collations that every server has
CREATE TABLE plain (d text, c text COLLATE "C");
INSERT INTO plain SELECT 'Key ' || i, 'Key ' || i FROM generate_series(1, 300) i;
CREATE INDEX plain_d ON plain USING lazyhash (d);
CREATE INDEX plain_c ON plain USING lazyhash (c);
SELECT pg_temp.wrong_keys('plain_d') + pg_temp.wrong_keys('plain_c') AS wrong;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM plain WHERE c = 'Key 7';
EXPLAIN (COSTS OFF) SELECT * FROM plain WHERE c = 'Key 7' COLLATE "C";
SELECT * FROM pg_temp.plan_of($$SELECT * FROM plain WHERE c = 'Key 7' COLLATE "POSIX"$$);
SELECT * FROM pg_temp.plan_of($$SELECT * FROM plain WHERE d = 'Key 7' COLLATE "C"$$);
SELECT * FROM plain WHERE c = 'Key 7';
SELECT * FROM plain WHERE c = 'key 7';
RESET enable_seqscan;
SELECT pg_temp.check_indexes();

-- where the server has ICU
SELECT NOT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i')
       OR getdatabaseencoding() <> 'UTF8' AS no_icu \gset
\if :no_icu
SET client_min_messages = warning;
DROP SCHEMA collations CASCADE;
\quit
\endif

CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE people (name text COLLATE nocase, born int);
INSERT INTO people SELECT (ARRAY['ada', 'ADA', 'Ada'])[i % 3 + 1] || i / 3, i
	FROM generate_series(0, 899) i;
CREATE INDEX people_name ON people USING lazyhash (name);
INSERT INTO people SELECT (ARRAY['bob', 'BOB', 'Bob'])[i % 3 + 1] || i / 3, i
	FROM generate_series(0, 899) i;
SELECT pg_temp.wrong_keys('people_name') AS wrong;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM people WHERE name = 'aDa7';
SELECT * FROM people WHERE name = 'aDa7' ORDER BY born;
SELECT * FROM people WHERE name = 'BoB7' ORDER BY born;
SELECT * FROM people WHERE name IN ('ADA1', 'BOB299') ORDER BY born, name COLLATE "C";
SELECT * FROM pg_temp.plan_of($$SELECT * FROM people WHERE name = 'ada7' COLLATE "C"$$);
RESET enable_seqscan;

-- an exclusion constraint means the same
CREATE TABLE accounts (login text COLLATE nocase, EXCLUDE USING lazyhash (login WITH =));
INSERT INTO accounts VALUES ('Root');
INSERT INTO accounts VALUES ('rOOT');
INSERT INTO accounts VALUES ('rOOT') ON CONFLICT DO NOTHING;
SELECT * FROM accounts;

-- another index of the column, of another collation
CREATE INDEX people_name_c ON people USING lazyhash (name COLLATE "C");
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM people WHERE name = 'ada7' COLLATE "C";
SELECT * FROM people WHERE name = 'ada7' COLLATE "C";
SELECT * FROM people WHERE name COLLATE "C" = 'Ada7';
RESET enable_seqscan;

SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA collations CASCADE;

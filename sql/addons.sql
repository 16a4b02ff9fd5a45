--
-- lazyhash_add_opclasses() makes operator classes for the types of other extensions and of users
-- that hash has classes for, whichever of the extensions was there first.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA addons;
SET search_path = addons, public;

-- what hash has and lazyhash has not
CREATE VIEW missing AS
	SELECT c.opcname, c.opcintype::regtype AS type, c.opcdefault
	FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
	WHERE a.amname = 'hash'
	  AND NOT EXISTS (SELECT FROM pg_opclass o JOIN pg_am m ON m.oid = o.opcmethod
	                  WHERE m.amname = 'lazyhash' AND o.opcname = c.opcname
	                    AND o.opcintype = c.opcintype AND o.opcdefault = c.opcdefault
	                    AND (o.opcnamespace = c.opcnamespace OR c.oid < 16384));
SELECT * FROM missing;

-- the contributed modules that this server has: those with types that hash indexes
SELECT count(*) < 4 AS lacking FROM pg_available_extensions
WHERE name IN ('citext', 'hstore', 'isn', 'ltree') \gset
\if :lacking
SET client_min_messages = warning;
DROP SCHEMA addons CASCADE;
\quit
\endif
CREATE SCHEMA "odd ""schema";
CREATE EXTENSION citext;
CREATE EXTENSION hstore SCHEMA "odd ""schema";
SET search_path = addons, public, "odd ""schema";
SELECT * FROM missing ORDER BY opcname COLLATE "C";
CREATE TABLE t (c citext, h hstore);
CREATE INDEX t_h ON t USING lazyhash (h);
-- citext has the representation of text, so the class of text is taken, and serves text alone
CREATE INDEX t_c ON t USING lazyhash (c);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT * FROM pg_temp.plan_of($$SELECT c FROM t WHERE c = 'Key 7'$$);
EXPLAIN (COSTS OFF) SELECT c FROM t WHERE c::text = 'Key 7';
RESET enable_bitmapscan;
RESET enable_seqscan;
DROP INDEX t_c;

SELECT count(*) AS commands FROM lazyhash_add_opclasses();
SELECT * FROM missing;
SELECT lazyhash_add_opclasses();
SELECT opcname, amvalidate(oid), opcnamespace::regnamespace FROM pg_opclass
WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'lazyhash') AND oid >= 16384
  AND opcintype IN ('citext'::regtype, 'hstore'::regtype) ORDER BY opcname COLLATE "C";

-- they belong to nobody's extension, or pg_dump would not write them
SELECT pg_describe_object(classid, objid, 0) FROM pg_depend
WHERE deptype = 'e'
  AND pg_describe_object(classid, objid, 0) ~ 'operator.*(citext|hstore).*lazyhash';

CREATE INDEX t_c ON t USING lazyhash (c);
CREATE INDEX t_h ON t USING lazyhash (h);
INSERT INTO t SELECT CASE WHEN i % 2 = 0 THEN 'key ' ELSE 'KEY ' END || i / 2,
                     hstore('a', (i % 100)::text) || hstore('b', NULL)
FROM generate_series(1, 2000) i;
SELECT pg_temp.wrong_keys('t_c') + pg_temp.wrong_keys('t_h') AS wrong;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT c FROM t WHERE c = 'Key 7';
SELECT c FROM t WHERE c = 'Key 7' ORDER BY c::text COLLATE "C";
SELECT count(*) FROM t WHERE h = 'b=>NULL, a=>7';
RESET enable_bitmapscan;
RESET enable_seqscan;
CREATE TABLE logins (name citext, EXCLUDE USING lazyhash (name WITH =));
INSERT INTO logins VALUES ('Root');
INSERT INTO logins VALUES ('rOOT');

-- many types in one family, and one that hash indexes from PostgreSQL 17 on
CREATE EXTENSION isn;
CREATE EXTENSION ltree;
SELECT opcname FROM missing WHERE opcname !~ 'ltree' ORDER BY opcname COLLATE "C";
SELECT count(*) > 8 AS commands FROM lazyhash_add_opclasses();
SELECT * FROM missing;
CREATE TABLE books (isbn isbn13, EXCLUDE USING lazyhash (isbn WITH =));
INSERT INTO books
	SELECT ('978' || lpad(i::text, 9, '0') || '?')::isbn13 FROM generate_series(1, 300) i;
INSERT INTO books VALUES ('978-0-00-000007-1');
SELECT pg_temp.wrong_keys('books_isbn_excl') AS wrong;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM books WHERE isbn = '978-0-00-000007-1'::ean13;
SELECT * FROM books WHERE isbn = '978-0-00-000007-1'::ean13;
RESET enable_bitmapscan;
RESET enable_seqscan;

-- a user's type, with a class of a second name and an operator to another type
SET client_min_messages = warning;	-- without a word on shell types
CREATE TYPE celsius;
CREATE FUNCTION celsius_in(cstring) RETURNS celsius IMMUTABLE STRICT LANGUAGE internal AS 'int4in';
CREATE FUNCTION celsius_out(celsius) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal
	AS 'int4out';
CREATE TYPE celsius (INPUT = celsius_in, OUTPUT = celsius_out, LIKE = int4);
CREATE FUNCTION celsius_eq(celsius, celsius) RETURNS boolean IMMUTABLE STRICT LANGUAGE internal
	AS 'int4eq';
CREATE FUNCTION celsius_eq_int8(celsius, int8) RETURNS boolean IMMUTABLE STRICT LANGUAGE internal
	AS 'int48eq';
CREATE FUNCTION int8_eq_celsius(int8, celsius) RETURNS boolean IMMUTABLE STRICT LANGUAGE internal
	AS 'int84eq';
CREATE FUNCTION celsius_hash(celsius) RETURNS int IMMUTABLE STRICT LANGUAGE internal AS 'hashint4';
CREATE OPERATOR = (FUNCTION = celsius_eq, LEFTARG = celsius, RIGHTARG = celsius, COMMUTATOR = =,
	HASHES, RESTRICT = eqsel, JOIN = eqjoinsel);
CREATE OPERATOR = (FUNCTION = celsius_eq_int8, LEFTARG = celsius, RIGHTARG = int8,
	RESTRICT = eqsel, JOIN = eqjoinsel);
CREATE OPERATOR = (FUNCTION = int8_eq_celsius, LEFTARG = int8, RIGHTARG = celsius, COMMUTATOR = =,
	RESTRICT = eqsel, JOIN = eqjoinsel);
CREATE OPERATOR FAMILY "heat ops" USING hash;
CREATE OPERATOR CLASS celsius_ops DEFAULT FOR TYPE celsius USING hash FAMILY "heat ops" AS
	OPERATOR 1 = (celsius, celsius), FUNCTION 1 celsius_hash(celsius);
CREATE OPERATOR CLASS celsius_second_ops FOR TYPE celsius USING hash FAMILY "heat ops"
	AS STORAGE celsius;
ALTER OPERATOR FAMILY "heat ops" USING hash ADD
	OPERATOR 1 = (celsius, int8), OPERATOR 1 = (int8, celsius), OPERATOR 1 = (int8, int8),
		FUNCTION 1 (int8, int8) hashint8(int8);
SELECT replace(lazyhash_add_opclasses(), 'addons.', '') AS command;
SELECT * FROM missing;
SELECT opcname, amvalidate(oid) FROM pg_opclass
WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'lazyhash')
	AND opcintype = 'celsius'::regtype ORDER BY 1;
CREATE TABLE weather (today celsius, yesterday celsius);
CREATE INDEX weather_today ON weather USING lazyhash (today);
CREATE INDEX weather_yesterday ON weather USING lazyhash (yesterday celsius_second_ops);
INSERT INTO weather SELECT (i % 50)::text::celsius, (i % 70)::text::celsius
	FROM generate_series(1, 1000) i;
SELECT pg_temp.wrong_keys('weather_today') + pg_temp.wrong_keys('weather_yesterday') AS wrong;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM weather WHERE today = 7::int8;
SELECT count(*) FROM weather WHERE today = 7::int8;
RESET enable_bitmapscan;
RESET enable_seqscan;

-- a class in a family of the server
CREATE TYPE fahrenheit;
CREATE FUNCTION fahrenheit_in(cstring) RETURNS fahrenheit IMMUTABLE STRICT LANGUAGE internal
	AS 'int4in';
CREATE FUNCTION fahrenheit_out(fahrenheit) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal
	AS 'int4out';
CREATE TYPE fahrenheit (INPUT = fahrenheit_in, OUTPUT = fahrenheit_out, LIKE = int4);
CREATE FUNCTION fahrenheit_eq(fahrenheit, fahrenheit) RETURNS boolean IMMUTABLE STRICT
	LANGUAGE internal AS 'int4eq';
CREATE FUNCTION fahrenheit_hash(fahrenheit) RETURNS int IMMUTABLE STRICT LANGUAGE internal
	AS 'hashint4';
CREATE OPERATOR = (FUNCTION = fahrenheit_eq, LEFTARG = fahrenheit, RIGHTARG = fahrenheit,
	COMMUTATOR = =, HASHES);
CREATE OPERATOR CLASS fahrenheit_ops DEFAULT FOR TYPE fahrenheit USING hash FAMILY integer_ops AS
	OPERATOR 1 = (fahrenheit, fahrenheit), FUNCTION 1 fahrenheit_hash(fahrenheit);
SELECT replace(lazyhash_add_opclasses(), 'addons.', '') AS command;
SELECT * FROM missing;
CREATE TABLE weather_abroad (today fahrenheit);
CREATE INDEX weather_abroad_today ON weather_abroad USING lazyhash (today);
INSERT INTO weather_abroad SELECT (i % 50)::text::fahrenheit FROM generate_series(1, 1000) i;
SELECT pg_temp.wrong_keys('weather_abroad_today') AS wrong;

SELECT pg_temp.check_indexes();

-- the other way round: the types were there first
CREATE SCHEMA "Another Schema";
BEGIN;
SET LOCAL client_min_messages = warning;
DROP EXTENSION lazyhash CASCADE;
CREATE EXTENSION lazyhash SCHEMA "Another Schema";
SELECT * FROM missing WHERE opcname !~ 'ltree' ORDER BY opcname COLLATE "C";
SELECT count(*) > 13 AS commands FROM "Another Schema".lazyhash_add_opclasses();
SELECT * FROM missing;
SELECT opcname, opcnamespace::regnamespace FROM pg_opclass
WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'lazyhash')
	AND opcname IN ('text_ops', 'fahrenheit_ops') ORDER BY 1;
ROLLBACK;
DROP SCHEMA "Another Schema";
SELECT * FROM missing;

-- a function that an index needs is not dropped from under it
DROP FUNCTION celsius_hash(celsius);
-- with the other extension go its classes
SET client_min_messages = warning;
DROP EXTENSION citext CASCADE;
DROP EXTENSION hstore, isn, ltree CASCADE;
SELECT opcname FROM pg_opclass WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'lazyhash')
	AND opcname ~ 'citext|hstore|isbn|ltree';
-- and come again with it, in the families that are left
CREATE EXTENSION citext;
SELECT regexp_replace(lazyhash_add_opclasses(), ' FOR TYPE.*', '') AS command;
SELECT * FROM missing;
DROP EXTENSION citext CASCADE;
DROP OPERATOR FAMILY citext_ops USING lazyhash;
DROP OPERATOR FAMILY hash_hstore_ops USING lazyhash;
DROP OPERATOR FAMILY isn_ops USING lazyhash;
DROP OPERATOR FAMILY IF EXISTS hash_ltree_ops USING lazyhash;
DROP SCHEMA "odd ""schema";
DROP SCHEMA addons CASCADE;

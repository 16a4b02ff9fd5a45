--
-- An index is searched with values of any type that its family has an operator for, and finds what
-- reading the table finds.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA cross_type;
SET search_path = cross_type, public;

CREATE TABLE numbers (i2 int2, i4 int4, i8 int8, f4 float4, f8 float8);
INSERT INTO numbers
	SELECT i, i, i, i / 4.0, i / 4.0 FROM generate_series(-300, 300) i
	UNION ALL
	SELECT i, 65536 * i + 1, 4294967296 * i + 1, i / 7.0::float4, i / 7.0
		FROM generate_series(-300, 300) i;
INSERT INTO numbers VALUES (32767, 2147483647, 9223372036854775807, 'Infinity', 'Infinity'),
	(-32768, -2147483648, -9223372036854775808, 'NaN', 'NaN'), (0, 0, 0, '-0', '-0');
CREATE INDEX numbers_i2 ON numbers USING lazyhash (i2);
CREATE INDEX numbers_i4 ON numbers USING lazyhash (i4);
CREATE INDEX numbers_i8 ON numbers USING lazyhash (i8);
CREATE INDEX numbers_f4 ON numbers USING lazyhash (f4);
CREATE INDEX numbers_f8 ON numbers USING lazyhash (f8);
-- the collation of names is "C", and an index serves its own collation only
CREATE TABLE strings (t text COLLATE "C", n name);
INSERT INTO strings SELECT 'key ' || i % 200, 'key ' || i % 150 FROM generate_series(1, 600) i;
INSERT INTO strings VALUES (repeat('x', 63), repeat('x', 63)), (repeat('x', 64), repeat('y', 63)),
	('', '');
CREATE INDEX strings_t ON strings USING lazyhash (t);
CREATE INDEX strings_n ON strings USING lazyhash (n);
ANALYZE numbers, strings;

-- every pair of types: the rows that a join finds through the index are those it finds without
CREATE VIEW pairs AS
	SELECT o.amoplefttype::regtype AS l, o.amoprighttype::regtype AS r
	FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily JOIN pg_am a ON a.oid = f.opfmethod
	WHERE a.amname = 'lazyhash' AND o.amoplefttype <> o.amoprighttype AND o.amopstrategy = 1;
SELECT * FROM pairs ORDER BY l::text COLLATE "C", r::text COLLATE "C";

CREATE FUNCTION column_of(type regtype) RETURNS text LANGUAGE sql AS $$
	SELECT attname FROM pg_attribute
	WHERE attrelid IN ('numbers'::regclass, 'strings'::regclass) AND attnum > 0
		AND atttypid = type $$;
CREATE FUNCTION join_rows(tab text, l text, r text, through_index boolean) RETURNS bigint
LANGUAGE plpgsql
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
	SET enable_memoize = off
AS $$
DECLARE
	-- the subselect keeps the outer side from being the indexed one
	query text := format('SELECT count(*) FROM (SELECT %3$I AS k FROM %1$I OFFSET 0) o'
	                     ' JOIN %1$I t ON t.%2$I = o.k',
	                     tab, l, r);
	line text;
	plan text := '';
	found bigint;
BEGIN
	PERFORM set_config('enable_indexscan', through_index::text, true),
	        set_config('enable_bitmapscan', 'off', true),
	        set_config('enable_seqscan', (NOT through_index)::text, true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		plan := plan || line;
	END LOOP;
	IF (plan LIKE format('%%Index Scan using %s_%s on %s t%%', tab, l, tab)) <> through_index THEN
		RAISE EXCEPTION 'wrong plan: %', plan;
	END IF;
	EXECUTE query INTO found;
	RETURN found;
END
$$;
SELECT l, r, indexed > 0 AS finds, indexed = read AS same
FROM (SELECT l, r, join_rows(tab, column_of(l), column_of(r), true) AS indexed,
             join_rows(tab, column_of(l), column_of(r), false) AS read
      FROM pairs,
           LATERAL (SELECT CASE WHEN l IN ('text'::regtype, 'name'::regtype)
                                THEN 'strings' ELSE 'numbers' END) AS x(tab)) q
ORDER BY l::text COLLATE "C", r::text COLLATE "C";

-- constants, of the wider and of the narrower type, out of range, and on the other side
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM numbers WHERE i4 = 5::int8;
SELECT i2, i4 FROM numbers WHERE i4 = 5::int8;
SELECT i2, i4 FROM numbers WHERE i2 = 70000;
SELECT i2, i4 FROM numbers WHERE i2 = -32768::int8;
SELECT i2, i4 FROM numbers WHERE i4 = 4294967301;
SELECT i2, i4 FROM numbers WHERE i8 = -7::int2;
SELECT i2, i8 FROM numbers WHERE 4294967297 = i8;
EXPLAIN (COSTS OFF) SELECT * FROM numbers WHERE 5::int2 = i8;
SELECT i2, i8 FROM numbers WHERE 5::int2 = i8;
SELECT f4, f8 FROM numbers WHERE f4 = 0.25::float8 ORDER BY f8;
SELECT count(*) FROM numbers WHERE f8 = '-0'::float4;
SELECT count(*) FROM numbers WHERE f8 = 'NaN'::float4;
SELECT count(*) FROM strings WHERE t = 'key 7'::name;
SELECT count(*) FROM strings WHERE n = 'key 7'::text;
SELECT count(*) FROM strings WHERE n = repeat('x', 64);
SELECT count(*) FROM strings WHERE t = repeat('x', 64)::name;

-- lists
SELECT * FROM pg_temp.plan_of(
	$$SELECT * FROM numbers WHERE i4 = ANY ('{1,2,3000000000}'::int8[])$$);
SELECT i4 FROM numbers WHERE i4 = ANY ('{1,2,3000000000}'::int8[]) ORDER BY 1;
SELECT i8 FROM numbers WHERE i8 IN (1::int2, 2::int4, 4294967297) ORDER BY 1;

-- a parameter whose type the plan knows
PREPARE by_int8(int8) AS SELECT count(*) FROM numbers WHERE i2 = $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_int8(3);
EXECUTE by_int8(3);
EXECUTE by_int8(65539);
RESET plan_cache_mode;
RESET enable_bitmapscan;
RESET enable_seqscan;

-- domains and varchar are their base types
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE domains (p positive, v varchar(20));
INSERT INTO domains SELECT i, i FROM generate_series(1, 200) i;
CREATE INDEX domains_p ON domains USING lazyhash (p);
CREATE INDEX domains_v ON domains USING lazyhash (v);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM domains WHERE p = 7::int8;
SELECT * FROM domains WHERE p = 7::int8;
SELECT * FROM domains WHERE p = 7::positive;
SELECT * FROM domains WHERE v = '7'::name;
SELECT * FROM domains WHERE v = '7'::text;
RESET enable_seqscan;

SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA cross_type CASCADE;

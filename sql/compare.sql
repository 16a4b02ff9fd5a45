--
-- lazyhash_compare tells what a lazyhash index would be on the data of a btree or hash index, by
-- building it, and leaves nothing behind.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA compare;
SET search_path = compare, public;

-- the figures are those of indexes that are really made
CREATE TABLE t (k int PRIMARY KEY, v text, few int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, 'value ' || i, i % 2 FROM generate_series(1, 20000) i;
VACUUM ANALYZE t;
CREATE INDEX t_k_btree ON t (k);
CREATE INDEX t_k_hash ON t USING hash (k);
CREATE INDEX t_k_lazyhash ON t USING lazyhash (k);
SELECT state, access_method, build_ms > 0 AS built,
       size_bytes = pg_relation_size('t_k_' || access_method) AS same_size,
       CASE access_method
           WHEN 'btree' THEN c.pages_per_lookup = 2
           WHEN 'lazyhash' THEN c.pages_per_lookup = s.pages_per_lookup
           ELSE c.pages_per_lookup >= 1 END AS same_pages,
       CASE access_method
           WHEN 'btree' THEN c.longest_chain IS NULL
           WHEN 'lazyhash' THEN c.longest_chain = s.longest_chain
           ELSE c.longest_chain >= 1 END AS same_chain
FROM unnest(ARRAY['t_k_btree', 't_k_hash', 't_pkey']) WITH ORDINALITY u(name, i),
     LATERAL lazyhash_compare(name::regclass) WITH ORDINALITY
         c(state, access_method, build_ms, size_bytes, pages_per_lookup, longest_chain, row),
     LATERAL (SELECT l.pages_per_lookup, l.longest_chain FROM lazyhash_stats('t_k_lazyhash') l) s
ORDER BY i, row;
DROP INDEX t_k_btree, t_k_hash, t_k_lazyhash;
-- half of the entries in each of two long chains: the built-in hash has 407 entries a page
CREATE INDEX t_few ON t USING hash (few);
SELECT state, access_method, pages_per_lookup, longest_chain FROM lazyhash_compare('t_few')
WHERE current_setting('block_size')::int = 8192;
-- nothing in it
CREATE TABLE nothing (k int);
CREATE INDEX nothing_btree ON nothing (k);
CREATE INDEX nothing_hash ON nothing USING hash (k);
SELECT state, access_method, size_bytes > 0 AS sized, pages_per_lookup, longest_chain
FROM lazyhash_compare('nothing_btree');
SELECT state, access_method, size_bytes > 0 AS sized, pages_per_lookup, longest_chain
FROM lazyhash_compare('nothing_hash');
-- what the index has grown to is told apart from what it would be if built anew
CREATE TABLE bloated (k int) WITH (autovacuum_enabled = off);
CREATE INDEX bloated_k ON bloated (k);
INSERT INTO bloated SELECT i FROM generate_series(1, 20000) i;
DELETE FROM bloated WHERE k > 100;
VACUUM bloated;
SELECT state, access_method, size_bytes > 20 * 8192 AS large FROM lazyhash_compare('bloated_k');

-- the commands behind it: column or expression, class, collation, order, parameters, predicate
SET allow_in_place_tablespaces = on;
SET client_min_messages = warning;
CREATE TABLESPACE regress_lazyhash LOCATION '';
RESET client_min_messages;
CREATE COLLATION mine (provider = libc, locale = 'C');
CREATE TABLE "odd ""table" ("the key" text COLLATE mine, n int, a int[], d date);
CREATE INDEX i_column ON "odd ""table" ("the key");
CREATE INDEX i_pattern ON "odd ""table" ("the key" text_pattern_ops DESC);
CREATE INDEX i_expression ON "odd ""table" (lower("the key") COLLATE "C" NULLS FIRST)
	WHERE n > 5 AND d = '2000-01-01';
CREATE UNIQUE INDEX i_unique ON "odd ""table" ((n + 1) DESC NULLS LAST)
	WITH (fillfactor = 50, deduplicate_items = off) TABLESPACE regress_lazyhash;
CREATE INDEX i_hash ON "odd ""table" USING hash (a) WITH (fillfactor = 33);
SELECT relname, access_method, lazyhash_scratch_definition(oid, access_method, 'scratch')
FROM pg_class, unnest(ARRAY['btree', 'hash', 'lazyhash']) access_method
WHERE relname ~ '^i_' AND relnamespace = 'compare'::regnamespace
ORDER BY relname COLLATE "C", access_method COLLATE "C";
INSERT INTO "odd ""table" SELECT 'Row ' || i, i, ARRAY[i], '2000-01-01'
FROM generate_series(1, 5000) i;
SELECT c.relname, count(*) AS rows, count(build_ms) AS builds, min(pages_per_lookup) >= 1 AS read
FROM pg_class c, LATERAL lazyhash_compare(c.oid) WHERE relname ~ '^i_'
	AND relnamespace = 'compare'::regnamespace GROUP BY 1 ORDER BY 1;
-- a partial index covers less
CREATE INDEX i_partial ON "odd ""table" (n) WHERE n % 100 = 0;
SELECT state, access_method, size_bytes * 4 < pg_relation_size('i_column') AS small
FROM lazyhash_compare('i_partial');

-- other relations that have indexes
CREATE TEMPORARY TABLE fleeting AS SELECT i AS k FROM generate_series(1, 1000) i;
CREATE INDEX fleeting_k ON fleeting (k);
CREATE MATERIALIZED VIEW seen AS SELECT k FROM t;
CREATE INDEX seen_k ON seen (k);
CREATE UNLOGGED TABLE unlogged AS SELECT i AS k FROM generate_series(1, 1000) i;
CREATE INDEX unlogged_k ON unlogged USING hash (k);
CREATE TABLE parent (k int) PARTITION BY LIST (k);
CREATE TABLE child PARTITION OF parent DEFAULT;
CREATE INDEX parent_k ON parent (k);
SELECT count(*) FROM lazyhash_compare('fleeting_k');
SELECT count(*) FROM lazyhash_compare('seen_k');
SELECT count(*) FROM lazyhash_compare('unlogged_k');
SELECT count(*) FROM lazyhash_compare('child_k_idx');
SELECT count(*) FROM lazyhash_compare(NULL);

-- what it cannot do
\set VERBOSITY terse
SELECT lazyhash_compare('t');
SELECT lazyhash_compare(0);
SELECT lazyhash_compare('parent_k');
CREATE INDEX t_two ON t (k, v);
SELECT lazyhash_compare('t_two');
CREATE INDEX t_include ON t (k) INCLUDE (v);
SELECT lazyhash_compare('t_include');
CREATE INDEX t_brin ON t USING brin (k);
SELECT lazyhash_compare('t_brin');
CREATE INDEX t_lazyhash ON t USING lazyhash (k);
SELECT lazyhash_compare('t_lazyhash');
SELECT lazyhash_compare('pg_class_oid_index');
-- no class at all, and none with this equality
CREATE TABLE types (m bit(3), i int);
CREATE INDEX types_m ON types (m);
SELECT lazyhash_compare('types_m');
CREATE FUNCTION abs_eq(int, int) RETURNS boolean LANGUAGE sql IMMUTABLE
	AS 'SELECT abs($1) = abs($2)';
CREATE FUNCTION abs_cmp(int, int) RETURNS int LANGUAGE sql IMMUTABLE
	AS 'SELECT btint4cmp(abs($1), abs($2))';
CREATE OPERATOR =# (FUNCTION = abs_eq, LEFTARG = int, RIGHTARG = int);
CREATE OPERATOR CLASS abs_ops FOR TYPE int USING btree AS OPERATOR 3 =#,
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 abs_cmp(int, int);
CREATE INDEX types_i ON types (i abs_ops);
SELECT lazyhash_compare('types_i');
-- not valid
CREATE TABLE twice AS SELECT 1 AS k FROM generate_series(1, 2);
CREATE UNIQUE INDEX CONCURRENTLY twice_k ON twice (k);
SELECT lazyhash_compare('twice_k');
BEGIN READ ONLY;
SELECT lazyhash_compare('t_pkey');
ROLLBACK;
-- not the user's own
CREATE ROLE regress_lazyhash_other;
GRANT USAGE ON SCHEMA compare TO regress_lazyhash_other;
GRANT ALL ON t TO regress_lazyhash_other;
SET ROLE regress_lazyhash_other;
SELECT lazyhash_compare('t_pkey');
SELECT lazyhash_lookup_figures('t_pkey');
RESET ROLE;
-- whoever owns the table needs nothing else than to be able to create the index
ALTER TABLE t OWNER TO regress_lazyhash_other;
SET ROLE regress_lazyhash_other;
SELECT lazyhash_compare('t_pkey');
RESET ROLE;
GRANT CREATE ON SCHEMA compare TO regress_lazyhash_other;
SET ROLE regress_lazyhash_other;
SELECT count(*) FROM lazyhash_compare('t_pkey');
RESET ROLE;
ALTER TABLE t OWNER TO CURRENT_USER;
DROP OWNED BY regress_lazyhash_other;
DROP ROLE regress_lazyhash_other;

-- the lock that stays is the one on the table
BEGIN;
SELECT count(*) FROM lazyhash_compare('t_pkey');
SELECT relation::regclass, mode FROM pg_locks
WHERE pid = pg_backend_pid() AND relation::regclass::text ~ '^t(_|$)|scratch|lazyhash_compare'
	AND mode <> 'AccessShareLock' ORDER BY 1, 2;
COMMIT;

-- an error or a cancellation in the middle of a build leaves nothing behind
CREATE FUNCTION trouble(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	CASE current_setting('compare.trouble', true)
		WHEN 'error' THEN RAISE 'trouble at %', $1;
		WHEN 'wait' THEN PERFORM pg_sleep(60);
		ELSE NULL;
	END CASE;
	RETURN $1;
END
$$;
CREATE INDEX t_trouble ON t (trouble(k)) WHERE k <= 1000;
CREATE TEMPORARY TABLE before AS SELECT oid, relname FROM pg_class;
SELECT count(*) FROM lazyhash_compare('t_trouble');
SET compare.trouble = 'error';
SELECT lazyhash_compare('t_trouble');
SET compare.trouble = 'wait';
SET statement_timeout = 200;
SELECT lazyhash_compare('t_trouble');
RESET statement_timeout;
RESET compare.trouble;
SELECT relname FROM pg_class WHERE relname <> 'before' AND oid NOT IN (SELECT oid FROM before)
	AND relname !~ '^pg_toast';
SELECT state, access_method, size_bytes > 0 AS sized FROM lazyhash_compare('t_trouble');
\set VERBOSITY default

-- from any schema, whatever is on the search path
CREATE SCHEMA trap;
CREATE FUNCTION trap.format(text, VARIADIC text[]) RETURNS text LANGUAGE sql
	AS $$ SELECT 'DROP TABLE nothing' $$;
CREATE FUNCTION trap.pg_relation_size(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint';
CREATE FUNCTION trap.always(oid, oid) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR trap.= (FUNCTION = trap.always, LEFTARG = oid, RIGHTARG = oid);
CREATE SCHEMA "Yet another. Schema";
BEGIN;
SET LOCAL client_min_messages = warning;
DROP EXTENSION lazyhash CASCADE;
CREATE EXTENSION lazyhash SCHEMA "Yet another. Schema";
SET LOCAL search_path = trap, pg_catalog;
SELECT state, access_method, size_bytes > 0 AS sized
FROM "Yet another. Schema".lazyhash_compare('compare.t_pkey');
SELECT indexrelname FROM "Yet another. Schema".pg_stat_lazyhash WHERE false;
ROLLBACK;

SET client_min_messages = warning;
DROP SCHEMA trap CASCADE;
DROP SCHEMA "Yet another. Schema";
DROP SCHEMA compare CASCADE;
DROP TABLESPACE regress_lazyhash;

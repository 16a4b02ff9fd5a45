--
-- CREATE EXTENSION in any schema, DROP EXTENSION, and what belongs to the extension.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA extension;
SET search_path = extension, public;

-- everything that can have a comment has one
SELECT pg_describe_object(d.classid, d.objid, 0) AS without_comment
FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lazyhash'
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  AND d.classid IN ('pg_proc'::regclass, 'pg_am'::regclass, 'pg_class'::regclass)
  AND obj_description(d.objid, d.classid::regclass::name) IS NULL;
SELECT amname, obj_description(oid, 'pg_am') FROM pg_am WHERE amname = 'lazyhash';
-- who may call what
SELECT p.oid::regprocedure AS for_everyone FROM pg_proc p
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lazyhash'
WHERE has_function_privilege('public', p.oid, 'EXECUTE') ORDER BY 1;

-- where it is installed it stays: the functions call each other by that schema's name
CREATE SCHEMA elsewhere;
ALTER EXTENSION lazyhash SET SCHEMA elsewhere;
DROP SCHEMA elsewhere;

-- in a schema that is on nobody's search path and whose name needs quotes
CREATE SCHEMA "An odd. Schema";
BEGIN;
DROP EXTENSION lazyhash;
SELECT count(*) FROM pg_am WHERE amname = 'lazyhash';
SELECT count(*) FROM pg_proc WHERE proname ~ '^lazyhash';
SELECT count(*) FROM pg_opfamily f WHERE NOT EXISTS (SELECT FROM pg_am a WHERE a.oid = f.opfmethod);
CREATE EXTENSION lazyhash SCHEMA "An odd. Schema";
SELECT DISTINCT p.pronamespace::regnamespace FROM pg_proc p WHERE proname ~ '^lazyhash';
SELECT DISTINCT c.opcnamespace::regnamespace FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
	AND a.amname = 'lazyhash';
CREATE TABLE t (k int, v text, a int[], EXCLUDE USING lazyhash (k WITH =));
CREATE INDEX t_v ON t USING lazyhash (v);
CREATE INDEX t_v_pattern ON t USING lazyhash (v "An odd. Schema".text_pattern_ops);
CREATE INDEX t_a ON t USING lazyhash (a);
INSERT INTO t SELECT i, i % 100, ARRAY[i] FROM generate_series(1, 1000) i;
SELECT pg_get_indexdef('t_v_pattern'::regclass);
SELECT pg_temp.wrong_keys('t_k_excl') + pg_temp.wrong_keys('t_a') AS wrong;
SELECT "An odd. Schema".lazyhash_check('t_v', true);
SELECT "An odd. Schema".lazyhash_add_opclasses();
SELECT "An odd. Schema".lazyhash_refresh_opclasses();
SAVEPOINT dependent;
DROP EXTENSION lazyhash;
ROLLBACK TO dependent;
SET LOCAL client_min_messages = warning;
DROP EXTENSION lazyhash CASCADE;
SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 't'::regclass;
ROLLBACK;

-- a search path that holds other operators and functions leads nobody astray
CREATE SCHEMA trap;
CREATE FUNCTION trap.format(text, VARIADIC text[]) RETURNS text LANGUAGE sql
	AS $$ SELECT 'DROP TABLE nothing' $$;
CREATE FUNCTION trap.always(oid, oid) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR trap.= (FUNCTION = trap.always, LEFTARG = oid, RIGHTARG = oid);
BEGIN;
DROP EXTENSION lazyhash;
SET LOCAL search_path = trap, pg_catalog;
CREATE EXTENSION lazyhash SCHEMA extension;
SELECT extension.lazyhash_add_opclasses();
SET LOCAL search_path = pg_catalog;
SELECT count(*) >= 41 AS classes FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
	AND a.amname = 'lazyhash';
ROLLBACK;

SET client_min_messages = warning;
DROP SCHEMA trap CASCADE;
DROP SCHEMA "An odd. Schema";
DROP SCHEMA extension CASCADE;

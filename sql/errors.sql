--
-- What cannot be is refused, and the message says what.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA errors;
SET search_path = errors, public;
CREATE TABLE t (k int NOT NULL, v text, p point, x xml, j json, PRIMARY KEY (k));
CREATE INDEX t_v ON t USING lazyhash (v);
INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i;

-- kinds of index that there are not
CREATE INDEX ON t USING lazyhash (k, v);
CREATE UNIQUE INDEX ON t USING lazyhash (k);
CREATE INDEX ON t USING lazyhash (k) INCLUDE (v);
SELECT pg_temp.error_of($$CREATE INDEX ON t USING lazyhash (k ASC)$$);
SELECT pg_temp.error_of($$CREATE INDEX ON t USING lazyhash (k DESC)$$);
SELECT pg_temp.error_of($$CREATE INDEX ON t USING lazyhash (k NULLS FIRST)$$);
CREATE INDEX ON t USING lazyhash ();
SELECT pg_temp.error_of($$CREATE INDEX ON t USING lazyhash (nothing)$$);
CREATE INDEX ON t USING lazyhash (ctid);
SELECT pg_temp.error_of($$CREATE INDEX ON t USING lazyhash (random())$$);

-- types that cannot be hashed, classes of other access methods and types
CREATE INDEX ON t USING lazyhash (p);
CREATE INDEX ON t USING lazyhash (j);
CREATE INDEX ON t USING lazyhash (x);
CREATE INDEX ON t USING lazyhash (k text_ops);
CREATE INDEX ON t USING lazyhash (k no_such_ops);
SELECT replace(pg_temp.error_of($$CREATE INDEX ON t USING lazyhash (k int4_ops (a = 1))$$),
	'public.', '');
-- an array and a row of such, when a value comes
CREATE TABLE deep (a json[], r int[]);
CREATE INDEX ON deep USING lazyhash (a);
INSERT INTO deep VALUES (NULL);
INSERT INTO deep VALUES ('{"1"}');

-- what an index like this does not do
CLUSTER t USING t_v;
ALTER TABLE t CLUSTER ON t_v;
ALTER TABLE t ADD PRIMARY KEY USING INDEX t_v;
ALTER TABLE t ADD UNIQUE USING INDEX t_v;
ALTER TABLE t REPLICA IDENTITY USING INDEX t_v;
CREATE TABLE child (v text REFERENCES t (v));
INSERT INTO t VALUES (2000, '7') ON CONFLICT (v) DO NOTHING;

-- its relation is not a table
\set VERBOSITY sqlstate
SELECT count(*) FROM t_v;
INSERT INTO t_v VALUES (1);
\set VERBOSITY default
CREATE VIEW w AS SELECT * FROM t;
CREATE INDEX ON w USING lazyhash (k);
CREATE TABLE s USING lazyhash AS SELECT 1;
CREATE OPERATOR CLASS point_ops DEFAULT FOR TYPE point USING lazyhash
	AS OPERATOR 2 ~= (point, point);
CREATE OPERATOR CLASS point_ops DEFAULT FOR TYPE point USING lazyhash AS FUNCTION 4 hashint4(int4);

-- a class that is not whole is found out
CREATE OPERATOR CLASS half_ops FOR TYPE int4 USING lazyhash AS OPERATOR 1 = (int4, int4);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'half_ops';
CREATE INDEX ON t USING lazyhash (k half_ops);
DROP OPERATOR CLASS half_ops USING lazyhash;
DROP OPERATOR FAMILY half_ops USING lazyhash;
CREATE OPERATOR CLASS odd_ops FOR TYPE int4 USING lazyhash AS OPERATOR 1 < (int4, int4),
	FUNCTION 1 (int4, int4) hashtext(text);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'odd_ops';
DROP OPERATOR FAMILY odd_ops USING lazyhash CASCADE;

-- relations that are not what lazyhash_check asks for
SELECT lazyhash_check('t');
SELECT lazyhash_check('t_pkey');
SELECT lazyhash_check('w');
SELECT lazyhash_check('no_such_index');
SELECT lazyhash_check(0);
SELECT lazyhash_check(NULL) IS NULL;
CREATE TABLE parted (k int) PARTITION BY LIST (k);
CREATE INDEX parted_k ON parted USING lazyhash (k);
SELECT lazyhash_check('parted_k');
-- each function of each kind of relation: one answer for all, but that each names the relation
CREATE MATERIALIZED VIEW m AS SELECT k FROM t;
CREATE SEQUENCE q;
CREATE TYPE c AS (k int);
CREATE INDEX t_hash ON t USING hash (k);
CREATE INDEX t_gone ON t USING lazyhash (k);
SELECT 't_gone'::regclass::oid AS gone \gset
DROP INDEX t_gone;
CREATE FUNCTION pg_temp.answer(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
BEGIN
	EXECUTE command;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN format('%s %s %s', SQLSTATE, regexp_replace(SQLERRM, '\d{3,}', 'N'), hint);
END
$$;
SELECT CASE WHEN name ~ '^\d' THEN 'no such OID' ELSE name END AS relation, a.answer, count(*)
FROM unnest('{lazyhash_check(%s), "lazyhash_check(%s, true)", lazyhash_metapage_info(%s),
             "lazyhash_page_info(%s, 0)", "lazyhash_page_entries(%s, 0)", lazyhash_bucket_info(%s),
             lazyhash_stats(%s)}'::text[]) call,
     unnest('{t, w, m, q, c, parted, parted_k, t_pkey, t_hash, pg_class, pg_class_oid_index}'::text[]
            || ARRAY[:'gone', '4294967295']) WITH ORDINALITY relation (name, i),
     pg_temp.answer(format('SELECT count(*) FROM %s',
                           format(replace(call, '%s', '%L'), name))) a (answer)
GROUP BY i, name, a.answer ORDER BY i, a.answer;
SELECT lazyhash_check('t_v', NULL) IS NULL AS check, lazyhash_metapage_info(NULL) IS NULL AS meta,
       lazyhash_page_info('t_v', NULL) IS NULL AS page, lazyhash_stats(NULL) IS NULL AS stats,
       (SELECT count(*) FROM lazyhash_page_entries('t_v', NULL)) AS entries,
       (SELECT count(*) FROM lazyhash_page_entries(NULL, 1)) AS entries,
       (SELECT count(*) FROM lazyhash_bucket_info(NULL)) AS buckets,
       lazyhash_check_all(NULL) IS NULL AS all;
DROP MATERIALIZED VIEW m;
DROP SEQUENCE q;
DROP TYPE c;
DROP INDEX t_hash;
-- an index that CREATE INDEX CONCURRENTLY did not finish
CREATE INDEX CONCURRENTLY t_unfinished ON t USING lazyhash ((1 / (k - 7)));
SELECT lazyhash_check('t_unfinished');
DROP INDEX t_unfinished;
-- and whoever was not granted it
CREATE ROLE regress_lazyhash_nobody;
GRANT USAGE ON SCHEMA errors TO regress_lazyhash_nobody;
SET ROLE regress_lazyhash_nobody;
SELECT lazyhash_check('t_v');
RESET ROLE;
REVOKE USAGE ON SCHEMA errors FROM regress_lazyhash_nobody;
DROP ROLE regress_lazyhash_nobody;

-- the access method is not dropped while an index is there
DROP ACCESS METHOD lazyhash;
DROP EXTENSION lazyhash;
DROP OPERATOR CLASS text_ops USING lazyhash;

-- an error in between leaves no trace
SELECT pg_temp.wrong_keys('t_v') AS wrong;
SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA errors CASCADE;

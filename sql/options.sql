--
-- Storage parameters: fillfactor and batch are checked, kept, changed and obeyed.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA options;
SET search_path = options, public;
CREATE TABLE t AS SELECT i AS k FROM generate_series(1, 20000) i;

-- values out of bounds, of the wrong type, and parameters of other access methods
CREATE INDEX t_bad ON t USING lazyhash (k) WITH (fillfactor = 9);
CREATE INDEX t_bad ON t USING lazyhash (k) WITH (fillfactor = 101);
CREATE INDEX t_bad ON t USING lazyhash (k) WITH (fillfactor = 'much');
CREATE INDEX t_bad ON t USING lazyhash (k) WITH (batch = 0);
CREATE INDEX t_bad ON t USING lazyhash (k) WITH (batch = -1);
CREATE INDEX t_bad ON t USING lazyhash (k) WITH (batch = 'few');
CREATE INDEX t_bad ON t USING lazyhash (k) WITH (batch = 1000000);
CREATE INDEX t_bad ON t USING lazyhash (k) WITH (deduplicate_items = on);
CREATE INDEX t_bad ON t USING lazyhash (k) WITH (batch = 10, batch = 20);
-- the greatest batch is half of what a page of this server holds
SELECT (current_setting('block_size')::int - 64) / 10 / 2 AS max_batch \gset
CREATE INDEX t_max ON t USING lazyhash (k) WITH (batch = :max_batch);
DO $$
BEGIN
	EXECUTE format('CREATE INDEX t_bad ON t USING lazyhash (k) WITH (batch = %s)',
	               (current_setting('block_size')::int - 64) / 10 / 2 + 1);
EXCEPTION WHEN invalid_parameter_value THEN
	RAISE NOTICE 'refused';
END
$$;
SELECT pg_temp.wrong_keys('t_max') AS wrong;
DROP INDEX t_max;

SELECT to_regclass('t_bad');

-- kept and shown
CREATE INDEX t_k ON t USING lazyhash (k) WITH (fillfactor = 50, batch = 32);
\d t_k
SELECT reloptions FROM pg_class WHERE oid = 't_k'::regclass;
SELECT pg_get_indexdef('t_k'::regclass);

-- changed and taken away
ALTER INDEX t_k SET (batch = 1);
ALTER INDEX t_k SET (fillfactor = 100);
SELECT reloptions FROM pg_class WHERE oid = 't_k'::regclass;
INSERT INTO t SELECT i FROM generate_series(20001, 22000) i;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
ALTER INDEX t_k SET (batch = 200);
INSERT INTO t SELECT i FROM generate_series(22001, 24000) i;
ALTER INDEX t_k RESET (fillfactor, batch);
SELECT reloptions FROM pg_class WHERE oid = 't_k'::regclass;
INSERT INTO t SELECT i FROM generate_series(24001, 26000) i;
SELECT pg_temp.wrong_keys('t_k') AS wrong;
ALTER INDEX t_k SET (fillfactor = 5);
ALTER INDEX t_k SET (batch = 0);
ALTER INDEX t_k SET (fastupdate = off);
SELECT reloptions FROM pg_class WHERE oid = 't_k'::regclass;
DROP INDEX t_k;

-- obeyed: a lower fill factor takes more room, both when an index is built and when it grows
CREATE INDEX t_10 ON t USING lazyhash (k) WITH (fillfactor = 10);
CREATE INDEX t_default ON t USING lazyhash (k);
CREATE INDEX t_75 ON t USING lazyhash (k) WITH (fillfactor = 75);
CREATE INDEX t_100 ON t USING lazyhash (k) WITH (fillfactor = 100);
SELECT pg_relation_size('t_10') > 2 * pg_relation_size('t_default') AS ten_is_sparse,
       pg_relation_size('t_75') = pg_relation_size('t_default') AS default_is_75,
       pg_relation_size('t_100') <= pg_relation_size('t_75') AS hundred_is_dense;
CREATE TABLE grown (k int);
CREATE INDEX grown_10 ON grown USING lazyhash (k) WITH (fillfactor = 10);
CREATE INDEX grown_100 ON grown USING lazyhash (k) WITH (fillfactor = 100);
INSERT INTO grown SELECT k FROM t;
SELECT pg_relation_size('grown_10') > 2 * pg_relation_size('grown_100') AS ten_is_sparse;
DROP INDEX grown_100;
SELECT pg_temp.wrong_keys('grown_10') AS wrong;

-- a changed fill factor shows when the index is built anew
ALTER INDEX t_100 SET (fillfactor = 10);
REINDEX INDEX t_100;
SELECT pg_relation_size('t_10') = pg_relation_size('t_100') AS same;

-- a constraint's index has parameters as well
CREATE TABLE constrained (k int, EXCLUDE USING lazyhash (k WITH =)
	WITH (fillfactor = 20, batch = 8));
SELECT reloptions FROM pg_class WHERE oid = 'constrained_k_excl'::regclass;
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'constrained_k_excl';

SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA options CASCADE;

--
-- Every type that the server has a default hash operator class for can be indexed with lazyhash,
-- and the index answers as reading the table does.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA opclasses;
SET search_path = opclasses, public;

-- the types, classes, operators and support functions of hash that lazyhash lacks; 16384 is the
-- first OID that initdb does not give out
CREATE VIEW classes AS
	SELECT a.amname, c.oid, c.opcname, c.opcintype, c.opcdefault, c.opcfamily, f.opfname,
		c.opcnamespace
	FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod JOIN pg_opfamily f ON f.oid = c.opcfamily
	WHERE a.amname = 'lazyhash' OR a.amname = 'hash' AND c.oid < 16384;
SELECT opcintype::regtype FROM classes WHERE amname = 'hash' AND opcdefault
EXCEPT
SELECT opcintype::regtype FROM classes WHERE amname = 'lazyhash' AND opcdefault;
SELECT opcname, opcintype::regtype, opcdefault, opfname FROM classes WHERE amname = 'hash'
EXCEPT
SELECT opcname, opcintype::regtype, opcdefault, opfname FROM classes WHERE amname = 'lazyhash';
CREATE VIEW operators AS
	SELECT a.amname, f.opfname, o.amopstrategy, o.amopopr::regoperator
	FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily JOIN pg_am a ON a.oid = f.opfmethod
	WHERE a.amname = 'lazyhash' OR a.amname = 'hash' AND o.oid < 16384;
SELECT opfname, amopstrategy, amopopr FROM operators WHERE amname = 'hash'
EXCEPT
SELECT opfname, amopstrategy, amopopr FROM operators WHERE amname = 'lazyhash';
CREATE VIEW functions AS
	SELECT a.amname, f.opfname, s.amprocnum, s.amproclefttype, s.amprocrighttype, s.amproc
	FROM pg_amproc s JOIN pg_opfamily f ON f.oid = s.amprocfamily
		JOIN pg_am a ON a.oid = f.opfmethod
	WHERE a.amname = 'lazyhash' OR a.amname = 'hash' AND s.oid < 16384;
SELECT opfname, amprocnum, amproclefttype::regtype, amproc FROM functions WHERE amname = 'hash'
EXCEPT
SELECT opfname, amprocnum, amproclefttype::regtype, amproc FROM functions WHERE amname = 'lazyhash';

-- the above compared something: PostgreSQL 15 has 41 classes, later servers no fewer
SELECT count(*) >= 41 AS classes, count(*) FILTER (WHERE opcdefault) >= 36 AS types,
       (SELECT count(*) >= 48 FROM operators WHERE amname = 'lazyhash') AS operators
FROM classes WHERE amname = 'lazyhash';

-- what the access method itself thinks of its classes
SELECT opcname FROM classes WHERE amname = 'lazyhash' AND NOT amvalidate(oid);

-- they live where the extension lives and are its members
SELECT opcname FROM classes c
WHERE amname = 'lazyhash'
  AND (opcnamespace <> (SELECT extnamespace FROM pg_extension WHERE extname = 'lazyhash')
       OR NOT EXISTS (SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
                      WHERE d.classid = 'pg_opclass'::regclass AND d.objid = c.oid
                        AND d.refclassid = 'pg_extension'::regclass AND e.extname = 'lazyhash'
                        AND d.deptype = 'e'));

-- an upgraded server may have more types: here two are taken away, and they come back as they were
SELECT lazyhash_refresh_opclasses();
BEGIN;
ALTER EXTENSION lazyhash DROP OPERATOR CLASS int8_ops USING lazyhash;
ALTER OPERATOR FAMILY integer_ops USING lazyhash
	DROP OPERATOR 1 (int4, int8), OPERATOR 1 (int8, int4), OPERATOR 1 (int2, int8),
		OPERATOR 1 (int8, int2);
DROP OPERATOR CLASS int8_ops USING lazyhash;
ALTER EXTENSION lazyhash DROP OPERATOR CLASS uuid_ops USING lazyhash;
ALTER EXTENSION lazyhash DROP OPERATOR FAMILY uuid_ops USING lazyhash;
DROP OPERATOR FAMILY uuid_ops USING lazyhash CASCADE;
SELECT opcname FROM classes WHERE amname = 'hash'
EXCEPT
SELECT opcname FROM classes WHERE amname = 'lazyhash' ORDER BY 1;
SELECT regexp_replace(lazyhash_refresh_opclasses(), ' (FOR|ADD OPERATOR 1) .*', ' ...') AS command;
SELECT opfname, amopstrategy, amopopr FROM operators WHERE amname = 'hash'
EXCEPT
SELECT opfname, amopstrategy, amopopr FROM operators WHERE amname = 'lazyhash';
SELECT opfname, amprocnum, amproc FROM functions WHERE amname = 'hash'
EXCEPT
SELECT opfname, amprocnum, amproc FROM functions WHERE amname = 'lazyhash';
SELECT pg_describe_object(classid, objid, 0)
FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'lazyhash'
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  AND pg_describe_object(classid, objid, 0) ~ 'operator.* (int8|uuid)_ops'
ORDER BY 1;
SELECT lazyhash_refresh_opclasses();
ROLLBACK;

-- only a superuser makes operator classes
CREATE ROLE regress_lazyhash_nobody;
SET ROLE regress_lazyhash_nobody;
SELECT lazyhash_add_opclasses();
SELECT lazyhash_refresh_opclasses();
RESET ROLE;
DROP ROLE regress_lazyhash_nobody;

-- values for each type: an expression that makes one of a number
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a int, b text);
CREATE TABLE generators (class_type text, type text, expression text);
INSERT INTO generators VALUES
	('aclitem', 'aclitem', $$makeaclitem(i::oid, 10, 'SELECT', false)$$),
	('anyarray', 'int[]', $$CASE i % 10 WHEN 0 THEN '{}' WHEN 1 THEN ARRAY[i, NULL]
		ELSE ARRAY[i, -i] END$$),
	('anyarray', 'text[]', $$ARRAY[i::text, repeat('x', i)]$$),
	('anyenum', 'mood', $$(enum_range(NULL::mood))[i % 3 + 1]$$),
	('anymultirange', 'int4multirange', $$int4multirange(int4range(i, i + 5),
		int4range(2 * i + 10, 2 * i + 11))$$),
	('anyrange', 'int4range', $$CASE i % 10 WHEN 0 THEN 'empty' WHEN 1 THEN int4range(i, NULL)
		ELSE int4range(i, i + 3, '[]') END$$),
	('anyrange', 'tstzrange', $$tstzrange('2000-01-01 00:00+00'::timestamptz + i * interval '1 day',
		NULL)$$),
	('"char"', '"char"', $$chr(i % 120 + 1)::"char"$$),
	('bigint', 'bigint', $$CASE i % 3 WHEN 0 THEN i WHEN 1 THEN -i ELSE i * 4294967296 END$$),
	('boolean', 'boolean', $$i % 2 = 0$$),
	('bytea', 'bytea', $$decode(repeat(lpad(to_hex(i), 8, '0'), i % 5), 'hex')$$),
	('character', 'char(10)', $$i::text$$),
	('cid', 'cid', $$i::text::cid$$),
	('date', 'date', $$CASE WHEN i = 0 THEN 'infinity'::date ELSE '2000-01-01'::date + i END$$),
	('double precision', 'double precision', $$CASE i WHEN 0 THEN 'NaN' WHEN 1 THEN '-0'
		WHEN 2 THEN '0' WHEN 3 THEN 'Infinity' ELSE i / 7.0::float8 END$$),
	('inet', 'inet', $$'10.0.0.0/8'::inet + i$$),
	('inet', 'cidr', $$set_masklen('10.0.0.0'::cidr, i % 24 + 8)$$),
	('inet', 'inet', $$'2001:db8::'::inet + i$$),
	('integer', 'integer', $$CASE i % 2 WHEN 0 THEN i ELSE -i END$$),
	('interval', 'interval', $$CASE i % 2 WHEN 0 THEN i * interval '24 hours'
		ELSE (i - 1) * interval '1 day' END$$),
	('jsonb', 'jsonb', $$CASE i % 4 WHEN 0 THEN jsonb_build_object('a', i, 'b', ARRAY[i])
		WHEN 1 THEN to_jsonb(i::numeric(9, 2)) WHEN 2 THEN 'null' ELSE to_jsonb(i::text) END$$),
	('macaddr', 'macaddr', $$('08002b01' || lpad(to_hex(i), 4, '0'))::macaddr$$),
	('macaddr8', 'macaddr8', $$('08002b0102' || lpad(to_hex(i), 6, '0'))::macaddr8$$),
	('name', 'name', $$'name' || i$$),
	('numeric', 'numeric', $$CASE i WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity'
		ELSE round((i / 3)::numeric, i % 3) END$$),
	('oid', 'oid', $$(i * 20000000::bigint)::oid$$),
	('oid8', 'oid8', $$i::text::oid8$$),
	('oidvector', 'oidvector', $$(i || ' ' || i + 1)::oidvector$$),
	('pg_lsn', 'pg_lsn', $$'16/0'::pg_lsn + i$$),
	('real', 'real', $$CASE i WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '0'
		ELSE i / 7.0::float4 END$$),
	('record', 'pair', $$ROW(i, i::text)::pair$$),
	('smallint', 'smallint', $$CASE i % 2 WHEN 0 THEN i ELSE -i END$$),
	('text', 'text', $$repeat(i::text, i % 4 * 100)$$),
	('text', 'varchar(100)', $$i::text$$),
	('tid', 'tid', $$format('(%s,%s)', i, i + 1)::tid$$),
	('time without time zone', 'time', $$'00:00'::time + i * interval '1 second'$$),
	('time with time zone', 'timetz', $$format('12:00:%s+%s', i % 60, i % 12)::timetz$$),
	('timestamp without time zone', 'timestamp', $$CASE i WHEN 0 THEN '-infinity'
		ELSE '2000-01-01'::timestamp + i * interval '1 hour' END$$),
	('timestamp with time zone', 'timestamptz',
		$$'2000-01-01 00:00+00'::timestamptz + i * interval '1 hour'$$),
	('uuid', 'uuid', $$md5(i::text)::uuid$$),
	('xid', 'xid', $$i::text::xid$$),
	('xid8', 'xid8', $$i::text::xid8$$);

-- no type is forgotten
SELECT opcintype::regtype FROM classes WHERE amname = 'lazyhash' AND opcdefault
EXCEPT
SELECT class_type::regtype FROM generators WHERE to_regtype(class_type) IS NOT NULL;

-- half of the rows are there when the index is built, half come after; some go again
CREATE FUNCTION try_type(type text, expression text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	wrong bigint;
	fill text := format('INSERT INTO tried SELECT %s FROM generate_series(0, 399) n,'
	                    ' LATERAL (SELECT n %% 130) AS r(i)', expression);
BEGIN
	EXECUTE format('CREATE TABLE tried (k %s, n int GENERATED ALWAYS AS IDENTITY)', type);
	EXECUTE fill;
	INSERT INTO tried VALUES (NULL), (NULL);
	CREATE INDEX tried_k ON tried USING lazyhash (k);
	EXECUTE fill;
	INSERT INTO tried VALUES (NULL);
	DELETE FROM tried WHERE n % 3 = 0;
	wrong := pg_temp.wrong_keys('tried_k');
	PERFORM lazyhash_check('tried_k', true);
	DROP TABLE tried;
	RETURN wrong;
END
$$;
CREATE TABLE tries AS
	SELECT class_type, type, expression, try_type(type, expression) AS wrong FROM generators
	WHERE to_regtype(class_type) IS NOT NULL;
SELECT * FROM tries WHERE wrong <> 0;
SELECT count(DISTINCT class_type) >= 36 AS types FROM tries;

-- values that are equal and look different are found by each other
CREATE TABLE twins (f8 float8, n numeric, c char(5), iv interval, j jsonb, f4 float4);
CREATE INDEX twins_f8 ON twins USING lazyhash (f8);
CREATE INDEX twins_n ON twins USING lazyhash (n);
CREATE INDEX twins_c ON twins USING lazyhash (c);
CREATE INDEX twins_iv ON twins USING lazyhash (iv);
CREATE INDEX twins_j ON twins USING lazyhash (j);
CREATE INDEX twins_f4 ON twins USING lazyhash (f4);
INSERT INTO twins VALUES
	('-0', '1.0', 'a', '1 day', '{"a": 1.0, "b": 2}', 'NaN'),
	('0', '1.000', 'a   ', '24 hours', '{"b": 2, "a": 1}', 'NaN');
SET enable_seqscan = off;
SELECT count(*) FROM twins WHERE f8 = '0';
SELECT count(*) FROM twins WHERE n = '1';
SELECT count(*) FROM twins WHERE c = 'a ';
SELECT count(*) FROM twins WHERE iv = '1 day';
SELECT count(*) FROM twins WHERE j = '{"a": 1.00, "b": 2.0}';
SELECT count(*) FROM twins WHERE f4 = 'NaN';
RESET enable_seqscan;

-- the classes that are nobody's default
CREATE TABLE others (t text, v varchar, c char(8), i cidr);
CREATE INDEX others_t ON others USING lazyhash (t text_pattern_ops);
CREATE INDEX others_v ON others USING lazyhash (v varchar_ops);
CREATE INDEX others_v_pattern ON others USING lazyhash (v varchar_pattern_ops) WHERE v <> '';
CREATE INDEX others_c ON others USING lazyhash (c bpchar_pattern_ops);
CREATE INDEX others_i ON others USING lazyhash (i cidr_ops);
INSERT INTO others SELECT i % 50, i % 50, i % 50, set_masklen('10.0.0.0'::cidr, i % 24 + 8)
FROM generate_series(1, 300) i;
SELECT pg_temp.wrong_keys('others_t') + pg_temp.wrong_keys('others_v')
	+ pg_temp.wrong_keys('others_c')
	+ pg_temp.wrong_keys('others_i') AS wrong;
DROP INDEX others_v;
SELECT pg_temp.wrong_keys('others_v_pattern') AS wrong;

SELECT pg_temp.check_indexes();
SET client_min_messages = warning;
DROP SCHEMA opclasses CASCADE;

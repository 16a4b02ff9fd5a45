\set ECHO none
-- What every regression test starts with: the extension, and helpers that live as long as its
-- session.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS lazyhash;
RESET client_min_messages;
-- a plan that is made expensive on purpose is not worth compiling
SET jit = off;

-- How many keys the index answers wrongly: each key of the table, or of so many one, is looked up
-- by an index scan and by a bitmap scan, and the rows found must be those that reading the table
-- finds.  Raises an error when a plan does not use the index, for then nothing was tested.
CREATE FUNCTION pg_temp.wrong_keys(index regclass, one_of int DEFAULT 1) RETURNS bigint
	LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_indexscan = on
SET enable_bitmapscan = on
AS $$
DECLARE
	source text;
	key text;
	predicate text;
	query text;
	wanted text;
	plan text;
	line text;
	found bigint;
	wrong bigint := 0;
BEGIN
	SELECT i.indrelid::regclass::text, pg_get_indexdef(i.indexrelid, 1, true),
	       coalesce(pg_get_expr(i.indpred, i.indrelid), 'true')
	INTO source, key, predicate FROM pg_index i WHERE i.indexrelid = index;

	query := format('SELECT count(*) FROM (SELECT %2$s AS key, array_agg(ctid) AS tids'
	                ' FROM %1$s WHERE %3$s AND (%2$s) IS NOT NULL'
	                ' AND (%4$s = 1 OR hashtext((%2$s)::text) %% %4$s = 0) GROUP BY 1) truth'
	                ' WHERE ARRAY(SELECT unnest(tids) ORDER BY 1) IS DISTINCT FROM'
	                ' ARRAY(SELECT t.ctid FROM %1$s t WHERE %2$s = truth.key AND %3$s'
	                ' ORDER BY t.ctid)',
	                source, key, predicate, one_of);
	FOREACH wanted IN ARRAY ARRAY['Index Scan using ', 'Bitmap Index Scan on '] LOOP
		PERFORM set_config('enable_indexscan', (wanted ~ '^Index')::text, true);
		PERFORM set_config('enable_bitmapscan', (wanted ~ '^Bitmap')::text, true);
		plan := '';
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
			plan := plan || line || E'\n';
		END LOOP;
		IF position(wanted || (SELECT relname FROM pg_class WHERE oid = index) IN plan) = 0 THEN
			RAISE EXCEPTION 'no % in: %', wanted, plan;
		END IF;
		EXECUTE query INTO found;
		wrong := wrong + found;
	END LOOP;
	RETURN wrong;
END
$$;

-- The plan of a query, without the lines in which newer servers tell what of it was disabled.
CREATE FUNCTION pg_temp.plan_of(query text) RETURNS TABLE ("QUERY PLAN" text) LANGUAGE plpgsql AS $$
BEGIN
	FOR "QUERY PLAN" IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF "QUERY PLAN" !~ '^ *Disabled: ' THEN
			RETURN NEXT;
		END IF;
	END LOOP;
END
$$;

-- The message of the error that a command ends in, without the place in the command to which newer
-- servers point.
CREATE FUNCTION pg_temp.error_of(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RETURN 'no error';
EXCEPTION WHEN others THEN
	RETURN sqlerrm;
END
$$;

-- Read a cursor to its end and say how many rows that were.
CREATE FUNCTION pg_temp.rest_of(cursor refcursor) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	rows bigint := 0;
	r record;
BEGIN
	LOOP
		FETCH cursor INTO r;
		EXIT WHEN NOT FOUND;
		rows := rows + 1;
	END LOOP;
	RETURN rows;
END
$$;

-- Check every lazyhash index of the schema that the test works in, and each row of its table.
CREATE FUNCTION pg_temp.check_indexes() RETURNS SETOF name LANGUAGE plpgsql AS $$
DECLARE
	index record;
BEGIN
	FOR index IN
		SELECT c.oid, c.relname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE a.amname = 'lazyhash' AND c.relkind = 'i'
		  AND c.relnamespace IN (current_schema()::regnamespace, pg_my_temp_schema())
		ORDER BY c.relname COLLATE "C"
	LOOP
		PERFORM lazyhash_check(index.oid, true);
		RETURN NEXT index.relname;
	END LOOP;
END
$$;
\set ECHO all

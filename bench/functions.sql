--
-- What measurements call.  Loaded into the template database of each server of a benchmark.
--
CREATE EXTENSION pg_prewarm;
CREATE EXTENSION pg_walinspect;

-- runs a query that returns one number; the number and the milliseconds that it took
CREATE FUNCTION timed(query text, OUT answer numeric, OUT ms float8)
LANGUAGE plpgsql AS $$
DECLARE
	start timestamptz := clock_timestamp();
BEGIN
	EXECUTE query INTO answer;
	ms := 1000 * extract(epoch FROM clock_timestamp() - start);
END
$$;

-- The inner side of the nested loop that the query's plan is; an error if it is none.
CREATE FUNCTION inner_plan(query text, wanted text) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	node json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	node := plan->0->'Plan'->'Plans'->0;
	IF node->>'Node Type' <> 'Nested Loop' OR
	   node->'Plans'->1->>'Node Type' <> wanted THEN
		RAISE EXCEPTION 'not a nested loop over %: %', wanted, plan;
	END IF;
	RETURN node->'Plans'->1;
END
$$;

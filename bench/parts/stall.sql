-- Microseconds that single-row inserts took, and how many took so long.
CREATE TABLE latency (us int8, inserts int8);

CREATE PROCEDURE grow(how_many int) LANGUAGE plpgsql AS $$
DECLARE
	-- up to 10 ms by the microsecond, what is longer one by one
	histogram int8[] := array_fill(0::int8, ARRAY[10000]);
	longer int8[] := '{}';
	key int8;
	start timestamptz;
	us int8;
BEGIN
	FOR i IN 1..how_many LOOP
		key := (random() * 9e18)::int8;
		start := clock_timestamp();
		INSERT INTO t VALUES (key);
		us := 1 + 1000000 * extract(epoch FROM clock_timestamp() - start);
		IF us <= 10000 THEN
			histogram[us] := histogram[us] + 1;
		ELSE
			longer := longer || us;
		END IF;
		IF i % 1000 = 0 THEN
			COMMIT;
		END IF;
	END LOOP;
	DELETE FROM latency;
	INSERT INTO latency
	SELECT number - 1, inserts FROM unnest(histogram) WITH ORDINALITY h (inserts, number)
	WHERE inserts > 0
	UNION ALL
	SELECT number - 1, count(*) FROM unnest(longer) number GROUP BY number;
END
$$;

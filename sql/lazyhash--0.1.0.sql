/*
 * Install script of lazyhash 0.1.0: the access method, its operator classes, and the functions that
 * administrators call.  Run by CREATE EXTENSION.
 *
 * The operator classes are not listed here.  They are derived from those of the built-in hash
 * access method as the catalog of this very server has them, so that every type that hash can
 * index, lazyhash can index, whatever the server's version.
 */

\echo Use "CREATE EXTENSION lazyhash" to load this file. \quit

/*
 * Access method
 */

CREATE FUNCTION lazyhash_handler(internal)
RETURNS index_am_handler
AS 'MODULE_PATHNAME'
LANGUAGE C;

COMMENT ON FUNCTION lazyhash_handler(internal) IS 'handler of the lazyhash index access method';

CREATE ACCESS METHOD lazyhash TYPE INDEX HANDLER lazyhash_handler;

COMMENT ON ACCESS METHOD lazyhash IS
'index access method for equality lookups: linear hashing that counts, sorts and grows lazily';

/*
 * Operator classes
 */

/*
 * Derive the operator families and classes that lazyhash lacks from those of hash, and return the
 * commands that were run.  A family or class that exists already is completed, not made again.
 *
 * of_server tells which classes of hash to take: those that initdb made, or those made since, by
 * extensions and users.  The former go to the schema of lazyhash and belong to the extension
 * (add_members says so where CREATE EXTENSION does not do it by itself), for the new server of a
 * dump or an upgrade makes its own.  The latter go to where the classes of hash are, and do not
 * belong to the extension, for what belongs to one is not dumped.
 *
 * A class carries the operators and functions of its own type, as that of hash does: a function
 * that an index needs cannot then be dropped from under it.  What no class carries, chiefly the
 * operators between two types, is added to the family.
 */
CREATE FUNCTION lazyhash_derive_opclasses(of_server boolean, add_members boolean)
RETURNS SETOF text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	command text;
BEGIN
	FOR command IN
		WITH env AS (
			-- 16384 is FirstNormalObjectId: what has a lower OID was made by initdb
			SELECT (SELECT oid FROM pg_am WHERE amname = 'lazyhash') AS lazyhash,
			       (SELECT oid FROM pg_am WHERE amname = 'hash') AS hash,
			       (SELECT extnamespace FROM pg_extension WHERE extname = 'lazyhash') AS home,
			       CASE WHEN of_server THEN 0 ELSE 16384 END::oid AS lowest,
			       CASE WHEN of_server THEN 16383 ELSE 4294967295 END::oid AS highest
		), typ AS (
			SELECT t.oid, format('%I.%I', n.nspname, t.typname) AS name
			FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
		), source_family AS (
			-- every family of hash, and the schema of ours; those of the server are there to be
			-- extended
			SELECT f.oid, f.opfname, f.oid BETWEEN env.lowest AND env.highest AS in_range,
			       CASE WHEN f.oid < 16384 THEN env.home ELSE f.opfnamespace END AS namespace
			FROM pg_opfamily f JOIN env ON f.opfmethod = env.hash
		), family AS (
			SELECT f.oid AS source, ours.oid AS target, f.in_range,
			       format('%I.%I', n.nspname, f.opfname) AS name
			FROM source_family f CROSS JOIN env JOIN pg_namespace n ON n.oid = f.namespace
			     LEFT JOIN pg_opfamily ours ON ours.opfmethod = env.lazyhash
			          AND ours.opfname = f.opfname AND ours.opfnamespace = f.namespace
		), source_class AS (
			-- several classes may be of one type and family: the first of them carries the members
			SELECT c.opcname, c.opcfamily, c.opcintype, c.opcdefault,
			       CASE WHEN of_server THEN env.home ELSE c.opcnamespace END AS namespace,
			       row_number() OVER (PARTITION BY c.opcfamily, c.opcintype
			                          ORDER BY c.opcdefault DESC, c.opcname) = 1 AS carries
			FROM pg_opclass c JOIN env ON c.opcmethod = env.hash
			     AND c.oid BETWEEN env.lowest AND env.highest
		), class AS (
			-- the classes that we lack; a type has one default class, so another's counts as ours
			SELECT f.source, f.name AS family, format('%I.%I', n.nspname, c.opcname) AS name,
			       c.opcintype AS type, t.name AS type_name, c.opcdefault, c.carries
			FROM source_class c CROSS JOIN env JOIN family f ON f.source = c.opcfamily
			     JOIN pg_namespace n ON n.oid = c.namespace JOIN typ t ON t.oid = c.opcintype
			WHERE NOT EXISTS (
				SELECT FROM pg_opclass o
				WHERE o.opcmethod = env.lazyhash
				  AND (o.opcname = c.opcname AND o.opcnamespace = c.namespace
				       OR o.opcdefault AND c.opcdefault AND o.opcintype = c.opcintype))
		), member AS (
			-- the operators and functions that our families lack, as items of a command
			SELECT f.source, o.amoplefttype AS lefttype, o.amoprighttype AS righttype,
			       format('OPERATOR %s %I.%s (%s, %s)',
			              o.amopstrategy, n.nspname, p.oprname, l.name, r.name) AS item
			FROM family f CROSS JOIN env JOIN pg_amop o ON o.amopfamily = f.source
			     AND o.amoppurpose = 's' AND o.oid BETWEEN env.lowest AND env.highest
			     JOIN pg_operator p ON p.oid = o.amopopr
			     JOIN pg_namespace n ON n.oid = p.oprnamespace
			     JOIN typ l ON l.oid = p.oprleft JOIN typ r ON r.oid = p.oprright
			WHERE NOT EXISTS (SELECT FROM pg_amop x
			                  WHERE x.amopfamily = f.target AND x.amopstrategy = o.amopstrategy
			                    AND x.amoplefttype = o.amoplefttype
			                    AND x.amoprighttype = o.amoprighttype)
			UNION ALL
			-- the types are named, else later servers take those of the function's arguments
			SELECT f.source, s.amproclefttype, s.amprocrighttype,
			       format('FUNCTION %s (%s, %s) %I.%I (%s)',
			              s.amprocnum, l.name, r.name, n.nspname, p.proname,
			              (SELECT string_agg(t.name, ', ' ORDER BY u.i)
			               FROM unnest(p.proargtypes) WITH ORDINALITY AS u(type, i)
			                    JOIN typ t ON t.oid = u.type))
			FROM family f CROSS JOIN env JOIN pg_amproc s ON s.amprocfamily = f.source
			     AND s.oid BETWEEN env.lowest AND env.highest
			     JOIN pg_proc p ON p.oid = s.amproc JOIN pg_namespace n ON n.oid = p.pronamespace
			     JOIN typ l ON l.oid = s.amproclefttype JOIN typ r ON r.oid = s.amprocrighttype
			WHERE NOT EXISTS (SELECT FROM pg_amproc x
			                  WHERE x.amprocfamily = f.target AND x.amprocnum = s.amprocnum
			                    AND x.amproclefttype = s.amproclefttype
			                    AND x.amprocrighttype = s.amprocrighttype)
		), new_family AS (
			SELECT f.name FROM family f
			WHERE f.target IS NULL AND f.in_range
			  AND EXISTS (SELECT FROM class c WHERE c.source = f.source)
		), commands AS (
			SELECT f.name AS family, 1 AS step, '' AS class,
			       format('CREATE OPERATOR FAMILY %s USING lazyhash', f.name) AS command
			FROM new_family f
			UNION ALL
			SELECT f.name, 2, '',
			       format('ALTER EXTENSION lazyhash ADD OPERATOR FAMILY %s USING lazyhash', f.name)
			FROM new_family f
			WHERE add_members
			UNION ALL
			-- a class must have an item: where it has no member, its own type as storage type
			-- says nothing
			SELECT c.family, 3, c.name,
			       format('CREATE OPERATOR CLASS %s%s FOR TYPE %s USING lazyhash FAMILY %s AS %s',
			              c.name, CASE WHEN c.opcdefault THEN ' DEFAULT' END, c.type_name, c.family,
			              coalesce((SELECT string_agg(m.item, ', ' ORDER BY m.item DESC)
			                        FROM member m
			                        WHERE c.carries AND m.source = c.source
			                          AND m.lefttype = c.type AND m.righttype = c.type),
			                       'STORAGE ' || c.type_name))
			FROM class c
			UNION ALL
			SELECT c.family, 4, c.name,
			       format('ALTER EXTENSION lazyhash ADD OPERATOR CLASS %s USING lazyhash', c.name)
			FROM class c
			WHERE add_members
			UNION ALL
			SELECT f.name, 5, '',
			       format('ALTER OPERATOR FAMILY %s USING lazyhash ADD %s',
			              f.name, string_agg(m.item, ', ' ORDER BY m.item))
			FROM family f JOIN member m ON m.source = f.source
			WHERE (f.target IS NOT NULL OR f.name IN (SELECT name FROM new_family))
			  AND NOT EXISTS (SELECT FROM class c
			                  WHERE c.carries AND c.source = m.source
			                    AND c.type = m.lefttype AND c.type = m.righttype)
			GROUP BY f.name
		)
		SELECT c.command FROM commands c ORDER BY c.family, c.step, c.class
	LOOP
		EXECUTE command;
		RETURN NEXT command;
	END LOOP;
END
$$;

COMMENT ON FUNCTION lazyhash_derive_opclasses(boolean, boolean) IS
'internal: derive lazyhash operator classes from those of hash, return the commands run';

CREATE FUNCTION lazyhash_add_opclasses()
RETURNS SETOF text
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$ SELECT @extschema@.lazyhash_derive_opclasses(of_server => false, add_members => false) $$;

COMMENT ON FUNCTION lazyhash_add_opclasses() IS
'add lazyhash operator classes for those types of other extensions and of users that have hash '
'classes; returns the commands run, none when nothing was missing; superuser only';

CREATE FUNCTION lazyhash_refresh_opclasses()
RETURNS SETOF text
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$ SELECT @extschema@.lazyhash_derive_opclasses(of_server => true, add_members => true) $$;

COMMENT ON FUNCTION lazyhash_refresh_opclasses() IS
'add lazyhash operator classes for types of the server that are new since CREATE EXTENSION, as '
'after pg_upgrade; returns the commands run, none when nothing was missing; superuser only';

DO $$
BEGIN
	PERFORM @extschema@.lazyhash_derive_opclasses(of_server => true, add_members => false);
END
$$;

-- operator classes are a superuser's to make
REVOKE ALL ON FUNCTION lazyhash_derive_opclasses(boolean, boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION lazyhash_add_opclasses() FROM PUBLIC;
REVOKE ALL ON FUNCTION lazyhash_refresh_opclasses() FROM PUBLIC;

/*
 * Verification
 */

-- not in parallel plans, where no new snapshot can be taken
CREATE FUNCTION lazyhash_check(index regclass, heapallindexed boolean DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME', 'lazyhash_check'
LANGUAGE C STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION lazyhash_check(regclass, boolean) IS
'verify a lazyhash index; with heapallindexed also that it has an entry for each visible row, and that '
'each entry for a visible row has the hash of its key; raises an error (SQLSTATE XX002) that names '
'block and entry at the first violation; locks table and index in SHARE mode, so reads go on and '
'writers and VACUUM wait; on a standby it takes ACCESS SHARE, and says with a NOTICE what replay kept '
'it from checking';

CREATE FUNCTION lazyhash_check_all(heapallindexed boolean DEFAULT false)
RETURNS bigint
LANGUAGE plpgsql STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	index record;
	checked bigint := 0;
BEGIN
	FOR index IN
		SELECT c.oid, c.oid::regclass AS name, i.indisvalid AS valid,
		       c.relpersistence = 't' AND c.relnamespace <> pg_my_temp_schema() AS foreign_temp,
		       c.relpersistence <> 'p' AND pg_is_in_recovery() AS no_contents
		FROM pg_class c JOIN pg_am a ON a.oid = c.relam JOIN pg_index i ON i.indexrelid = c.oid
		WHERE c.relkind = 'i' AND a.amname = 'lazyhash'
		ORDER BY c.oid
	LOOP
		CONTINUE WHEN index.foreign_temp OR index.no_contents;
		IF NOT index.valid THEN
			RAISE NOTICE 'index % is not valid, skipped', index.name;
			CONTINUE;
		END IF;
		RAISE NOTICE 'checking index %', index.name;
		BEGIN
			PERFORM @extschema@.lazyhash_check(index.oid, heapallindexed);
			checked := checked + 1;
		EXCEPTION WHEN undefined_table THEN
			-- it may have been dropped since it was listed
			IF EXISTS (SELECT FROM pg_class c WHERE c.oid = index.oid) THEN
				RAISE;
			END IF;
			RAISE NOTICE 'index % was dropped, skipped', index.name;
		END;
	END LOOP;
	RETURN checked;
END
$$;

COMMENT ON FUNCTION lazyhash_check_all(boolean) IS
'run lazyhash_check on all lazyhash indexes of the database, one after the other, and return their '
'number; a NOTICE names each; those that are not valid, that belong to temporary tables of other '
'sessions, and on a standby those that are not logged, are left out; locks are let go after each';

-- they keep writers waiting, and read all of the index and the table: for those who are granted
-- them
REVOKE ALL ON FUNCTION lazyhash_check(regclass, boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION lazyhash_check_all(boolean) FROM PUBLIC;

/*
 * Inspection
 */

CREATE FUNCTION lazyhash_metapage_info(index regclass,
	OUT magic text, OUT version integer, OUT features bigint, OUT ffactor integer,
	OUT ntuples bigint, OUT maxbucket bigint, OUT highmask bigint, OUT lowmask bigint,
	OUT nphases integer, OUT phase_start bigint[])
AS 'MODULE_PATHNAME', 'lazyhash_metapage_info'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION lazyhash_metapage_info(regclass) IS
'the metapage of a lazyhash index: ffactor is entries a bucket should hold, ntuples the sum of entries '
'posted, maxbucket the highest bucket number, phase_start the first block of each run of primary '
'pages; error if the relation is not a lazyhash index that this session can read (42809, 0A000), or '
'the metapage is corrupted (XX002); lock: ACCESS SHARE on the index';

CREATE FUNCTION lazyhash_page_info(index regclass, block bigint,
	OUT kind text, OUT lsn pg_lsn, OUT bucket bigint, OUT entries integer, OUT room integer,
	OUT sorted integer, OUT dead integer, OUT posted integer, OUT pending integer,
	OUT next_block bigint, OUT tail_block bigint, OUT stamp bigint, OUT version bigint,
	OUT deletions bigint, OUT split_next_block bigint, OUT being_split boolean,
	OUT being_populated boolean, OUT has_dead boolean, OUT flags integer)
AS 'MODULE_PATHNAME', 'lazyhash_page_info'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION lazyhash_page_info(regclass, bigint) IS
'one block of a lazyhash index: kind is meta, primary, overflow, free, reserved or zeroes; entries, '
'room, sorted, dead, posted and pending are numbers of entries; columns that say nothing about the '
'kind are null; error if there is no such block (22023), if the relation is not a lazyhash index that '
'this session can read (42809, 0A000), or if the page is corrupted (XX002); lock: ACCESS SHARE on the '
'index';

CREATE FUNCTION lazyhash_page_entries(index regclass, block bigint,
	OUT entry integer, OUT hash bigint, OUT tid tid, OUT sorted boolean, OUT dead boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lazyhash_page_entries'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION lazyhash_page_entries(regclass, bigint) IS
'the entries of a primary or overflow page of a lazyhash index, in the order of the page, counted from '
'0: hash is the hash of the key as an unsigned number, sorted tells the sorted prefix from the tail; '
'error if there is no such block or it holds no entries (22023), if the relation is not a lazyhash '
'index that this session can read (42809, 0A000), or if the page is corrupted (XX002); lock: ACCESS '
'SHARE on the index';

CREATE FUNCTION lazyhash_bucket_info(index regclass,
	OUT bucket bigint, OUT block bigint, OUT pages bigint, OUT entries bigint, OUT dead bigint,
	OUT pending bigint, OUT fill_percent double precision, OUT stamp bigint, OUT state text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lazyhash_bucket_info'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION lazyhash_bucket_info(regclass) IS
'all buckets of a lazyhash index: block is that of the primary page, pages the length of the chain, '
'entries, dead and pending are numbers of entries, fill_percent is of the room on the pages of the '
'chain, state is normal, being split or being populated; reads every page of every bucket; beside '
'writers each bucket is counted at a moment of its own; error if the relation is not a lazyhash index '
'that this session can read (42809, 0A000), or is corrupted (XX002); lock: ACCESS SHARE on the index';

CREATE FUNCTION lazyhash_stats(index regclass,
	OUT buckets bigint, OUT pages bigint, OUT primary_pages bigint, OUT overflow_pages bigint,
	OUT free_pages bigint, OUT reserved_pages bigint, OUT unused_pages bigint, OUT ffactor integer,
	OUT entries bigint, OUT posted bigint, OUT pending bigint, OUT dead bigint,
	OUT free_percent double precision, OUT longest_chain bigint,
	OUT pages_per_lookup double precision, OUT bytes_per_entry double precision)
AS 'MODULE_PATHNAME', 'lazyhash_stats'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION lazyhash_stats(regclass) IS
'figures about a lazyhash index: reserved_pages are kept for buckets to come, unused_pages are of '
'zeroes and for VACUUM to reclaim, ffactor is entries a bucket should hold, posted is entries that the '
'metapage knows of and pending those it will be told of, free_percent is of the room on primary and '
'overflow pages, longest_chain is in pages, pages_per_lookup the mean over all entries of pages that a '
'lookup of that entry''s key reads (the metapage is not among them); reads the whole index; beside '
'writers each bucket is counted at a moment of its own; error if the relation is not a lazyhash index '
'that this session can read (42809, 0A000), or is corrupted (XX002); lock: ACCESS SHARE on the index';

REVOKE ALL ON FUNCTION lazyhash_metapage_info(regclass) FROM PUBLIC;
REVOKE ALL ON FUNCTION lazyhash_page_info(regclass, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION lazyhash_page_entries(regclass, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION lazyhash_bucket_info(regclass) FROM PUBLIC;
REVOKE ALL ON FUNCTION lazyhash_stats(regclass) FROM PUBLIC;

GRANT EXECUTE ON FUNCTION lazyhash_metapage_info(regclass) TO pg_stat_scan_tables;
GRANT EXECUTE ON FUNCTION lazyhash_page_info(regclass, bigint) TO pg_stat_scan_tables;
GRANT EXECUTE ON FUNCTION lazyhash_bucket_info(regclass) TO pg_stat_scan_tables;
GRANT EXECUTE ON FUNCTION lazyhash_stats(regclass) TO pg_stat_scan_tables;

-- hashes tell something about the keys
GRANT EXECUTE ON FUNCTION lazyhash_page_entries(regclass, bigint) TO pg_read_all_data;

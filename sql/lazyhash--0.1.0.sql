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
	OUT sorted integer, OUT sorted_runs integer, OUT dead integer, OUT posted integer,
	OUT pending integer,
	OUT next_block bigint, OUT tail_block bigint, OUT stamp bigint, OUT version bigint,
	OUT deletions bigint, OUT split_next_block bigint, OUT being_split boolean,
	OUT being_populated boolean, OUT has_dead boolean, OUT flags integer)
AS 'MODULE_PATHNAME', 'lazyhash_page_info'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION lazyhash_page_info(regclass, bigint) IS
'one block of a lazyhash index: kind is meta, primary, overflow, free, reserved or zeroes; entries, '
'room, sorted, dead, posted and pending are numbers of entries, sorted_runs is the number of runs of '
'64 entries in order that follow the sorted ones; columns that say nothing about the kind are null; '
'error if there is no such block (22023), if the relation is not a lazyhash index that this session '
'can read (42809, 0A000), or if the page is corrupted (XX002); lock: ACCESS SHARE on the index';

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

/*
 * Cumulative statistics
 */

CREATE FUNCTION lazyhash_stat_counters(
	OUT datid oid, OUT indexrelid oid, OUT inserts bigint, OUT postings bigint, OUT splits bigint,
	OUT splits_skipped bigint, OUT overflow_pages_added bigint, OUT overflow_pages_freed bigint,
	OUT phases_added bigint, OUT dead_removed bigint, OUT vacuum_removed bigint,
	OUT scan_restarts bigint, OUT cache_refreshes bigint, OUT stats_since timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lazyhash_stat_counters'
LANGUAGE C STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION lazyhash_stat_counters() IS
'internal: what was counted for the indexes of all databases, of which pg_stat_lazyhash shows this '
'one''s; error if nothing is counted on this server (55000)';

CREATE VIEW pg_stat_lazyhash AS
	SELECT t.oid AS relid, i.oid AS indexrelid, n.nspname AS schemaname, t.relname,
	       i.relname AS indexrelname,
	       coalesce(s.inserts, 0) AS inserts,
	       coalesce(s.postings, 0) AS postings,
	       coalesce(s.splits, 0) AS splits,
	       coalesce(s.splits_skipped, 0) AS splits_skipped,
	       coalesce(s.overflow_pages_added, 0) AS overflow_pages_added,
	       coalesce(s.overflow_pages_freed, 0) AS overflow_pages_freed,
	       coalesce(s.phases_added, 0) AS phases_added,
	       coalesce(s.dead_removed, 0) AS dead_removed,
	       coalesce(s.vacuum_removed, 0) AS vacuum_removed,
	       coalesce(s.scan_restarts, 0) AS scan_restarts,
	       coalesce(s.cache_refreshes, 0) AS cache_refreshes,
	       s.stats_since
	FROM pg_catalog.pg_am a
	     JOIN pg_catalog.pg_class i ON i.relam = a.oid AND i.relkind = 'i'
	     JOIN pg_catalog.pg_index x ON x.indexrelid = i.oid
	     JOIN pg_catalog.pg_class t ON t.oid = x.indrelid
	     JOIN pg_catalog.pg_namespace n ON n.oid = i.relnamespace
	     LEFT JOIN (@extschema@.lazyhash_stat_counters() s
	                JOIN pg_catalog.pg_database d ON d.oid = s.datid
	                     AND d.datname = pg_catalog.current_database())
	          ON s.indexrelid = i.oid
	WHERE a.amname = 'lazyhash';

COMMENT ON VIEW pg_stat_lazyhash IS
'one row for each lazyhash index of the database: how often what has happened to it since the server was '
'started or the counters were reset; a transaction counts when it ends, long ones also on their way; '
'counters start at zero with each start of the server, and are of that server alone, not of its '
'primary or standbys; CREATE INDEX and REINDEX are not counted; error if nothing is counted on this '
'server (55000): before PostgreSQL 17 the library must be in shared_preload_libraries';

COMMENT ON COLUMN pg_stat_lazyhash.relid IS 'OID of the table';
COMMENT ON COLUMN pg_stat_lazyhash.indexrelid IS 'OID of the index';
COMMENT ON COLUMN pg_stat_lazyhash.schemaname IS 'schema of table and index';
COMMENT ON COLUMN pg_stat_lazyhash.relname IS 'name of the table';
COMMENT ON COLUMN pg_stat_lazyhash.indexrelname IS 'name of the index';
COMMENT ON COLUMN pg_stat_lazyhash.inserts IS
'entries added by inserts and updates, whether their transactions committed or not';
COMMENT ON COLUMN pg_stat_lazyhash.postings IS
'inserts that took the metapage, to tell it of what was added to a page; inserts divided by this is '
'near the storage parameter batch';
COMMENT ON COLUMN pg_stat_lazyhash.splits IS 'buckets split, each of which added one bucket';
COMMENT ON COLUMN pg_stat_lazyhash.splits_skipped IS
'splits that an insert found due and another session quicker to make';
COMMENT ON COLUMN pg_stat_lazyhash.overflow_pages_added IS
'overflow pages added to chains, by inserts or splits';
COMMENT ON COLUMN pg_stat_lazyhash.overflow_pages_freed IS
'overflow pages taken out of chains, by splits or VACUUM';
COMMENT ON COLUMN pg_stat_lazyhash.phases_added IS
'runs of primary pages for buckets to come, by which the file grew';
COMMENT ON COLUMN pg_stat_lazyhash.dead_removed IS
'entries of dead rows removed by inserts that found a page full';
COMMENT ON COLUMN pg_stat_lazyhash.vacuum_removed IS 'entries of dead rows removed by VACUUM';
COMMENT ON COLUMN pg_stat_lazyhash.scan_restarts IS
'times that a lookup began anew because the chain it was reading was changed';
COMMENT ON COLUMN pg_stat_lazyhash.cache_refreshes IS
'times that a session read the metapage into its cache';
COMMENT ON COLUMN pg_stat_lazyhash.stats_since IS
'when counting began: the first event since the server was started, or the last reset; null if there '
'was none; later than that if more than 4096 indexes are in use, for then the one that was quiet for '
'longest is forgotten';

CREATE FUNCTION lazyhash_stat_reset(index regclass DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'lazyhash_stat_reset'
LANGUAGE C PARALLEL RESTRICTED;

COMMENT ON FUNCTION lazyhash_stat_reset(regclass) IS
'set to zero what pg_stat_lazyhash counts for a lazyhash index, or, without argument, for all of this '
'database; what other sessions have yet to add is added later; error if nothing is counted on this '
'server (55000), or the relation is not a lazyhash index (42809)';

GRANT SELECT ON pg_stat_lazyhash TO PUBLIC;
REVOKE ALL ON FUNCTION lazyhash_stat_reset(regclass) FROM PUBLIC;

/*
 * Comparison
 */

CREATE FUNCTION lazyhash_lookup_figures(index regclass,
	OUT pages_per_lookup double precision, OUT longest_chain bigint)
AS 'MODULE_PATHNAME', 'lazyhash_lookup_figures'
LANGUAGE C STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION lazyhash_lookup_figures(regclass) IS
'internal: pages that a lookup reads in a btree, hash or lazyhash index, metapage not among them, and '
'the longest chain in pages, null for btree; null also for an empty index; reads the whole index '
'unless it is a btree; error if the relation is not such an index (42809) or the table is not the '
'user''s own (42501); lock: SHARE on the table, until the end of the transaction';

/*
 * The definition of a scratch index of the given access method over what an index covers: as it is
 * for the index's own, with the class whose equality is the same for lazyhash.  Null if there is no
 * such class.
 */
CREATE FUNCTION lazyhash_scratch_definition(index regclass, access_method name, scratch name)
RETURNS text
LANGUAGE sql STRICT STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	WITH original AS (
		SELECT x.*, i.reloptions, s.spcname, o.opcname, o.opcintype, o.opcmethod,
		       m.amname = access_method AS same_method, e.amopopr AS equality,
		       format('%I.%I', n.nspname, t.relname) AS table_name, a.attname
		FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am m ON m.oid = i.relam
		     JOIN pg_class t ON t.oid = x.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace
		     JOIN pg_opclass o ON o.oid = x.indclass[0]
		     JOIN pg_amop e ON e.amopfamily = o.opcfamily AND e.amoplefttype = o.opcintype
		          AND e.amoprighttype = o.opcintype
		          AND e.amopstrategy = CASE m.amname WHEN 'btree' THEN 3 ELSE 1 END
		     LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = x.indkey[0]
		          AND a.attnum <> 0
		     LEFT JOIN pg_tablespace s ON s.oid = i.reltablespace
		WHERE x.indexrelid = index
	), class AS (
		SELECT n.nspname, c.opcname
		FROM original o JOIN pg_opclass c ON c.opcintype = o.opcintype
		     JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = access_method
		     JOIN pg_namespace n ON n.oid = c.opcnamespace
		WHERE CASE WHEN o.same_method THEN c.oid = o.indclass[0]
		           ELSE EXISTS (SELECT FROM pg_amop e
		                        WHERE e.amopfamily = c.opcfamily AND e.amopopr = o.equality
		                          AND e.amopstrategy = 1) END
		ORDER BY c.opcname = o.opcname DESC, c.opcdefault DESC, c.opcname LIMIT 1
	)
	SELECT format('CREATE INDEX %I ON %s USING %I (%s%s %I.%I%s)%s%s%s',
		scratch, o.table_name, access_method,
		coalesce(quote_ident(o.attname), '(' || pg_get_expr(o.indexprs, o.indrelid) || ')'),
		(SELECT format(' COLLATE %I.%I', n.nspname, l.collname)
		 FROM pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace
		 WHERE l.oid = o.indcollation[0]),
		c.nspname, c.opcname,
		CASE WHEN o.same_method THEN
			CASE o.indoption[0] WHEN 1 THEN ' DESC NULLS LAST' WHEN 2 THEN ' NULLS FIRST'
			                    WHEN 3 THEN ' DESC' END END,
		CASE WHEN o.same_method AND o.reloptions IS NOT NULL THEN
			(SELECT ' WITH (' ||
			        string_agg(format('%I = %L', split_part(r, '=', 1),
			                          substr(r, strpos(r, '=') + 1)), ', ') || ')'
			 FROM unnest(o.reloptions) r) END,
		' TABLESPACE ' || quote_ident(o.spcname),
		' WHERE ' || pg_get_expr(o.indpred, o.indrelid))
	FROM original o, class c
$$;

COMMENT ON FUNCTION lazyhash_scratch_definition(regclass, name, name) IS
'internal: the command that makes a scratch index for lazyhash_compare';

-- refuses what cannot be compared; for whom the index is not, CREATE INDEX says so
CREATE FUNCTION lazyhash_require_comparable(index regclass)
RETURNS void
LANGUAGE plpgsql STRICT STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	it record;
BEGIN
	SELECT c.relkind, c.relname, m.amname, x.indnatts, x.indnkeyatts, x.indisvalid,
	       c.relpersistence = 't' AND c.relnamespace <> pg_my_temp_schema() AS foreign_temp
	INTO it
	FROM pg_class c LEFT JOIN pg_am m ON m.oid = c.relam
	     LEFT JOIN pg_index x ON x.indexrelid = c.oid
	WHERE c.oid = index;

	IF NOT FOUND OR it.relkind NOT IN ('i', 'I') THEN
		RAISE '"%" is not an index', coalesce(it.relname, index::text)
			USING ERRCODE = 'wrong_object_type';
	ELSIF it.relkind = 'I' THEN
		RAISE '"%" is the index of a partitioned table', it.relname
			USING ERRCODE = 'wrong_object_type', HINT = 'Name the index of one partition.';
	ELSIF it.amname NOT IN ('btree', 'hash') THEN
		RAISE 'cannot compare index "%" of access method %', it.relname, it.amname
			USING ERRCODE = 'feature_not_supported',
				HINT = 'lazyhash takes the place of btree and hash indexes.';
	ELSIF it.indnkeyatts > 1 THEN
		RAISE 'cannot compare index "%", which has % columns', it.relname, it.indnkeyatts
			USING ERRCODE = 'feature_not_supported',
				HINT = 'A lazyhash index has one column.';
	ELSIF it.indnatts > 1 THEN
		RAISE 'cannot compare index "%", which includes columns', it.relname
			USING ERRCODE = 'feature_not_supported',
				HINT = 'A lazyhash index has one column and includes none.';
	ELSIF it.foreign_temp THEN
		RAISE 'cannot compare index "%" of another session''s temporary table', it.relname
			USING ERRCODE = 'feature_not_supported';
	ELSIF NOT it.indisvalid THEN
		RAISE 'index "%" is not valid', it.relname
			USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'REINDEX it first.';
	ELSIF pg_is_in_recovery() THEN
		RAISE 'cannot compare indexes during recovery'
			USING ERRCODE = 'read_only_sql_transaction', HINT = 'Do so on the primary.';
	ELSIF current_setting('transaction_read_only')::boolean THEN
		RAISE 'cannot compare indexes in a read-only transaction'
			USING ERRCODE = 'read_only_sql_transaction';
	END IF;
END
$$;

COMMENT ON FUNCTION lazyhash_require_comparable(regclass) IS
'internal: raise an error if lazyhash_compare cannot do anything with the index';

/*
 * Each scratch index is built in a block of its own, which an exception of ours ends: rolled back, it
 * leaves nothing behind, and the figures stay in the variables.  The table is read once before, so
 * that none of the builds alone pays for what is not in the cache.
 */
CREATE FUNCTION lazyhash_compare(index regclass,
	OUT state text, OUT access_method text, OUT build_ms double precision, OUT size_bytes bigint,
	OUT pages_per_lookup double precision, OUT longest_chain bigint)
RETURNS SETOF record
LANGUAGE plpgsql STRICT VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET default_tablespace = ''
SET enable_indexonlyscan = off
AS $$
DECLARE
	scratch name := format('lazyhash_compare_%s_%s', index::oid, pg_backend_pid());
	methods name[];
	commands text[];
	source text;
	place text;
	begun timestamptz;
BEGIN
	PERFORM @extschema@.lazyhash_require_comparable(index);
	SELECT ARRAY[m.amname, 'lazyhash'], format('%I.%I', n.nspname, t.relname),
	       format('%I.%I', n.nspname, scratch)
	INTO STRICT methods, source, place
	FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_am m ON m.oid = c.relam
	     JOIN pg_class t ON t.oid = x.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace
	WHERE x.indexrelid = index;
	SELECT array_agg(@extschema@.lazyhash_scratch_definition(index, m, scratch) ORDER BY i)
	INTO commands FROM unnest(methods) WITH ORDINALITY u(m, i);
	IF commands[2] IS NULL THEN
		RAISE 'lazyhash has no operator class with the equality of index "%"',
				(SELECT c.relname FROM pg_class c WHERE c.oid = index)
			USING ERRCODE = 'undefined_object',
				HINT = 'lazyhash_add_opclasses() makes those that hash has for types of other '
				       'extensions and of users.';
	END IF;

	-- from here on the table is locked
	SELECT 'as it is', methods[1], pg_relation_size(index), f.pages_per_lookup, f.longest_chain
	INTO state, access_method, size_bytes, pages_per_lookup, longest_chain
	FROM @extschema@.lazyhash_lookup_figures(index) f;
	RETURN NEXT;

	EXECUTE 'SELECT count(*) FROM ONLY ' || source;
	FOR i IN 1..2 LOOP
		BEGIN
			begun := clock_timestamp();
			EXECUTE commands[i];
			build_ms := 1000 * extract(epoch FROM clock_timestamp() - begun);
			SELECT 'built anew', methods[i], pg_relation_size(place::regclass),
			       f.pages_per_lookup, f.longest_chain
			INTO state, access_method, size_bytes, pages_per_lookup, longest_chain
			FROM @extschema@.lazyhash_lookup_figures(place::regclass) f;
			RAISE 'the scratch index has served' USING ERRCODE = 'LZ001';
		EXCEPTION WHEN SQLSTATE 'LZ001' THEN
			NULL;
		END;
		RETURN NEXT;
	END LOOP;
END
$$;

COMMENT ON FUNCTION lazyhash_compare(regclass) IS
'what lazyhash would be on the data of a btree or hash index of one column (also an expression, also '
'partial), in three rows: the index as it is, one of its kind built anew, a lazyhash index built anew; '
'build_ms is milliseconds that CREATE INDEX took, size_bytes bytes of the main fork, pages_per_lookup '
'the mean of pages that a lookup of a key reads, the metapage not among them (for btree: from the root '
'to a leaf), longest_chain pages of the longest bucket (null for btree); null where there is nothing to '
'tell, as of an empty index; both are made with the settings of the session, for the existing kind also '
'with the index''s own storage parameters, and rolled back: that needs the disk space of one index at '
'a time, and writes its WAL; errors: 42809 no such index, 0A000 an index that lazyhash cannot stand '
'for, 42704 no operator class, 42501 not owner of the table, 55000 not valid, 25006 read-only; lock: '
'SHARE on the table until the end of the transaction, so reads go on and writers wait';

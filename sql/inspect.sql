--
-- What the inspection functions say about an index is what is in it.
--
\getenv abs_srcdir PG_ABS_SRCDIR
\set setup :abs_srcdir '/sql/include/setup.sql'
\i :setup
CREATE SCHEMA inspect;
SET search_path = inspect, public;

-- an empty index
CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
CREATE INDEX t_k ON t USING lazyhash (k) WITH (fillfactor = 10, batch = 4);
SELECT magic, version, features, ntuples, maxbucket, highmask, lowmask, nphases, phase_start
FROM lazyhash_metapage_info('t_k');
SELECT buckets, pages, primary_pages, overflow_pages, free_pages, reserved_pages, unused_pages,
       entries, posted, pending, dead, free_percent, longest_chain, pages_per_lookup,
       bytes_per_entry
FROM lazyhash_stats('t_k');
SELECT bucket, block, pages, entries, dead, pending, fill_percent, stamp, state
FROM lazyhash_bucket_info('t_k');
SELECT kind, bucket, entries, sorted, posted, pending, next_block, being_split
FROM lazyhash_page_info('t_k', 0);
SELECT kind, bucket, entries, room > 0 AS room, sorted, dead, posted, pending, next_block,
       tail_block, stamp, split_next_block, being_split, being_populated, has_dead
FROM lazyhash_page_info('t_k', 1);
SELECT count(*) FROM lazyhash_page_entries('t_k', 1);

-- a few rows, not a batch yet: the metapage knows nothing of them
INSERT INTO t VALUES (1), (2), (3), (NULL);
SELECT ntuples FROM lazyhash_metapage_info('t_k');
SELECT entries, posted, pending FROM lazyhash_page_info('t_k', 1);
SELECT entry, hash = hashint4(k)::bigint & 4294967295 AS hash, e.tid = t.ctid AS tid, dead
FROM lazyhash_page_entries('t_k', 1) e JOIN t ON t.ctid = e.tid ORDER BY entry;
-- one more makes it one
INSERT INTO t VALUES (4);
SELECT ntuples FROM lazyhash_metapage_info('t_k');
SELECT entries, posted, pending, sorted <= entries AS sorted FROM lazyhash_page_info('t_k', 1);

-- many rows
INSERT INTO t SELECT i FROM generate_series(5, 12000) i;
INSERT INTO t SELECT 7 FROM generate_series(1, 3000) i;
CREATE TEMPORARY VIEW pages AS
	SELECT block, p.*
	FROM generate_series(0, pg_relation_size('t_k') / current_setting('block_size')::int - 1) block,
	     lazyhash_page_info('t_k', block) p;
-- materialized, or the planner may ask other pages for entries before it looks at their kind
CREATE TEMPORARY VIEW entries AS
	WITH chains AS MATERIALIZED (SELECT * FROM pages WHERE kind IN ('primary', 'overflow'))
	SELECT p.block, p.bucket, p.kind, e.*
	FROM chains p, lazyhash_page_entries('t_k', p.block) e;
-- each row has its entry, with its hash, in the bucket that the hash belongs to
SELECT count(*) AS rows, count(e.tid) AS found,
       count(*) FILTER (WHERE e.hash = hashint4(k)::bigint & 4294967295) AS right_hash,
       count(*) FILTER (WHERE e.bucket =
                              CASE WHEN e.hash & m.highmask <= m.maxbucket THEN e.hash & m.highmask
                                   ELSE e.hash & m.lowmask END) AS right_bucket
FROM lazyhash_metapage_info('t_k') m, t LEFT JOIN entries e ON e.tid = t.ctid
WHERE k IS NOT NULL;
-- the sorted part of each page is what it says, and is sorted
SELECT count(*) AS unsorted
FROM (SELECT sorted AND lag(sorted) OVER w
                    AND (lag(hash) OVER w, lag(tid) OVER w) >= (hash, tid) AS wrong
      FROM entries WINDOW w AS (PARTITION BY block ORDER BY entry)) e
WHERE wrong;
SELECT count(*) AS pages_that_differ
FROM pages p JOIN (SELECT block, count(*) AS entries, count(*) FILTER (WHERE sorted) AS sorted
                   FROM entries GROUP BY block) e USING (block)
WHERE p.entries <> e.entries OR p.sorted <> e.sorted;
-- with generic records, what a page gets between two merges is put in order as runs of 64
CREATE TABLE r (k int) WITH (autovacuum_enabled = off);
CREATE INDEX r_k ON r USING lazyhash (k) WITH (fillfactor = 100);
SET lazyhash.wal = 'generic';
INSERT INTO r SELECT i FROM generate_series(1, 6000) i;
RESET lazyhash.wal;
SELECT count(*) FILTER (WHERE sorted_runs > 0) > 0 AS pages_with_runs,
       count(*) FILTER (WHERE sorted + 64 * sorted_runs > entries) AS runs_too_many,
       count(*) FILTER (WHERE entries - (sorted + 64 * sorted_runs) >= 64) AS runs_left_out,
       sum(wrong) AS unsorted
FROM (SELECT block, p.* FROM generate_series(1, pg_relation_size('r_k') /
                                             current_setting('block_size')::int - 1) block,
             lazyhash_page_info('r_k', block) p WHERE p.kind = 'primary') p,
     LATERAL (SELECT count(*) FILTER (WHERE run = lag_run AND lag_hash > hash) AS wrong
              FROM (SELECT hash, run, lag(run) OVER w AS lag_run, lag(hash) OVER w AS lag_hash
                    FROM lazyhash_page_entries('r_k', block) e,
                         LATERAL (SELECT (entry - p.sorted) / 64 AS run) x
                    WHERE entry >= p.sorted AND entry < p.sorted + 64 * p.sorted_runs
                    WINDOW w AS (ORDER BY entry)) e) e;
SELECT lazyhash_check('r_k', true);
DELETE FROM r WHERE k % 7 = 0;
VACUUM r;
SELECT lazyhash_check('r_k', true);
-- the ledger
SELECT ntuples = (SELECT sum(posted) FROM pages) AS posted,
       ntuples + (SELECT sum(pending) FROM pages) = (SELECT count(k) FROM t) AS pending
FROM lazyhash_metapage_info('t_k');
-- buckets one by one are the pages of their chains, and all together the figures of the index
SELECT count(*) FILTER (WHERE (b.pages, b.entries, b.pending, b.dead) IS DISTINCT FROM
                              (p.pages, p.entries, p.pending, p.dead)) AS buckets_that_differ,
       count(*) FILTER (WHERE b.state <> 'normal') AS not_normal,
       max(b.pages) > 1 AS has_overflow
FROM lazyhash_bucket_info('t_k') b
     LEFT JOIN (SELECT bucket, count(*) AS pages, sum(entries) AS entries, sum(pending) AS pending,
                       sum(dead) AS dead
                FROM pages WHERE kind IN ('primary', 'overflow') GROUP BY bucket) p USING (bucket);
SELECT s.buckets = m.maxbucket + 1 AS buckets, s.buckets = b.buckets AS all_listed,
       s.ffactor = m.ffactor AS ffactor, s.posted = m.ntuples AS posted,
       s.entries = b.entries AS entries, s.pending = b.pending AS pending,
       s.longest_chain = b.longest AS longest_chain,
       s.pages_per_lookup = b.pages_per_lookup AS pages_per_lookup
FROM lazyhash_stats('t_k') s, lazyhash_metapage_info('t_k') m,
     (SELECT count(*) AS buckets, sum(entries) AS entries, sum(pending) AS pending,
             max(pages) AS longest,
             sum(entries * pages)::float8 / sum(entries)::float8 AS pages_per_lookup
      FROM lazyhash_bucket_info('t_k')) b;
SELECT s.pages = p.pages AS pages, s.primary_pages = p.primary_pages AS primary_pages,
       s.overflow_pages = p.overflow_pages AS overflow_pages,
       s.free_pages = p.free_pages AS free_pages,
       1 + s.primary_pages + s.overflow_pages + s.free_pages + s.reserved_pages
         + s.unused_pages = s.pages AS sum
FROM lazyhash_stats('t_k') s,
     (SELECT count(*) AS pages, count(*) FILTER (WHERE kind = 'primary') AS primary_pages,
             count(*) FILTER (WHERE kind = 'overflow') AS overflow_pages,
             count(*) FILTER (WHERE kind = 'free') AS free_pages
      FROM pages) p;

-- dead entries
DELETE FROM t WHERE k = 100;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM t WHERE k = 100;
RESET enable_bitmapscan;
RESET enable_seqscan;
SELECT (SELECT dead FROM lazyhash_stats('t_k')) = (SELECT count(*) FROM entries WHERE dead) AS same,
       (SELECT dead FROM lazyhash_stats('t_k')) = (SELECT sum(dead) FROM pages) AS same,
       (SELECT count(*) FROM pages WHERE has_dead)
         = (SELECT count(DISTINCT block) FROM entries WHERE dead) AS same;
-- free pages, once VACUUM has been there
DELETE FROM t WHERE k = 7;
VACUUM t;
SELECT free_pages > 0 AS free, dead, entries = (SELECT count(k) FROM t) AS entries
FROM lazyhash_stats('t_k');
SELECT DISTINCT entries, posted, next_block FROM pages WHERE kind = 'free';

-- what cannot be asked
\set VERBOSITY terse
SELECT lazyhash_page_info('t_k', -1);
SELECT count(*) FROM lazyhash_page_entries('t_k', 5000000000);
\set VERBOSITY default
SELECT count(*) FROM lazyhash_page_entries('t_k', 0);
SELECT lazyhash_metapage_info('t');
CREATE INDEX t_btree ON t USING btree (k);
SELECT lazyhash_page_info('t_btree', 0);
SELECT count(*) FROM lazyhash_bucket_info('t_btree');
SELECT lazyhash_stats(0);
CREATE TABLE p (k int) PARTITION BY RANGE (k);
CREATE INDEX p_k ON p USING lazyhash (k);
SELECT lazyhash_stats('p_k');

-- who may ask
SELECT p.proname,
       has_function_privilege('pg_stat_scan_tables', p.oid, 'EXECUTE') AS pg_stat_scan_tables,
       has_function_privilege('pg_read_all_data', p.oid, 'EXECUTE') AS pg_read_all_data,
       has_function_privilege('pg_monitor', p.oid, 'EXECUTE') AS pg_monitor,
       EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0) AS everybody
FROM pg_proc p
WHERE p.proname ~ ('^lazyhash_(metapage_info|page_info|page_entries|bucket_info|stats'
                   || '|check|check_all)$')
ORDER BY 1;

SET client_min_messages = warning;
DROP SCHEMA inspect CASCADE;

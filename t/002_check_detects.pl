# lazyhash_check() finds each kind of damage, and says in which block it is.
#
# Many indexes are made on one table, in the same way.  The server is stopped,
# the file of each index is damaged in another way, and the server is started
# again.  Some of the changes are no damage but states that a crash may leave;
# these have to pass.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;
use LazyFile;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# ---- an index in memory, of class LazyFile ----

# The same entry for another row.
sub entry_for
{
	my ($entry, $block, $offset) = @_;
	return { %$entry, block => $block, offset => $offset };
}

# Adds an entry to the tail; the ledger knows of it.
sub append
{
	my ($pages, $block, $entry) = @_;
	my $n = $pages->count($block);

	die "page is full" if $n >= CAPACITY;
	$pages->set_entry($block, $n, $entry);
	$pages->set_count($block, $n + 1);
	$pages->set($block, 'posted', $pages->get($block, 'posted') + 1);
	$pages->set(0, 'ntuples', $pages->meta('ntuples') + 1);
	return;
}

# Takes the last entry away; the ledger knows of it.
sub remove_last
{
	my ($pages, $block) = @_;
	my $n = $pages->count($block) - 1;

	$pages->set_count($block, $n);
	$pages->set($block, 'nsorted', $n) if $pages->get($block, 'nsorted') > $n;
	$pages->set($block, 'nruns', 0);
	$pages->set($block, 'posted', $pages->get($block, 'posted') - 1);
	$pages->set(0, 'ntuples', $pages->meta('ntuples') - 1);
	return;
}

# The first block of which all this is true.
sub find
{
	my ($pages, $what, $wanted) = @_;

	foreach my $block (1 .. $pages->nblocks - 1)
	{
		return $block if $wanted->($block);
	}
	die "the index has no $what";
}

sub primary_of
{
	my ($pages, $bucket) = @_;
	return find($pages, "bucket $bucket",
		sub { $pages->kind($_[0]) == PRIMARY && $pages->get($_[0], 'bucket') == $bucket });
}

# Primary page of a bucket with no other page, with entries but not full.
sub lone_primary
{
	my ($pages) = @_;
	return find(
		$pages,
		'lone primary page',
		sub {
			$pages->kind($_[0]) == PRIMARY
			  && $pages->get($_[0], 'next') == NONE
			  && $pages->count($_[0]) > 10
			  && $pages->count($_[0]) < CAPACITY;
		});
}

# A damage to such a page: the field gets this value.
sub in_lone_primary
{
	my ($field, $value) = @_;

	return sub {
		my ($pages) = @_;
		my $block = lone_primary($pages);

		$pages->set($block, $field, $value);
		return $block;
	};
}

# Blocks of the longest chain.
sub long_chain
{
	my ($pages) = @_;
	my @longest;

	foreach my $block (grep { $pages->kind($_) == PRIMARY } 1 .. $pages->nblocks - 1)
	{
		my @chain = $pages->chain($block);
		@longest = @chain if @chain > @longest;
	}
	die "the index has no chain of three pages" if @longest < 3;
	return @longest;
}

sub page_of_kind
{
	my ($pages, $kind, $what) = @_;
	return find($pages, $what, sub { $pages->kind($_[0]) == $kind });
}

# The two primary pages of the last split.
sub last_split
{
	my ($pages) = @_;
	my $target = $pages->meta('maxbucket');
	my $top = 1;

	$top *= 2 while $top * 2 <= $target;
	return (primary_of($pages, $target - $top), primary_of($pages, $target));
}

# Makes the last split an unfinished one that has moved all entries, but has not
# noted down any progress.  Such a state is in order.
sub unfinish_split
{
	my ($pages) = @_;
	my ($source, $target) = last_split($pages);

	die "the source was split once more"
	  if $pages->get($source, 'stamp') != $pages->get($target, 'stamp');
	$pages->set($source, 'flags', $pages->get($source, 'flags') | BEING_SPLIT);
	$pages->set($source, 'split_next', $source);
	$pages->set($target, 'flags', $pages->get($target, 'flags') | BEING_POPULATED);
	return ($source, $target);
}

# As before, and the last entry of the target has not been moved yet.
sub unfinish_move
{
	my ($pages) = @_;
	my ($source, $target) = unfinish_split($pages);
	my $entry = $pages->entry($target, $pages->count($target) - 1);

	remove_last($pages, $target);
	append($pages, $source, $entry);
	return ($source, $target);
}

# ---- the cases ----

# Each: name, what it does to the index, which returns the block that the error
# has to name (nothing: no error), and what the error has to say.
# With "heap" the damage does not show without heapallindexed.
my @cases;

sub damage
{
	push @cases, { name => $_[0], edit => $_[1], says => $_[2] };
	return;
}

sub heap_damage
{
	push @cases, { name => $_[0], edit => $_[1], says => $_[2], heap => 1 };
	return;
}

sub harmless
{
	push @cases, { name => $_[0], edit => $_[1] };
	return;
}

harmless('nothing changed', sub { return; });

# the ledger
damage(
	'count in the metapage too high',
	sub { $_[0]->set(0, 'ntuples', $_[0]->meta('ntuples') + 1); return 0; },
	qr/counts \d+ entries, but the pages have posted/);
damage(
	'page has posted one less',
	sub {
		my $block = lone_primary($_[0]);
		$_[0]->set($block, 'posted', $_[0]->get($block, 'posted') - 1);
		return 0;
	},
	qr/counts \d+ entries, but the pages have posted/);
damage(
	'free page has posted',
	sub {
		my $block = page_of_kind($_[0], FREE, 'free page');
		$_[0]->set($block, 'posted', 3);
		return $block;
	},
	qr/free, but has posted 3 entries/);

# the metapage
damage(
	'magic number',
	sub {
		$_[0]->set(0, 'magic', 0x12345678);
		return 0;
	},
	qr/magic number/);
damage(
	'masks',
	sub {
		$_[0]->set(0, 'highmask', 0xFFFF);
		return 0;
	},
	qr/masks/);
damage(
	'bucket that does not exist counted',
	sub {
		my $new = $_[0]->meta('maxbucket') + 1;
		$_[0]->set(0, 'maxbucket', $new);
		return primary_of($_[0], $new - 128);
	},
	qr/has stamp \d+, but took part in the split that made bucket \d+/);
damage(
	'phases overlap',
	sub { $_[0]->set_phase_start(3, $_[0]->phase_start(2)); return 0; },
	qr/phase that does not begin behind the one before/);
damage(
	'phase beyond the end',
	sub {
		$_[0]->set_phase_start($_[0]->meta('nphases') - 1, 100_000);
		return 0;
	},
	qr/phase of bucket \d+ is to end before block 10000\d, but the index has/);
damage(
	'file too short',
	sub {
		$_[0]->shorten(40);
		return 0;
	},
	qr/is to end before block \d+, but the index has 40 blocks/);

# page headers and special areas
damage(
	'page id',
	in_lone_primary('page_id', 0xFF80),
	qr/mark of a lazyhash page/);
damage(
	'two kinds',
	in_lone_primary('flags', PRIMARY | FREE),
	qr/exactly one kind/);
damage(
	'unknown flag',
	in_lone_primary('flags', PRIMARY | 0x8000),
	qr/flags that are not known/);
damage(
	'kind of a primary page',
	in_lone_primary('flags', OVERFLOW),
	qr/primary page of bucket \d+ is to be here, but the page is of kind overflow/);
damage(
	'kind of an overflow page',
	sub {
		my $b = (long_chain($_[0]))[1];
		$_[0]->set($b, 'flags', PRIMARY);
		return $b;
	},
	qr/overflow page of bucket \d+ is to be here/);
damage(
	'number of a bucket',
	in_lone_primary('bucket', 77777),
	qr/but the page is that of bucket 77777/);
damage(
	'bucket of an overflow page',
	sub {
		my $b = (long_chain($_[0]))[1];
		$_[0]->set($b, 'bucket', 77777);
		return $b;
	},
	qr/but the page is of kind overflow, bucket 77777/);
damage(
	'prefix longer than page',
	in_lone_primary('nsorted', 800),
	qr/sorted entries are more/);
damage(
	'more runs than page has entries',
	in_lone_primary('nruns', 13),
	qr/sorted entries are more/);
damage(
	'run out of order',
	sub {
		my ($pages) = @_;
		my $block = find($pages, 'page with many entries',
			sub { $pages->kind($_[0]) == PRIMARY && $pages->get($_[0], 'nsorted') > 64 });

		# each of them a run of its own, in the order of the prefix, but for two
		$pages->set($block, 'nsorted', 0);
		$pages->set($block, 'nruns', 1);
		my $entry = $pages->entry($block, 62);
		$pages->set_entry($block, 62, $pages->entry($block, 63));
		$pages->set_entry($block, 63, $entry);
		return $block;
	},
	qr/Entry 63 .* after them 1 runs of 64 entries/);
damage(
	'end of entries',
	in_lone_primary('pd_lower', 24 + 15),
	qr/end of the entries/);
damage(
	'primary page of zeroes',
	sub {
		my $b = lone_primary($_[0]);
		$_[0]->set_page($b, "\0" x BLOCK);
		return $b;
	},
	qr/zeroes/);
damage(
	'stamp too large',
	in_lone_primary('stamp', 100_000),
	qr/stamp 100000, but the highest bucket is/);

# entries
damage(
	'prefix out of order',
	sub {
		my ($pages) = @_;
		my $block = find($pages, 'sorted page',
			sub { $pages->kind($_[0]) == PRIMARY && $pages->get($_[0], 'nsorted') > 5 });
		my $entry = $pages->entry($block, 2);
		$pages->set_entry($block, 2, $pages->entry($block, 3));
		$pages->set_entry($block, 3, $entry);
		return $block;
	},
	qr/Entry 3 .* does not sort after the entry before it/);
damage(
	'entry in another bucket',
	sub {
		my ($pages) = @_;
		my $to = lone_primary($pages);
		my $from = find($pages, 'other bucket',
			sub { $_[0] > $to && $pages->kind($_[0]) == PRIMARY && $pages->count($_[0]) > 0 });
		my $entry = $pages->entry($from, $pages->count($from) - 1);
		remove_last($pages, $from);
		append($pages, $to, $entry);
		return $to;
	},
	qr/Entry \d+ .* belongs to bucket \d+, but the page to bucket \d+/);
damage(
	'entry twice on a page',
	sub {
		my $block = lone_primary($_[0]);
		append($_[0], $block, $_[0]->entry($block, 0));
		return $block;
	},
	qr/is there twice/);
damage(
	'entry on two pages of a chain',
	sub {
		my ($pages) = @_;
		my @chain = long_chain($pages);
		append($pages, $chain[-1], $pages->entry($chain[0], 0));
		return $chain[-1];
	},
	qr/is there twice/);
damage(
	'row offset 0',
	sub {
		my $block = lone_primary($_[0]);
		append($_[0], $block, entry_for($_[0]->entry($block, 0), 0, 0));
		return $block;
	},
	qr/points to row \(0,0\), which cannot be/);
damage(
	'row offset too large',
	sub {
		my $block = lone_primary($_[0]);
		append($_[0], $block, entry_for($_[0]->entry($block, 0), 0, 2000));
		return $block;
	},
	qr/points to row \(0,2000\), which cannot be/);
damage(
	'row beyond the end of the table',
	sub {
		my $block = lone_primary($_[0]);
		append($_[0], $block, entry_for($_[0]->entry($block, 0), 60000, 1));
		return $block;
	},
	qr/points to row \(60000,1\), which cannot be/);

# chains
damage(
	'tail of a chain',
	sub {
		my @chain = long_chain($_[0]);
		$_[0]->set($chain[0], 'tail', $chain[1]);
		return $chain[0];
	},
	qr/ends at block \d+, but its tail link leads to block \d+/);
damage(
	'tail of a lone primary page',
	sub {
		my $block = lone_primary($_[0]);
		$_[0]->set($block, 'tail', (long_chain($_[0]))[1]);
		return $block;
	},
	qr/no page but its primary page, but its tail link leads to/);
damage(
	'chain runs in a circle',
	sub {
		my @chain = long_chain($_[0]);
		$_[0]->set($chain[-1], 'next', $chain[1]);
		return $chain[1];
	},
	qr/comes by this page twice/);
damage(
	'link beyond the end',
	sub {
		my $block = lone_primary($_[0]);
		$_[0]->set($block, 'next', 100_000);
		return $block;
	},
	qr/leads to block 100000/);
damage(
	'link to the metapage',
	sub {
		my $block = lone_primary($_[0]);
		$_[0]->set($block, 'next', 0);
		return $block;
	},
	qr/leads to block 0/);
damage(
	'link to a free page',
	sub {
		my $free = page_of_kind($_[0], FREE, 'free page');
		$_[0]->set(lone_primary($_[0]), 'next', $free);
		return $free;
	},
	qr/but the page is of kind free/);
damage(
	'link into another chain',
	sub {
		my @chain = long_chain($_[0]);
		$_[0]->set(lone_primary($_[0]), 'next', $chain[1]);
		return $chain[1];
	},
	qr/overflow page of bucket \d+ is to be here/);
damage(
	'link to a page of zeroes',
	sub {
		my $block = (long_chain($_[0]))[1];
		$_[0]->set_page($block, "\0" x BLOCK);
		return $block;
	},
	qr/zeroes/);
damage(
	'overflow page in no chain',
	sub {
		my ($pages) = @_;
		my @chain = long_chain($pages);
		$pages->set($chain[-2], 'next', NONE);
		$pages->set($chain[0], 'tail', $chain[-2]);
		$pages->set(0, 'ntuples',
			$pages->meta('ntuples') - $pages->get($chain[-1], 'posted'));
		return $chain[-1];
	},
	qr/overflow page says that it belongs to bucket \d+, but is not in that bucket's chain/);

# blocks outside chains
damage(
	'primary page outside phases',
	sub {
		my $block = page_of_kind($_[0], FREE, 'free page');
		$_[0]->set($block, 'flags', PRIMARY);
		return $block;
	},
	qr/lies in no phase, but the page is of kind primary/);
damage(
	'reserved page outside phases',
	sub {
		my $block = page_of_kind($_[0], FREE, 'free page');
		$_[0]->set($block, 'flags', RESERVED);
		return $block;
	},
	qr/lies in no phase, but the page is of kind reserved/);
damage(
	'reserved page lost',
	sub {
		my $block = page_of_kind($_[0], RESERVED, 'reserved page');
		$_[0]->set_page($block, "\0" x BLOCK);
		return $block;
	},
	qr/zeroes/);
damage(
	'free page in a phase',
	sub {
		my $block = page_of_kind($_[0], RESERVED, 'reserved page');
		$_[0]->set($block, 'flags', FREE);
		return $block;
	},
	qr/is to be reserved, but the page is of kind free/);
damage(
	'free page that has entries',
	sub {
		my $block = page_of_kind($_[0], FREE, 'free page');
		$_[0]->set_count($block, 1);
		return $block;
	},
	qr/belongs to no bucket but has entries/);
harmless(
	'blocks of zeroes at the end',
	sub {
		$_[0]->set_page($_[0]->nblocks, "\0" x BLOCK) for 1 .. 3;
		return;
	});

# splits
harmless('unfinished split', sub { unfinish_split($_[0]); return; });
harmless('unfinished split, entry not moved yet', sub { unfinish_move($_[0]); return; });
damage(
	'being split alone',
	sub {
		my ($source, $target) = unfinish_split($_[0]);
		$_[0]->set($target, 'flags', PRIMARY);
		return $target;
	},
	qr/takes part in a split with stamp \d+, but its partner, bucket \d+, does not/);
damage(
	'being populated alone',
	sub {
		my ($source, $target) = unfinish_split($_[0]);
		$_[0]->set($source, 'flags', PRIMARY);
		$_[0]->set($source, 'split_next', NONE);
		return $source;
	},
	qr/takes part in a split with stamp \d+, but its partner, bucket \d+, does not/);
damage(
	'being split and populated',
	sub {
		my ($source, $target) = last_split($_[0]);
		$_[0]->set($source, 'flags', PRIMARY | BEING_SPLIT | BEING_POPULATED);
		return $source;
	},
	qr/being split and being populated at once/);
damage(
	'stamp of before a split',
	sub {
		my ($source, $target) = unfinish_split($_[0]);
		$_[0]->set($source, 'stamp', $_[0]->get($source, 'bucket'));
		return $source;
	},
	qr/has stamp \d+, but took part in the split that made bucket \d+/);
damage(
	'split without a target',
	sub {
		my ($pages) = @_;
		my $max = $pages->meta('maxbucket');
		my $block = find($pages, 'bucket not split last',
			sub { $pages->kind($_[0]) == PRIMARY && $pages->get($_[0], 'stamp') < $max });
		$pages->set($block, 'flags', PRIMARY | BEING_SPLIT);
		$pages->set($block, 'split_next', $block);
		$pages->set($block, 'stamp', $max);
		return $block;
	},
	qr/is being split, but its stamp \d+ names no target/);
damage(
	'populated under another stamp',
	sub {
		my ($source, $target) = unfinish_split($_[0]);
		$_[0]->set($target, 'stamp', 5);
		return $target;
	},
	qr/but its partner, bucket \d+, does not|is being populated, but its stamp is 5/);
damage(
	'split goes on though there is none',
	sub {
		my $block = lone_primary($_[0]);
		$_[0]->set($block, 'split_next', $block);
		return $block;
	},
	qr/is not being split, but a split is to go on at block/);
damage(
	'split goes on outside the chain',
	sub {
		my ($source, $target) = unfinish_split($_[0]);
		$_[0]->set($source, 'split_next', $target);
		return $source;
	},
	qr/is to go on at block \d+, which is not in its chain/);
damage(
	'entry passed over by a split',
	sub {
		my ($source, $target) = unfinish_move($_[0]);
		my $free = page_of_kind($_[0], FREE, 'free page');

		# a second page, with which the split is to go on
		$_[0]->set($source, 'next', $free);
		$_[0]->set($source, 'tail', $free);
		$_[0]->set($source, 'split_next', $free);
		$_[0]->set($free, 'flags', OVERFLOW);
		$_[0]->set($free, 'bucket', $_[0]->get($source, 'bucket'));
		return $source;
	},
	qr/Entry \d+ .* belongs to bucket \d+, but the page to bucket/);

# the table
heap_damage(
	'entry lost',
	sub {
		my $block = lone_primary($_[0]);
		remove_last($_[0], $block);
		return $block;
	},
	qr/Row \(\d+,\d+\) of the table, hash [0-9a-f]{8}, has no live entry in bucket \d+/);
heap_damage(
	'entry of a visible row marked dead',
	sub {
		my $block = lone_primary($_[0]);
		my $last = $_[0]->count($block) - 1;
		$_[0]->set_entry($block, $last, { %{ $_[0]->entry($block, $last) }, dead => 1 });
		return $block;
	},
	qr/has no live entry in bucket/);
heap_damage(
	'entry that is not of its row',
	sub {
		my $block = lone_primary($_[0]);
		my $entry = $_[0]->entry($block, 0);
		append($_[0], $block, { %$entry, hash => $entry->{hash} ^ 0x80000000 });
		return $block;
	},
	qr/Entry \d+ .* points to row \(\d+,\d+\), whose key has hash/);

# ---- the run ----

my $node = PostgreSQL::Test::Cluster->new('main');
my ($major) = `pg_config --version` =~ /(\d+)/;
my @extra = $major >= 18 ? ('--no-data-checksums') : ();
$node->init(extra => \@extra);
$node->append_conf('postgresql.conf', "autovacuum = off\nmax_locks_per_transaction = 256\n");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION lazyhash;
	CREATE TABLE t (v int, w int);
	CREATE INDEX partial ON t USING lazyhash (v) WITH (fillfactor = 10) WHERE w = 0;
	CREATE INDEX nullable ON t USING lazyhash (w) WITH (fillfactor = 10);
});
my $indexes = join '',
  map { "CREATE INDEX i$_ ON t USING lazyhash (v) WITH (fillfactor = 10, batch = 8);\n" }
  0 .. $#cases;

# enough for phases of two blocks, for a chain of pages of equal keys, and, once
# half of these are gone, for free pages; w is NULL in rows that are "partial"'s
$node->safe_psql('postgres', $indexes . q{
	INSERT INTO t SELECT 7, 0 FROM generate_series(1, 6000);
	DELETE FROM t WHERE ctid IN (SELECT ctid FROM t WHERE v = 7 AND w = 0 ORDER BY ctid LIMIT 3000);
	VACUUM t;
	INSERT INTO t SELECT i, CASE WHEN i % 10 > 0 THEN i % 10 END FROM generate_series(1, 12000) i;
	INSERT INTO t VALUES (20000, 1);
});
# ... and for a bucket to come in a phase that there is
foreach my $more (1 .. 40)
{
	my $stats = $node->safe_psql('postgres',
		q{SELECT buckets > 128 AND reserved_pages > 0 FROM lazyhash_stats('i0')});
	last if $stats eq 't';
	$node->safe_psql('postgres',
		"INSERT INTO t SELECT i + 20000 + 60 * $more, 1 FROM generate_series(1, 60) i");
}
is($node->safe_psql('postgres', 'SELECT lazyhash_check_all(true)'), @cases + 2,
	'all indexes are in order at first');

my %file;
foreach my $index ((map { "i$_" } 0 .. $#cases), 'partial', 'nullable')
{
	$file{$index} = $node->data_dir . '/'
	  . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$index')");
}
# a row that "partial" leaves out and one whose w is NULL
my @outside = $node->safe_psql('postgres', 'SELECT ctid FROM t WHERE w = 1 LIMIT 1') =~ /\d+/g;
my @null = $node->safe_psql('postgres', 'SELECT ctid FROM t WHERE w IS NULL LIMIT 1') =~ /\d+/g;
$node->stop;

foreach my $i (0 .. $#cases)
{
	my $pages = LazyFile->read($file{"i$i"});
	$cases[$i]{block} = $cases[$i]{edit}->($pages);
	$pages->write($file{"i$i"});
}

# an entry for a row that the index does not cover
my %uncovered;
foreach ([ 'partial', @outside ], [ 'nullable', @null ])
{
	my ($index, $block, $offset) = @$_;
	my $pages = LazyFile->read($file{$index});
	my $page = find(
		$pages,
		'page with entries and room',
		sub {
			($pages->kind($_[0]) & (PRIMARY | OVERFLOW))
			  && $pages->count($_[0]) > 0
			  && $pages->count($_[0]) < CAPACITY;
		});
	append($pages, $page, entry_for($pages->entry($page, 0), $block, $offset));
	$uncovered{$index} = $page;
	$pages->write($file{$index});
}

$node->start;

# What the check says, in full; empty if it finds nothing.
sub check
{
	my ($index, $heapallindexed) = @_;
	my ($code, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nSELECT lazyhash_check('$index', $heapallindexed)");
	return $err;
}

sub is_found
{
	my ($err, $block, $says, $name) = @_;

	like($err, qr/XX002: index "\w+" is corrupted at block $block\n/, "$name: block");
	like($err, $says, "$name: what");
	like($err, qr/HINT: .*REINDEX/, "$name: what to do");
	return;
}

foreach my $i (0 .. $#cases)
{
	my $case = $cases[$i];
	my $name = $case->{name};

	if (!$case->{says})
	{
		is(check("i$i", 'false'), '', "$name: passes");
		is(check("i$i", 'true'), '', "$name: passes with heapallindexed");
		next;
	}
	is(check("i$i", 'false'), '', "$name: passes without heapallindexed") if $case->{heap};
	is_found(check("i$i", $case->{heap} ? 'true' : 'false'),
		$case->{block}, $case->{says}, $name);
}
is_found(check('partial', 'true'), $uncovered{partial},
	qr/which the index's predicate leaves out/, 'row outside the predicate');
is_found(check('nullable', 'true'), $uncovered{nullable},
	qr/whose key is NULL/, 'row with a NULL key');

# a backend that reads a damaged page raises an error, it does not crash
is($node->safe_psql('postgres', 'SELECT count(*) > 15000 FROM t'), 't', 'the server is alive');

# what the hint says helps
$node->safe_psql('postgres', 'REINDEX TABLE t');
is($node->safe_psql('postgres', 'SELECT lazyhash_check_all(true)'), @cases + 2,
	'all indexes are in order after REINDEX');

$node->stop;
done_testing();

# PageMutations: ways to damage the file of a lazyhash index, chosen by rand().
#
#     my $mutation = mutation($file, $stale);
#
# Both are of class LazyFile; $stale is the index as it was some time ago.  What comes back has
# the changed copy as "file", the "family" of the change, its "name", the "blocks" that it has to
# do with, and what is "expected" of lazyhash_check(): that it "must" complain, that it "never"
# may, or that it "may", because it depends on the rest of the page.

package PageMutations;

use strict;
use warnings;

use Exporter 'import';
use LazyFile;

our @EXPORT = qw(mutation map_mutation chance);

sub one_of { return $_[ int rand @_ ]; }
sub chance { return rand() < $_[0]; }
sub some_short { return one_of(0, 1, 0x7FFF, 0x8000, 0xFFFF, int rand(100), int rand(2**16)); }

sub some_number
{
	return one_of(0, 1, 2, 7, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, int rand(100), int rand(2**32));
}

# ---- one field ----

# Fields of a kind of page: name => sub that returns another value, what to expect, and a comment.
# "flags" and "header" are for any kind of page.

my %header = (
	# an LSN beyond the end of WAL is no affair of ours
	pd_lsn => sub { my ($file, $block) = @_; int rand($file->get($block, 'pd_lsn')), 'never' },
	pd_checksum => sub { some_short(), 'never' },
	pd_version => sub { some_short(), 'never' },
	pd_prune_xid => sub { some_number(), 'never' },
	pd_flags => sub { chance(0.5) ? (one_of(1, 2, 4, 7), 'never') : (8 << int rand(13), 'must') },
	pd_upper => sub { one_of(0, 1, 24, 0x1000, BLOCK, BLOCK - 8, some_short()), 'must' },
	pd_special => sub { one_of(0, 1, 24, 0x1000, BLOCK, BLOCK - 8, some_short()), 'must' },
	pd_lower => sub {
		my ($file, $block) = @_;
		my $lower = $file->get($block, 'pd_lower');

		return one_of(0, 1, 23, BLOCK, 0xFFFF, $lower + 1, $lower + 9), 'must'
		  if chance(0.4) || !($file->kind($block) & (PRIMARY | OVERFLOW));
		return $lower + 10 * one_of(-5, -2, -1, 1, 2, 5, 100, 400), 'may';
	},);

my @kinds = (META, PRIMARY, OVERFLOW, FREE, RESERVED);
my @unknown_flags = (0x20, 0x40, 0x80, 0x800, 0x1000, 0x2000, 0x4000, 0x8000);

sub other_flags
{
	my ($file, $block) = @_;
	my $flags = $file->get($block, 'flags');
	my $kind = $flags & KINDS;

	return @{ one_of(
		[ $flags ^ one_of(grep { $_ != $kind } @kinds), 'must' ],
		[ ($flags & ~KINDS) | one_of(@kinds), 'must' ],
		[ $flags & ~KINDS, 'must' ],
		[ $flags ^ one_of(@unknown_flags), 'must' ],
		[ $flags ^ BEING_SPLIT, 'must' ],
		[ $flags ^ BEING_POPULATED, 'must' ],
		[ $flags ^ BEING_POPULATED, 'must' ],
		[ $flags ^ HAS_DEAD, $kind == META ? 'must' : 'never' ]) };
}

# Another page to lead to, and what it is.
sub other_page
{
	my ($file, $block) = @_;
	my $bucket = $file->get($block, 'bucket');
	my @overflow = $file->blocks_of_kind(OVERFLOW);
	my @own = grep { $file->get($_, 'bucket') == $bucket } @overflow;
	my @others = grep { $file->get($_, 'bucket') != $bucket } @overflow;
	my ($page, $comment) = @{ one_of(
		[ $block, 'itself' ],
		[ 0, 'the metapage' ],
		[ one_of($file->blocks_of_kind(PRIMARY)), 'a primary page' ],
		[ one_of(@own), 'a page of its chain' ],
		[ one_of(@own), 'a page of its chain' ],
		[ one_of(@others), 'a page of another chain' ],
		[ one_of($file->blocks_of_kind(FREE)), 'a free page' ],
		[ one_of($file->blocks_of_kind(RESERVED)), 'a reserved page' ],
		[ $file->nblocks, 'the end of the file' ],
		[ $file->nblocks + 1000, 'far beyond the end' ],
		[ 0xFFFFFFFE, 'beyond any end' ],
		[ NONE, 'nowhere' ],
		[ int rand(2**32), 'anywhere' ]) };

	return $page, 'must', $comment;
}

sub is_splitting
{
	my ($file, $block) = @_;
	return $file->has($block, BEING_SPLIT) || $file->has($block, BEING_POPULATED);
}

# The maxbucket with which this bucket was last split, or created.
sub last_split
{
	my ($file, $bucket) = @_;
	my $last = $bucket;

	for (my $bit = 1; $bucket + $bit <= $file->meta('maxbucket'); $bit *= 2)
	{
		$last = $bucket + $bit if $bit > $bucket;
	}
	return $last;
}

my %bucket_page = (
	bucket => sub { some_number(), 'must' },
	next => \&other_page,
	posted => sub {
		my ($file, $block) = @_;
		my $posted = $file->get($block, 'posted');

		return one_of(-2147483648, 2147483647, map { $posted + $_ } -1, 1, 500, -100), 'must';
	},
	nsorted => sub {
		my ($file, $block) = @_;
		my $count = $file->count($block);
		my $nsorted = one_of(int rand($count + 1), $count, $count + 1, 0xFFFF);

		my $nruns = $file->get($block, 'nruns');

		return $nsorted, 'must' if $nsorted + RUN * $nruns > $count;
		# what a shorter prefix leaves out counts as tail; but runs begin elsewhere then
		return $nsorted, $nruns == 0 && $nsorted < $file->get($block, 'nsorted') ? 'never' : 'may';
	},
	nruns => sub {
		my ($file, $block) = @_;
		my $nruns = $file->get($block, 'nruns');
		my $whole = int(($file->count($block) - $file->get($block, 'nsorted')) / RUN);
		my $changed = one_of(int rand($whole + 1), $whole + 1, 0xFFFF);

		return $changed, 'must' if $changed > $whole;
		return $changed, $changed <= $nruns ? 'never' : 'may';
	},
	version => sub { some_number(), 'never' },
	deletions => sub { some_number(), 'never' },
	flags => \&other_flags,
	page_id => sub { some_short(), 'must' },);

my %primary_page = (
	%bucket_page,
	tail => \&other_page,
	split_next => sub {
		my ($file, $block) = @_;
		my ($page, $expected, $comment) = other_page($file, $block);

		return $page, is_splitting($file, $block) ? 'may' : $expected, $comment;
	},
	stamp => sub {
		my ($file, $block) = @_;
		my $max = $file->meta('maxbucket');
		my $last = last_split($file, $file->get($block, 'bucket'));
		my $stamp = one_of($max, $max + 1, $last, $last > 0 ? $last - 1 : 0, some_number());

		# a later one only makes look-ups refresh their copy of the metapage
		return $stamp,
		  $stamp < $last || $stamp > $max || is_splitting($file, $block) ? 'must' : 'may';
	},);

my %overflow_page = (
	%bucket_page,
	map { $_ => sub { some_number(), 'never' } } qw(tail stamp split_next));

# A page that belongs to no bucket.
my %idle_page = (
	(map { $_ => sub { some_number(), 'never' } }
		  qw(bucket next tail stamp version deletions split_next)),
	posted => sub { one_of(1, -1, 500), 'must' },
	nsorted => sub { one_of(1, 100, 0xFFFF), 'must' },
	nruns => sub { one_of(1, 100, 0xFFFF), 'must' },
	flags => \&other_flags,
	page_id => sub { some_short(), 'must' },);

my %metapage = (
	(map { $_ => sub { some_number(), 'must' } } qw(magic meta_version features highmask lowmask)),
	ffactor => sub {
		return 1 + int rand(CAPACITY), 'never' if chance(0.5);
		return one_of(0, CAPACITY + 1, 0xFFFFFFFF), 'must';
	},
	ntuples => sub {
		my ($file) = @_;
		my $ntuples = $file->meta('ntuples');

		return one_of(9223372036854775807, -9223372036854775807, 2**60, -1e12, 2**48 - 1,
			map { $ntuples + $_ } -1, 1, -100, 100), 'must';
	},
	maxbucket => sub {
		my $max = $_[0]->meta('maxbucket');
		return one_of($max - 1, $max + 1, $max + 2, 0, some_number()), 'must';
	},
	nphases => sub {
		my $nphases = $_[0]->meta('nphases');
		return one_of($nphases - 1, $nphases + 1, 0, some_number()), 'must';
	},
	flags => \&other_flags,
	page_id => sub { some_short(), 'must' },);

# Which fields of which kind of page, the more interesting ones more often.
my %fields = (
	primary => [ \%primary_page,
		qw(bucket next next next tail tail stamp stamp version deletions posted split_next
		  split_next nsorted nsorted nruns flags flags flags page_id header header) ],
	overflow => [ \%overflow_page,
		qw(bucket next next next tail stamp version deletions posted split_next nsorted nruns flags
		  flags page_id header) ],
	idle => [ \%idle_page,
		qw(bucket next tail stamp version deletions split_next posted nsorted nruns flags flags
		  page_id header) ],
	meta => [ \%metapage,
		qw(magic meta_version features ffactor ntuples ntuples maxbucket maxbucket highmask lowmask
		  nphases phase_start phase_start page_id flags header) ],);

# Sets a field to another value.  These functions return what they did, what to expect, and the
# blocks that it has to do with; nothing, if there is nothing to change.
sub change_field
{
	my ($file, $kind, $block) = @_;
	my ($values, @names) = @{ $fields{$kind} };
	my $field = one_of(@names);

	return if $file->is_zeroes($block);
	return change_phase_start($file) if $field eq 'phase_start';
	if ($field eq 'header')
	{
		$values = \%header;
		$field = one_of(sort(keys %header), 'pd_lower', 'pd_lower');
	}
	my ($value, $expected, $comment) = $values->{$field}->($file, $block);
	my $was = $file->get($block, $field);
	return if !defined $value || $value == $was;
	$file->set($block, $field, $value);
	return ("$field from $was to $value" . (defined $comment ? " ($comment)" : ''),
		$expected, $block);
}

sub change_phase_start
{
	my ($file) = @_;
	my $nphases = $file->meta('nphases');
	my $phase = chance(0.2) ? $nphases + int rand(100) : int rand($nphases);
	my $was = $file->phase_start($phase);
	my $start = one_of($was + 1, $was + 2, $was > 0 ? $was - 1 : 0, $file->nblocks, some_number());

	return if $start == $was;
	$file->set_phase_start($phase, $start);
	return ("phase_start[$phase] from $was to $start", $phase < $nphases ? 'must' : 'never', 0);
}

# ---- entries ----

# How an entry can be changed, and what to expect.  Where it depends on whether there is a row that
# anybody sees, the check may find it.
my %entry_changes = (
	'hash of another bucket' => sub {
		my ($file, $entry) = @_;
		my $bucket = $file->bucket_of($entry->{hash});

		$entry->{hash} ^= 1 << int rand(4) while $file->bucket_of($entry->{hash}) == $bucket;
		# while the bucket is being split, it may hold entries of its partner
		return $file->bucket_of($entry->{hash}) == last_split($file, $bucket) ? 'may' : 'must';
	},
	'another hash' => sub { $_[1]{hash} ^= 1 << 12 + int rand(20); 'may' },
	'offset 0' => sub { $_[1]{offset} = 0; 'must' },
	'offset of no row' => sub { $_[1]{offset} = one_of(292, 2048, 0x7FFF); 'must' },
	'another offset' => sub { $_[1]{offset} = 1 + int rand(291); 'may' },
	'another table block' => sub { $_[1]{block} = int rand(60); 'may' },
	'beyond the table' => sub { $_[1]{block} = 100_000 + int rand(30000); 'must' },
	'far beyond the table' => sub {
		$_[1]{block} = one_of(0xFFFFFFFF, 0xFFFFFFFE, 0x10000000);
		return 'must';
	},
	'dead bit' => sub { $_[1]{dead} ^= 1; $_[1]{dead} ? 'may' : 'never' },
	'row of another entry' => sub {
		my ($file, $entry, $other) = @_;
		$entry->{$_} = $other->{$_} foreach qw(block offset);
		return 'may';
	},
	'same as another entry' => sub {
		my ($file, $entry, $other) = @_;
		$entry->{$_} = $other->{$_} foreach qw(hash block offset);
		return 'must';
	},);

sub change_entry
{
	my ($file, $block) = @_;
	my $count = $file->count($block);
	return if $count < 2;
	my $position = int rand($count);
	my $other = one_of(grep { $_ != $position } 0 .. $count - 1);

	return swap_entries($file, $block, $position, $other) if chance(0.1);
	my $entry = $file->entry($block, $position);
	my $what = one_of(sort(keys %entry_changes), 'dead bit');
	my $expected = $entry_changes{$what}->($file, $entry, $file->entry($block, $other));

	$file->set_entry($block, $position, $entry);
	return ("entry $position: $what", $expected, $block);
}

sub swap_entries
{
	my ($file, $block, $one, $other) = @_;
	my $nsorted = $file->get($block, 'nsorted');
	my $unsorted = $nsorted + RUN * $file->get($block, 'nruns');
	my $entry = $file->entry($block, $one);
	my $expected = 'never';

	$file->set_entry($block, $one, $file->entry($block, $other));
	$file->set_entry($block, $other, $entry);
	# in a run, which is short, one may fit in the other's place
	$expected = 'may' if $one < $unsorted || $other < $unsorted;
	$expected = 'must' if $one < $nsorted || $other < $nsorted;
	return ("entries $one and $other swapped, $nsorted sorted", $expected, $block);
}

# Fills up the page with entries that bear the dead bit, so that the next insert asks the table
# whether their rows are dead indeed.
sub fill_with_dead
{
	my ($file, $block) = @_;
	my $count = $file->count($block);
	my $what = one_of('rows that are not dead', 'no line pointer', 'no block', 'offset 0');

	return if $count < 2;
	foreach my $position (($count < CAPACITY - 20 ? $count : CAPACITY - 20) .. CAPACITY - 1)
	{
		my $entry = $file->entry($block, int rand($count));

		$entry->{dead} = 1;
		$entry->{offset} = 250 + int rand(40) if $what eq 'no line pointer';
		$entry->{offset} = 0 if $what eq 'offset 0';
		$entry->{block} = one_of(10_000, 0x10000000, 0xFFFFFFFE) if $what eq 'no block';
		$file->set_entry($block, $position, $entry);
	}
	$file->set($block, 'pd_lower', 24 + 10 * CAPACITY);
	$file->set($block, 'flags', $file->get($block, 'flags') | HAS_DEAD);
	# a row that nobody sees is nothing that the check minds
	return ("filled with dead entries: $what", $what eq 'no line pointer' ? 'may' : 'must', $block);
}

# ---- families ----

# A field, or an entry, of a page of a certain kind.
sub change_something
{
	my ($file) = @_;
	my $kind = one_of(qw(meta primary primary overflow overflow free reserved zeroes split split
		  entry entry entry dead));
	my @primary = $file->blocks_of_kind(PRIMARY);
	my @overflow = $file->blocks_of_kind(OVERFLOW);
	my %blocks = (
		meta => [0],
		primary => \@primary,
		overflow => \@overflow,
		free => [ $file->blocks_of_kind(FREE) ],
		reserved => [ $file->blocks_of_kind(RESERVED) ],
		zeroes => [ $file->blocks_of_kind(0) ],
		split => [ grep { is_splitting($file, $_) } @primary ],
		entry => chance(0.5) ? \@primary : \@overflow,
		dead => chance(0.5) ? \@primary : \@overflow,);
	my $block = one_of(@{ $blocks{$kind} });
	my %as = (split => 'primary', free => 'idle', reserved => 'idle');

	return if !defined $block;
	my @change =
		$kind eq 'entry' ? change_entry($file, $block)
	  : $kind eq 'dead' ? fill_with_dead($file, $block)
	  : $kind eq 'zeroes' ? change_zeroes($file, $block)
	  : change_field($file, $as{$kind} // $kind, $block);
	$change[0] = "$kind page $block: $change[0]" if @change;
	return @change;
}

# Of a block that is kept for a bucket to come.
sub change_zeroes
{
	my ($file, $block) = @_;

	$file->patch($block, int rand(BLOCK), chr(1 + int rand(255)));
	return ('a byte of zeroes', 'must', $block);
}

# Some bytes anywhere, but for the page's LSN.
sub change_bytes
{
	my ($file) = @_;
	my $block = chance(0.1) ? 0 : int rand($file->nblocks);
	my $lower = $file->get($block, 'pd_lower');
	my $end = $lower > 25 && $lower < BLOCK ? $lower : BLOCK;
	my ($from, $to) = @{ one_of([ 8, 24 ], [ 24, $end ], [ 24, $end ], [ BLOCK - 40, BLOCK ],
		[ 8, BLOCK ]) };
	my $n = one_of(1, 1, 1, 2, 4, 16);
	my $offset = $from + int rand($to - $from);
	my $bytes = substr(join('', map { chr int rand(256) } 1 .. $n), 0, BLOCK - $offset);
	my $was = $file->page($block);

	$file->patch($block, $offset, $bytes);
	return if $file->page($block) eq $was;
	return ("block $block: bytes at $offset: " . unpack('H*', $bytes), 'may', $block);
}

# A page that was not written when it should have been, or only some of its sectors.
sub lose_write
{
	my ($file, $stale) = @_;
	my @blocks = grep { $_ < $stale->nblocks && $stale->page($_) ne $file->page($_) }
	  0 .. $file->nblocks - 1;
	return if !@blocks;
	my $block = one_of(@blocks);
	my $sectors = BLOCK / 512;
	my $first = int rand($sectors);
	my $n = chance(0.5) ? $sectors - $first : 1 + int rand($sectors - $first);
	my $was = $file->page($block);

	($first, $n) = (0, $sectors) if chance(0.4);
	$file->patch($block, 512 * $first, substr($stale->page($block), 512 * $first, 512 * $n));
	return if $file->page($block) eq $was;
	return ("block $block: $n sectors from $first as they were before", 'may', $block);
}

sub garbage { return join('', map { pack 'L', int rand(2**32) } 1 .. BLOCK / 4); }

sub kind_of
{
	my ($file, $block) = @_;
	return $block == 0 ? META : $file->kind($block);
}

sub overwrite_page
{
	my ($file) = @_;
	my $block = int rand($file->nblocks);
	my $kind = kind_of($file, $block);

	if (chance(0.7))
	{
		return if $kind == 0;
		$file->set_page($block, "\0" x BLOCK);
		return ("block $block, of kind $kind: zeroes", $kind == FREE ? 'never' : 'must', $block);
	}
	$file->set_page($block, garbage());
	return ("block $block: garbage", 'must', $block);
}

# One page in place of another.
sub confuse_pages
{
	my ($file) = @_;
	my ($block, $other) = (int rand($file->nblocks), int rand($file->nblocks));
	my ($kind, $other_kind) = (kind_of($file, $block), kind_of($file, $other));
	my $page = $file->page($block);
	my $swap = chance(0.7);
	my $used = META | PRIMARY | OVERFLOW | RESERVED;
	my $must = $kind != $other_kind && ($kind & $used || $swap && $other_kind & $used);

	return if $page eq $file->page($other);
	$file->set_page($block, $file->page($other));
	$file->set_page($other, $page) if $swap;
	return ("blocks $block and $other, of kinds $kind and $other_kind: "
		  . ($swap ? 'swap' : 'copy'),
		$must ? 'must' : 'may', $block, $other);
}

sub change_length
{
	my ($file) = @_;
	my $nblocks = $file->nblocks;

	if (chance(0.6))
	{
		my $left = chance(0.1) ? 0 : chance(0.3) ? $nblocks - 1 : 1 + int rand($nblocks - 1);

		$file->shorten($left);
		return ("cut to $left blocks", 'may', $left);
	}
	if (chance(0.5))
	{
		push @{ $file->{pages} }, "\0" x BLOCK;
		return ('zeroes at the end', 'never', $nblocks);
	}
	push @{ $file->{pages} }, garbage();
	return ('garbage at the end', 'must', $nblocks);
}

my %families = (
	field => [ \&change_something ],
	bytes => [ \&change_bytes ],
	'lost write' => [ \&lose_write ],
	pages => [ \&overwrite_page, \&confuse_pages, \&change_length ],);

sub mutation
{
	my ($original, $stale) = @_;

	for (;;)
	{
		my $family = one_of('field', 'field', 'field', 'bytes', 'bytes', 'lost write', 'pages');
		my $file = $original->copy;
		my ($name, $expected, @blocks) = one_of(@{ $families{$family} })->($file, $stale);

		return {
			file => $file,
			family => $family,
			name => $name,
			expected => $expected,
			blocks => \@blocks
		  } if defined $name;
	}
	return;
}

# The index as it is, and a free space map that does not go with it.
sub map_mutation
{
	my ($file, $map) = @_;
	my $changed = $map->copy;
	my $name = one_of('all blocks are free', 'random', 'garbage');

	foreach my $block (0 .. $changed->nblocks - 1)
	{
		# after the header and the slot to go on with, a byte for each node
		$changed->patch($block, 28, "\xFF" x (BLOCK - 28)) if $name eq 'all blocks are free';
		$changed->patch($block, 28, substr(garbage(), 28)) if $name eq 'random';
		$changed->set_page($block, garbage()) if $name eq 'garbage';
	}
	return {
		file => $file->copy,
		map => $changed,
		family => 'map',
		name => "free space map: $name",
		expected => 'never',
		blocks => []
	};
}

1;

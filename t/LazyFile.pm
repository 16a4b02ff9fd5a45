# LazyFile: the file of a lazyhash index, as a list of pages that can be looked at
# and changed.  The server must not have any of them in memory, or must be down.
#
#     my $file = LazyFile->read($name);
#     $file->set($block, 'next', 7);
#     $file->write($name);

package LazyFile;

use strict;
use warnings;

use Exporter 'import';

use constant {
	BLOCK => 8192,
	NONE => 0xFFFFFFFF,
	CAPACITY => int((8192 - 40 - 24) / 10),
	RUN => 64,

	META => 0x01,
	PRIMARY => 0x02,
	OVERFLOW => 0x04,
	FREE => 0x08,
	RESERVED => 0x10,
	KINDS => 0x1F,
	BEING_SPLIT => 0x100,
	BEING_POPULATED => 0x200,
	HAS_DEAD => 0x400,
};

our @EXPORT = qw(BLOCK NONE CAPACITY RUN META PRIMARY OVERFLOW FREE RESERVED KINDS BEING_SPLIT
  BEING_POPULATED HAS_DEAD);

# name => [ offset, format ], from the start of the page
my %field = (
	pd_lsn => [ 4, 'L' ],			# the lower half
	pd_checksum => [ 8, 'S' ],
	pd_flags => [ 10, 'S' ],
	pd_lower => [ 12, 'S' ],
	pd_upper => [ 14, 'S' ],
	pd_special => [ 16, 'S' ],
	pd_version => [ 18, 'S' ],
	pd_prune_xid => [ 20, 'L' ],

	bucket => [ BLOCK - 40, 'L' ],
	next => [ BLOCK - 36, 'L' ],
	tail => [ BLOCK - 32, 'L' ],
	stamp => [ BLOCK - 28, 'L' ],
	version => [ BLOCK - 24, 'L' ],
	deletions => [ BLOCK - 20, 'L' ],
	posted => [ BLOCK - 16, 'l' ],
	split_next => [ BLOCK - 12, 'L' ],
	nsorted => [ BLOCK - 8, 'S' ],
	nruns => [ BLOCK - 6, 'S' ],
	flags => [ BLOCK - 4, 'S' ],
	page_id => [ BLOCK - 2, 'S' ],

	magic => [ 24, 'L' ],
	meta_version => [ 28, 'L' ],
	features => [ 32, 'L' ],
	ffactor => [ 36, 'L' ],
	ntuples => [ 40, 'q' ],
	maxbucket => [ 48, 'L' ],
	highmask => [ 52, 'L' ],
	lowmask => [ 56, 'L' ],
	nphases => [ 60, 'L' ],);

sub read
{
	my ($class, $name) = @_;
	open(my $in, '<:raw', $name) or die "could not open $name: $!";
	local $/ = undef;
	my $bytes = <$in>;
	close $in;
	return bless { pages => [ unpack('(a' . BLOCK . ')*', $bytes) ] }, $class;
}

sub write
{
	my ($self, $name) = @_;
	open(my $out, '+<:raw', $name) or die "could not open $name: $!";
	print $out @{ $self->{pages} };
	truncate($out, BLOCK * @{ $self->{pages} }) or die "could not truncate $name: $!";
	close $out or die "could not write $name: $!";
	return;
}

sub copy
{
	my ($self) = @_;
	return bless { pages => [ @{ $self->{pages} } ] }, ref $self;
}

sub nblocks { return scalar @{ $_[0]{pages} }; }
sub page { return $_[0]{pages}[ $_[1] ]; }

sub set_page
{
	my ($self, $block, $page) = @_;
	die 'not a page' if length $page != BLOCK;
	$self->{pages}[$block] = $page;
	return;
}

# Leaves only so many blocks.
sub shorten
{
	my ($self, $nblocks) = @_;
	splice(@{ $self->{pages} }, $nblocks);
	return;
}

# ---- fields ----

sub field_offset { return $field{ $_[1] }[0]; }
sub field_width { return length pack($field{ $_[1] }[1], 0); }

sub get
{
	my ($self, $block, $name) = @_;
	return unpack($field{$name}[1], substr($self->{pages}[$block], $field{$name}[0]));
}

sub set
{
	my ($self, $block, $name, $value) = @_;
	return $self->patch($block, $field{$name}[0], pack($field{$name}[1], $value));
}

sub patch
{
	my ($self, $block, $offset, $bytes) = @_;
	substr($self->{pages}[$block], $offset, length $bytes) = $bytes;
	return;
}

# ---- the metapage ----

sub meta { return $_[0]->get(0, $_[1]); }

sub phase_start
{
	my ($self, $phase) = @_;
	return unpack('L', substr($self->{pages}[0], 64 + 4 * $phase));
}

sub set_phase_start
{
	my ($self, $phase, $block) = @_;
	return $self->patch(0, 64 + 4 * $phase, pack('L', $block));
}

# ---- bucket pages ----

sub is_zeroes { return $_[0]{pages}[ $_[1] ] eq "\0" x BLOCK; }
sub kind { return $_[0]->is_zeroes($_[1]) ? 0 : $_[0]->get($_[1], 'flags') & KINDS; }
sub count { return int(($_[0]->get($_[1], 'pd_lower') - 24) / 10); }

sub set_count
{
	my ($self, $block, $count) = @_;
	return $self->set($block, 'pd_lower', $self->entry_offset($count));
}

sub blocks_of_kind
{
	my ($self, $kind) = @_;
	return grep { $self->kind($_) == $kind } 1 .. $self->nblocks - 1;
}

sub has
{
	my ($self, $block, $flag) = @_;
	return ($self->get($block, 'flags') & $flag) != 0;
}

# Blocks of the chain that begins with this primary page.
sub chain
{
	my ($self, $block) = @_;
	my @chain = ($block);
	push @chain, $self->get($chain[-1], 'next') while $self->get($chain[-1], 'next') != NONE;
	return @chain;
}

# ---- entries ----

sub entry_offset { return 24 + 10 * $_[1]; }

sub entry
{
	my ($self, $block, $position) = @_;
	my ($hash, $high, $low, $offset) =
	  unpack('LSSS', substr($self->{pages}[$block], $self->entry_offset($position), 10));
	return {
		hash => $hash,
		block => $high << 16 | $low,
		offset => $offset & 0x7FFF,
		dead => $offset >> 15
	};
}

sub set_entry
{
	my ($self, $block, $position, $entry) = @_;
	return $self->patch(
		$block,
		$self->entry_offset($position),
		pack('LSSS',
			$entry->{hash}, $entry->{block} >> 16,
			$entry->{block} & 0xFFFF, $entry->{offset} | $entry->{dead} << 15));
}

# All that the page holds.
sub entries
{
	my ($self, $block) = @_;
	my $count = $self->count($block);

	$count = 0 if $count < 0;
	$count = CAPACITY if $count > CAPACITY;
	return map { $self->entry($block, $_) } 0 .. $count - 1;
}

sub bucket_of
{
	my ($self, $hash) = @_;
	my $bucket = $hash & $self->meta('highmask');
	return $bucket <= $self->meta('maxbucket') ? $bucket : $bucket & $self->meta('lowmask');
}

1;

# Whatever is wrong with a page of an index, the server says so or gives the right answer; it does
# not crash, loop or hang.  And what lazyhash_check() lets pass is harmless.
#
# CorruptPages.pm says how, and what is accepted.  scripts/corrupt-pages.sh runs this with more:
#
#     LAZYHASH_MUTATIONS          how many changes to make
#     LAZYHASH_MUTATION_SEED      which ones
#     LAZYHASH_MUTATION_NUMBERS   only these of them, to see again what a run has found
#     LAZYHASH_MUTATION_VERBOSE   tell of each, in the log

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CorruptPages;
use PostgreSQL::Test::Utils;
use Test::More;

my $mutations = $ENV{LAZYHASH_MUTATIONS} // 100;
my $test = CorruptPages->new(
	seed => $ENV{LAZYHASH_MUTATION_SEED} // 1,
	numbers => $ENV{LAZYHASH_MUTATION_NUMBERS},
	verbose => $ENV{LAZYHASH_MUTATION_VERBOSE});

$test->run($mutations);
diag($test->summary);
is(scalar(@{ $test->{failures} }), 0, "$mutations mutations are found or harmless");
diag(join("\n", @{ $test->{failures} })) if @{ $test->{failures} };

my $log = slurp_file($test->{node}->logfile);
my @bad = grep { /TRAP: |PANIC: |was terminated by signal/ } split /\n/, $log;
is(join("\n", @bad), '', 'no crash in the log');
if (!$ENV{LAZYHASH_MUTATION_NUMBERS})
{
	cmp_ok($test->{tally}{all}{harmless} // 0, '>', 0, 'some were harmless');
	cmp_ok($test->{tally}{all}{'found, errors'} // 0, '>', 0, 'some made operations fail');
}

$test->{node}->stop;
done_testing();

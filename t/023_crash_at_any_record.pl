# After a crash at the end of any WAL record the indexes are right, and go on.
#
# CrashAtAnyRecord.pm says how.  Of the many thousand records a few of each kind
# are chosen here; scripts/crash-at-any-record.sh runs this with more of them.
#
#     CRASH_MODES        which WAL records to write, of: generic custom mixed
#     CRASH_BOUNDARIES   how many records of each mode to crash at, 0 for all
#     CRASH_WORKERS      how many recoveries to run at a time

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;

use CrashAtAnyRecord;
use PostgreSQL::Test::Utils;
use Test::More;

my @modes = split(' ', $ENV{CRASH_MODES} // 'generic custom mixed');
my $boundaries = $ENV{CRASH_BOUNDARIES} // 36;
my $workers = $ENV{CRASH_WORKERS} // 2;

foreach my $mode (@modes)
{
	my $recording = CrashAtAnyRecord->record(mode => $mode);
	my $counts = $recording->counts;

	diag("$mode: " . join(', ', map { "$counts->{$_} $_" } sort keys %$counts));
	is_deeply([ $recording->missing_kinds ], [], "$mode: every kind of record was written");

	my @chosen = $recording->choose($boundaries);
	my @failures = $recording->recover_all(\@chosen, $workers);
	is(scalar(@failures), 0, "$mode: right after a crash at each of " . @chosen . " records");
	diag(join("\n", splice(@failures, 0, 5))) if @failures;
	diag(sprintf('%s: %d recoveries in %.0f s', $mode, scalar(@chosen), $recording->{seconds}));

	@failures = $recording->walk_standby(\@chosen);
	is(scalar(@failures), 0, "$mode: a standby answers right at each record");
	diag(join("\n", @failures)) if @failures;
	cmp_ok($recording->{walked}, '>', @chosen / 2, "$mode: tables are seldom locked at a record");
	diag(sprintf('%s: a standby answered at %d records, in %.0f s',
			$mode, $recording->{walked}, $recording->{seconds}));
}

done_testing();

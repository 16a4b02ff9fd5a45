#!/usr/bin/env bash
#
# Runs scripts/test.sh on every version of PostgreSQL that lazyhash supports, and prints a table.
#
#     scripts/test-all-versions.sh [OPTION]... [VERSION]... [-- ARGUMENT...]
#
#     --brief        all tests on the first version; on the others only regress, isolation and a
#                    few that depend on the server most: WAL, standbys, logical replication
#     --chroots DIR  keep the chroots there, and use those that are there already; otherwise they
#                    are made in a temporary directory and removed
#     --seconds N    end in that time: what has not been tested by then is skipped
#     VERSION        15, 16, 17, 18, 19, or "upgrade" for scripts/test-upgrade.sh from 18 to 19;
#                    without any, all of these
#     ARGUMENT       for scripts/test.sh; without any, it runs all tests
#
# A version that is installed on this machine is tested on it.  The others are installed into
# chroots, made by debootstrap, of those releases of Debian that have them: 15 is in bookworm, 17 in
# trixie, 18 in sid, 19 in experimental, which goes on top of sid; 16 is in none.  The mirror is
# MIRROR or, by default, the one that the machine's own apt is configured with.  Needs root.
#
# A version that cannot be had is reported as skipped.  The exit status is 0 if nothing failed and
# at least one version passed.  The last line is "N passed, N failed", the sum of all tests.

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

all_versions=("${supported_majors[@]}" upgrade)
declare -A suite_of=(
	[15]=bookworm [16]=none [17]=trixie [18]=sid [19]=sid [upgrade]=sid
)
declare -A packages_of=(
	[bookworm]="postgresql-15 postgresql-server-dev-15"
	[trixie]="postgresql-17 postgresql-server-dev-17"
	[sid]="postgresql-18 postgresql-server-dev-18 postgresql-19 postgresql-server-dev-19"
)
test_packages="gcc make libc6-dev perl libipc-run-perl tar util-linux binutils"
source_in_chroot=/lazyhash

brief_arguments=(regress isolation t/020_wal_modes.pl t/022_standby.pl t/040_logical_full.pl
	t/041_format_version.pl)

versions=()
test_arguments=()
brief=
chroots=
seconds=
keep_chroots=
declare -A maker=()				# suite => process that makes its chroot
rows=()
failed=0						# versions
passed=0
good_tests=0
bad_tests=0

usage()
{
	sed -n '3,/^$/{s/^#$//;s/^# //;p}' "${BASH_SOURCE[0]}" >&2
	exit 2
}

parse_arguments()
{
	while [ $# -gt 0 ]; do
		case $1 in
			--chroots) chroots=${2:?--chroots needs a directory}; keep_chroots=yes; shift 2 ;;
			--brief) brief=yes; shift ;;
			--seconds) seconds=${2:?--seconds needs a number}; shift 2 ;;
			--) shift; test_arguments=("$@"); break ;;
			*) [ -n "${suite_of[$1]:-}" ] || usage; versions+=("$1"); shift ;;
		esac
	done
	[ -z "$seconds" ] || [[ $seconds =~ ^[0-9]+$ ]] || usage
	[ ${#versions[@]} -gt 0 ] || versions=("${all_versions[@]}")
}

# Prints how many seconds are left; many when there is no limit.
time_left()
{
	echo $((${seconds:-1000000} - SECONDS))
}

# ---- chroots ----

# The mounts are made in a mount namespace of this script's own, so they are gone with its last
# process, whatever ends it.
enter_namespace()
{
	[ "$(id -u)" -eq 0 ] && [ -z "${LAZYHASH_NAMESPACE:-}" ] || return 0
	unshare --mount true 2>/dev/null || return 0
	LAZYHASH_NAMESPACE=yes exec unshare --mount --propagation private -- "${BASH_SOURCE[0]}" "$@"
}

# Prints the mirror to install Debian from; nothing when apt knows none.
default_mirror()
{
	# shellcheck disable=SC2016	# apt replaces these
	apt-get indextargets --format '$(LABEL)|$(SITE)' 'Created-By: Packages' 2>/dev/null |
		awk -F '|' '$1 == "Debian" && !found { found = 1; print $2 }'
}

# Why no chroot can be made here; nothing when it can.
chroot_problem()
{
	if [ "$(id -u)" -ne 0 ]; then
		echo "needs root"
	elif [ -z "${LAZYHASH_NAMESPACE:-}" ]; then
		echo "may not mount anything here"
	elif [ -z "${MIRROR:=$(default_mirror)}" ]; then
		echo "no mirror: set MIRROR"
	elif ! command -v debootstrap >/dev/null &&
		! (install_packages debootstrap) >/dev/null 2>&1; then
		echo "debootstrap cannot be installed"
	fi
}

# configure_apt SUITE ROOT: in the chroot, apt knows the mirror, and how to reach it.
configure_apt()
{
	local sources=$2/etc/apt/sources.list

	printf 'deb %s %s main\n' "$MIRROR" "$1" >"$sources"
	# copies of the releases that never end may be older than these allow for
	printf '%s\n' 'Acquire::Check-Valid-Until "false";' 'Acquire::Retries "3";' \
		'APT::Install-Recommends "false";' 'APT::Sandbox::User "root";' \
		>"$2/etc/apt/apt.conf.d/lazyhash"
	apt-config dump | grep -i '^Acquire::.*proxy' >>"$2/etc/apt/apt.conf.d/lazyhash" || true
	cp -L /etc/resolv.conf /etc/hosts "$2/etc/"
	if [ "$1" = sid ]; then
		printf 'deb %s experimental main\n' "$MIRROR" >>"$sources"
		# of all that is in experimental, only this
		printf '%s\n' 'Package: src:postgresql-19' 'Pin: release a=experimental' \
			'Pin-Priority: 990' >"$2/etc/apt/preferences.d/lazyhash"
	fi
}

mount_chroot()
{
	local root=$1

	mountpoint -q "$root/proc" || mount --bind /proc "$root/proc"
	mountpoint -q "$root/dev" || mount --bind /dev "$root/dev"
	mountpoint -q "$root/dev/shm" || mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
	mkdir -p "$root$source_in_chroot"
	mountpoint -q "$root$source_in_chroot" ||
		mount --bind -o ro "$project_dir" "$root$source_in_chroot"
}

# make_chroot SUITE ROOT: makes it, if it is not there already, with all packages that the tests
# need.
make_chroot()
{
	local root=$2

	if [ ! -e "$root.ready" ]; then
		rm -rf --one-file-system "$root"
		debootstrap --variant=minbase "$1" "$root" "$MIRROR"
		configure_apt "$1" "$root"
		# no server is to be started by the packages
		printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
		chmod 755 "$root/usr/sbin/policy-rc.d"
		mkdir -p "$root/etc/postgresql-common"
		echo 'create_main_cluster = false' >"$root/etc/postgresql-common/createcluster.conf"
	fi
	mount_chroot "$root"
	if [ ! -e "$root.ready" ]; then
		in_chroot "$root" apt-get -q update
		# shellcheck disable=SC2086	# lists of words
		in_chroot "$root" apt-get -q install -y $test_packages ${packages_of[$1]}
		in_chroot "$root" apt-get clean
		touch "$root.ready"
	fi
}

# in_chroot ROOT COMMAND...: runs the command there, with an environment that tells it nothing of
# this machine's.
in_chroot()
{
	local root=$1
	shift

	chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive ${TEST_PORT:+TEST_PORT="$TEST_PORT"} "$@" </dev/null
}

# Starts making the chroots that the versions need, each in a background process group of its own.
start_making_chroots()
{
	local version suite problem

	for version in "${versions[@]}"; do
		suite=${suite_of[$version]}
		if is_native "$version" || [ "$suite" = none ] || [ -n "${maker[$suite]:-}" ]; then
			continue
		fi
		problem=$(chroot_problem)
		if [ -n "$problem" ]; then
			echo "$problem" >"$workdir/$suite.problem"
			maker[$suite]=none
			continue
		fi
		MIRROR=${MIRROR:-$(default_mirror)}
		# the mounts must be this process's, not only the maker's: they share the namespace
		set -m
		make_chroot "$suite" "$chroots/$suite" >"$workdir/$suite.log" 2>&1 </dev/null &
		maker[$suite]=$!
		set +m
	done
}

# chroot_ready SUITE: waits for the chroot, as long as there is time.  Says why when there is none.
chroot_ready()
{
	local pid=${maker[$1]:-}

	if [ "$1" = none ]; then
		echo "no release of Debian has it"
		return 1
	elif [ "$pid" = none ]; then
		cat "$workdir/$1.problem"
		return 1
	fi
	while kill -0 "$pid" 2>/dev/null; do
		if [ "$(time_left)" -lt 1 ]; then
			echo "no time left"
			return 1
		fi
		sleep 1
	done
	[ ! -e "$chroots/$1.ready" ] || return 0
	tail -n 20 "$workdir/$1.log" >&2
	echo "no chroot of $1"
	return 1
}

# Ends the making of chroots, unmounts, and removes what is not to be kept.
leave_chroots()
{
	local suite pid

	for suite in "${!maker[@]}"; do
		pid=${maker[$suite]}
		[ "$pid" != none ] || continue
		end_group "$pid"
		umount_below "$chroots/$suite"
		[ -z "$keep_chroots" ] || continue
		rm -rf --one-file-system "${chroots:?}/$suite"
	done
	[ -n "$keep_chroots" ] || rmdir "$chroots" 2>/dev/null || true
}

# Unmounts all that is mounted below a directory, the deepest first.
umount_below()
{
	local dir tries

	awk -v top="$1/" 'index($2, top) == 1 { print $2 }' /proc/mounts | sort -r |
		while read -r dir; do
			# a process that was told to end may need a moment
			for tries in {1..30}; do
				! umount "$dir" 2>/dev/null || continue 2
				sleep 0.1
			done
			umount --lazy "$dir"
		done
}

# ---- testing ----

# Whether the version is tested on this machine itself.
is_native()
{
	case $1 in
		upgrade) is_native 18 && is_native 19 ;;
		15) has_server 15 || grep -qx VERSION_CODENAME=bookworm /etc/os-release ;;
		*) has_server "$1" ;;
	esac
}

has_server()
{
	[ -x "/usr/lib/postgresql/$1/bin/postgres" ] && [ -e "/usr/include/postgresql/$1/server" ]
}

# The command that tests a version, for the directory in which the sources are.
test_command()
{
	local directory=$1 version=$2

	if [ "$version" = upgrade ]; then
		command=("$directory/scripts/test-upgrade.sh" 18 19)
	else
		command=(env PG_MAJOR="$version" PG_CONFIG= "$directory/scripts/test.sh")
		if [ -n "$brief" ] && [ "$version" != "${versions[0]}" ]; then
			command+=("${brief_arguments[@]}")
		else
			command+=("${test_arguments[@]}")
		fi
	fi
}

# run_tests VERSION: the tests of a version that can be had.  Returns their status.
run_tests()
{
	local command

	if is_native "$1"; then
		test_command "$project_dir" "$1"
	else
		test_command "$source_in_chroot" "$1"
		command=(in_chroot "$chroots/${suite_of[$1]}" "${command[@]}")
	fi
	run_group "${command[@]}"
}

# run_group COMMAND...: runs a command or function in a process group of its own, within the time
# that is left.  Returns its status, 124 when the time was up.
run_group()
{
	local status=0 late=no

	set -m
	"$@" &
	running_job=$!
	set +m
	while kill -0 "$running_job" 2>/dev/null; do
		if [ "$(time_left)" -lt 1 ]; then
			late=yes
			end_group "$running_job"
		fi
		sleep 0.5
	done
	wait "$running_job" || status=$?
	running_job=
	[ "$late" = no ] || status=124
	return "$status"
}

# Whether a process of the group is alive.
group_lives()
{
	cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' |
		awk -v group="$1" '$3 == group && $1 != "Z" { found = 1 } END { exit !found }'
}

# end_group PID: asks the process group to end, which may have to clean up, and sees to it that it
# does.
end_group()
{
	local tries

	kill -TERM -- "-$1" 2>/dev/null || true
	for tries in {1..300}; do
		group_lives "$1" || return 0
		[ "$tries" -lt 300 ] || kill -KILL -- "-$1" 2>/dev/null || true
		sleep 0.1
	done
}

# line VERSION SERVER PASSED FAILED RESULT: prints a line of the table.
line()
{
	printf '%-8s %-28s %6s %6s  %s\n' "$@"
}

row()
{
	rows+=("$(line "$@")")
}

skip()
{
	row "$1" - - - "skipped: $2"
}

# test_version VERSION: tests it, and adds a row to the table.
test_version()
{
	local log=$workdir/$1.out status=0 reason server good bad tee begin

	if ! is_native "$1" && ! reason=$(chroot_ready "${suite_of[$1]}"); then
		skip "$1" "$reason"
		return
	elif [ "$(time_left)" -lt 1 ]; then
		skip "$1" "no time left"
		return
	fi
	printf '\n==== %s\n' "$1"
	begin=$SECONDS
	exec 3> >(exec tee "$log")
	tee=$!
	run_tests "$1" >&3 2>&1 3>&- </dev/null || status=$?
	exec 3>&-
	wait "$tee" || true
	server=$(sed -n 's/^tested with \([^(]*[^( ]\).*/\1/p' "$log" | head -n 1)
	read -r good bad < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log" |
		tail -n 1) || true
	good_tests=$((good_tests + ${good:-0}))
	bad_tests=$((bad_tests + ${bad:-0}))
	if [ "$status" -eq 124 ]; then
		row "$1" "${server:--}" - - "skipped: not finished in the time"
	elif [ "$status" -eq 0 ] && [ "${good:-0}" -gt 0 ]; then
		row "$1" "$server" "$good" "$bad" "passed in $((SECONDS - begin)) s"
		passed=$((passed + 1))
	else
		row "$1" "${server:--}" "${good:--}" "${bad:--}" "FAILED"
		failed=$((failed + 1))
		# not to have come to an end is a failure as well
		[ "${bad:-0}" -gt 0 ] || bad_tests=$((bad_tests + 1))
	fi
}

# The exit trap.  Children that end the script by a signal come by here as well.
leave()
{
	local status=$?

	trap '' INT TERM HUP
	[ -z "$running_job" ] || end_group "$running_job"
	leave_chroots
	rm -rf "$workdir"
	exit "$status"
}

enter_namespace "$@"
parse_arguments "$@"
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
workdir=$(mktemp -d "${TMPDIR:-/tmp}/lazyhash-versions.XXXXXX")
if [ -n "$keep_chroots" ]; then
	mkdir -p "$chroots"
	chroots=$(cd "$chroots" && pwd)
else
	# not in the memory that a temporary file system would take
	chroots=$(mktemp -d /var/tmp/lazyhash-chroots.XXXXXX)
fi

start_making_chroots
for version in "${versions[@]}"; do
	test_version "$version"
done

echo
line version server passed failed result
printf '%s\n' "${rows[@]}" ""
echo "$good_tests passed, $bad_tests failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]

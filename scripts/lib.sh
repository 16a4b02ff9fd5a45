# shellcheck shell=bash disable=SC2034	# variables are for the scripts that source this
#
# What the project's scripts share: a private copy of a PostgreSQL server in a temporary directory,
# lazyhash built and installed into that copy, and servers started from it.  The machine's own
# PostgreSQL installation and its clusters are only read.
#
# To be sourced by bash, with errexit and nounset on:
#
#     set -euo pipefail
#     . "$(dirname "$0")/lib.sh"
#     set_up                                  # the next five functions in one
#     start_server main "shared_buffers = 1GB" "wal_level = replica"
#     psql -c 'CREATE EXTENSION lazyhash'
#     stop_server main
#
# From the environment:
#     PG_CONFIG   the pg_config of the server to use; default: that of the newest one in Debian's
#                 place, else the one in PATH
#     PG_MAJOR    the only major version to look for, and to install when it is not there; default:
#                 any that lazyhash supports, and if there is none, the newest that apt offers
#     TEST_USER   the account that servers run as when the script runs as root, which the server
#                 itself refuses; default postgres, else nobody
#     TEST_PORT   the port from which free ones are searched upwards; default 55432
#     TMPDIR      where temporary directories go when /dev/shm is too small; default /tmp
#     KEEP        if not empty, the temporary directory is left behind
#
# Everything is removed, and every server stopped, when the script ends, in whatever way.

project_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
supported_majors=(15 16 17 18 19)
workdir=
running_job=
lists_are_new=

# say TEXT...: a line on standard error, for progress and complaints.
say()
{
	printf '%s\n' "$*" >&2
}

# fail TEXT...: says why, and ends the script with status 1.
fail()
{
	say "$(basename "$0"): $*"
	exit 1
}

# need_packages [PACKAGE...]: makes sure that the programs, headers and modules that building and
# testing need are there, and the given Debian packages besides.  As root, on a system with apt,
# installs what is missing; otherwise names it and ends the script.
# Sets and exports PG_CONFIG, sets test_user.
# shellcheck disable=SC2120	# the arguments are for scripts that need more
need_packages()
{
	local missing=("$@") have

	[ -n "${PG_CONFIG:-}" ] || PG_CONFIG=$(default_pg_config)
	[ -z "$PG_CONFIG" ] || command -v "$PG_CONFIG" >/dev/null ||
		fail "no such program: $PG_CONFIG"
	for have in "${!missing[@]}"; do
		! package_is_installed "${missing[have]}" || unset "missing[have]"
	done
	[ -n "$PG_CONFIG" ] || choose_major
	while read -r have; do missing+=("$have"); done < <(missing_packages)
	if [ ${#missing[@]} -gt 0 ]; then
		install_packages "${missing[@]}"
		[ -n "$PG_CONFIG" ] || PG_CONFIG=$(default_pg_config)
		if [ -n "$(missing_packages)" ]; then
			fail "still missing after the installation: $(missing_packages | tr '\n' ' ')"
		fi
	fi
	export PG_CONFIG
	choose_user
}

# Prints the major versions to look for, the newest first.
majors()
{
	if [ -n "${PG_MAJOR:-}" ]; then
		echo "$PG_MAJOR"
	else
		printf '%s\n' "${supported_majors[@]}" | sort -rn
	fi
}

# Prints the major version of the server that a pg_config belongs to.
major_of()
{
	"$1" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/'
}

# Prints the pg_config to use when the environment names none; nothing when there is none.  A server
# that has its headers comes first: nothing needs to be installed for it.
default_pg_config()
{
	local candidates=() candidate major wanted

	for major in $(majors); do
		candidates+=("/usr/lib/postgresql/$major/bin/pg_config")
	done
	candidate=$(command -v pg_config) && major=$(major_of "$candidate" 2>/dev/null) &&
		majors | grep -qx "$major" && candidates+=("$candidate")
	for wanted in has_headers true; do
		for candidate in "${candidates[@]}"; do
			if has_server_program "$candidate" && "$wanted" "$candidate"; then
				echo "$candidate"
				return
			fi
		done
	done
}

# Whether there is this pg_config, with a server.
has_server_program()
{
	[ -x "$1" ] && [ -x "$("$1" --bindir)/postgres" ]
}

# Whether extensions can be built with this pg_config.
has_headers()
{
	[ -e "$("$1" --pgxs)" ] && [ -e "$("$1" --includedir-server)/postgres.h" ]
}

# Sets PG_MAJOR, unless it is set, to the newest version that apt offers.
choose_major()
{
	local major

	[ -z "${PG_MAJOR:-}" ] || return 0
	[ "$(id -u)" -ne 0 ] || update_package_lists
	for major in $(majors); do
		if apt_offers "postgresql-$major" && apt_offers "postgresql-server-dev-$major"; then
			PG_MAJOR=$major
			return
		fi
	done
	PG_MAJOR=${supported_majors[0]}
}

# Whether apt knows a version of the package that can be installed.
apt_offers()
{
	local candidate

	candidate=$(LC_ALL=C apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: *//p')
	[ -n "$candidate" ] && [ "$candidate" != "(none)" ]
}

package_is_installed()
{
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Prints the Debian packages behind what is missing, one a line.
missing_packages()
{
	local pair

	for pair in gcc:gcc make:make perl:perl prove:perl tar:tar runuser:util-linux nm:binutils; do
		command -v "${pair%%:*}" >/dev/null || echo "${pair#*:}"
	done
	[ -e /usr/include/stdio.h ] || echo libc6-dev
	perl -MIPC::Run -e 1 2>/dev/null || echo libipc-run-perl
	perl -MTest::More -MTime::HiRes -e 1 2>/dev/null || echo perl
	if [ -z "$PG_CONFIG" ]; then
		printf 'postgresql-%s\npostgresql-server-dev-%s\n' "$PG_MAJOR" "$PG_MAJOR"
		return
	fi
	[ -x "$("$PG_CONFIG" --bindir)/postgres" ] || echo "postgresql-$(major_of "$PG_CONFIG")"
	has_headers "$PG_CONFIG" || echo "postgresql-server-dev-$(major_of "$PG_CONFIG")"
}

# Brings apt's lists up to date, once, if there is an apt.  Says nothing when that fails: what then
# cannot be installed will be complained about.
update_package_lists()
{
	[ -z "$lists_are_new" ] && command -v apt-get >/dev/null || return 0
	apt-get -q update >/dev/null 2>&1 </dev/null || true
	lists_are_new=yes
}

install_packages()
{
	local log

	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		say "These packages are missing (names as in Debian): $*"
		say "As root:  apt-get install $*"
		exit 1
	fi
	say "installing $*"
	update_package_lists
	log=$(mktemp)
	if ! DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@" \
		>"$log" 2>&1 </dev/null; then
		cat "$log" >&2
		rm -f "$log"
		fail "apt could not install $*"
	fi
	rm -f "$log"
}

# Sets test_user: empty when the script runs as an ordinary user.
choose_user()
{
	test_user=
	[ "$(id -u)" -eq 0 ] || return 0
	test_user=${TEST_USER:-postgres}
	id "$test_user" >/dev/null 2>&1 || test_user=${TEST_USER:-nobody}
	id "$test_user" >/dev/null 2>&1 || fail "there is no account $test_user; set TEST_USER"
}

# run_as COMMAND...: runs the command as the unprivileged user, or directly when the script does
# not run as root.  The environment is kept, but for HOME.  Needs choose_user or need_packages.
run_as()
{
	if [ -n "$test_user" ]; then
		runuser -u "$test_user" -- env HOME="${workdir:-/}" "$@"
	else
		"$@"
	fi
}

# run_limited SECONDS COMMAND...: run_as in a process group of its own, so that an interrupt or
# the time limit ends all of it: the script waits in the foreground, the command cannot linger.
# Returns the command's status, 124 when the time was up.  Standard input is empty.
run_limited()
{
	local limit=$1 status=0
	shift

	set -m
	run_as timeout --kill-after=10 "$limit" "$@" </dev/null &
	running_job=$!
	set +m
	wait "$running_job" || status=$?
	running_job=
	return "$status"
}

# make_workdir: makes the temporary directory, owned by the unprivileged user and readable by all,
# and has it removed when the script ends.  Sets workdir and TMPDIR to it, goes there, and forgets
# PGHOST and the like.  /dev/shm is preferred, because there no test waits for a disk.
make_workdir()
{
	local parent=${TMPDIR:-/tmp} free

	free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
	if [ "${free:-0}" -ge 4000000 ] && [ -w /dev/shm ] && can_execute_in /dev/shm; then
		parent=/dev/shm
	elif [ -n "$test_user" ] && ! run_as test -x "$parent"; then
		parent=/tmp
	fi
	trap clean_up EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	trap 'exit 129' HUP
	workdir=$(cd "$parent" && mktemp -d "$PWD/lazyhash.XXXXXX")
	chmod 755 "$workdir"
	# the unprivileged user may not be allowed into the directory where the script was called
	cd "$workdir" || exit
	export TMPDIR=$workdir
	forget_connection_settings
	[ -z "$test_user" ] || chown "$test_user" "$workdir"
}

# The caller's own PGHOST, PGOPTIONS and the like must not reach what is tested.
forget_connection_settings()
{
	local name

	for name in $(compgen -e PG); do
		case $name in PG_*) ;; *) unset "$name" ;; esac
	done
}

# Whether programs may run from there; some systems mount it noexec.
can_execute_in()
{
	local file status=0

	file=$(mktemp "$1/lazyhash.XXXXXX") || return 1
	printf '#!/bin/sh\n' >"$file"
	chmod 700 "$file"
	"$file" 2>/dev/null || status=1
	rm -f "$file"
	return "$status"
}

# The exit trap: ends what still runs, and removes the temporary directory.
clean_up()
{
	local status=$?

	trap '' INT TERM HUP
	if [ -n "$running_job" ]; then
		kill -TERM -- "-$running_job" 2>/dev/null || true
		wait "$running_job" 2>/dev/null || true
	fi
	if [ -n "$workdir" ] && [ -d "$workdir" ]; then
		stop_all_servers
		if [ -n "${KEEP:-}" ]; then
			say "left behind: $workdir"
		else
			rm -rf "$workdir"
		fi
	fi
	exit "$status"
}

# stop_all_servers: stops, at once, every server whose data directory lies in the temporary
# directory, whoever started it.  Such a server is known by its postmaster.pid; the process is
# asked for its working directory, as the number in a file left over may be another's by now.
stop_all_servers()
{
	local file pid dir tries

	while read -r file; do
		pid=$(head -n 1 "$file" 2>/dev/null) || continue
		[[ $pid =~ ^[0-9]+$ ]] || continue
		dir=$(readlink "/proc/$pid/cwd" 2>/dev/null) || continue
		[ "$dir" = "$(dirname "$file")" ] || continue
		kill -QUIT "$pid" 2>/dev/null || continue
		for tries in {1..100}; do
			[ -d "/proc/$pid" ] || break
			[ "$tries" -lt 100 ] || kill -KILL "$pid" 2>/dev/null || true
			sleep 0.1
		done
	done < <(find "$workdir" -name postmaster.pid -type f 2>/dev/null)
}

# private_server: copies the server that PG_CONFIG names into the temporary directory.  Under
# $workdir/pg, each directory keeps its absolute path.  PostgreSQL finds its files relative to its
# binaries, so that this serves Debian's scattered layout and a plain prefix alike.
# Changes PG_CONFIG to the copy's; sets bindir, pgxs_dir (the parent of PGXS's src) and pg_major;
# puts the copy's programs first in PATH.  Needs need_packages and make_workdir.
private_server()
{
	local root=$workdir/pg library pkglibdir libdir

	bindir=$("$PG_CONFIG" --bindir)
	pkglibdir=$("$PG_CONFIG" --pkglibdir)
	libdir=$("$PG_CONFIG" --libdir)
	copy_path "$root" "$bindir"
	copy_path "$root" "$("$PG_CONFIG" --sharedir)"
	copy_path "$root" "$pkglibdir"
	link_path "$root" "$("$PG_CONFIG" --includedir)"
	link_path "$root" "$("$PG_CONFIG" --includedir-server)"
	# the client library, when the installation has its own: the copy must not depend on the
	# directory that it was built for; and the static ones that the unit tests are linked with
	for library in "$libdir"/libpq.so* "$libdir"/libpgcommon.a "$libdir"/libpgport.a; do
		case $pkglibdir in "$libdir"/*) cp -a "$library" "$root$libdir/" ;; esac
	done

	bindir=$root$bindir
	PG_CONFIG=$bindir/pg_config
	[ "$("$PG_CONFIG" --pkglibdir)" = "$root$pkglibdir" ] ||
		fail "this server cannot be moved: its pg_config insists on $("$PG_CONFIG" --pkglibdir)"
	pgxs_dir=$(cd "$(dirname "$("$PG_CONFIG" --pgxs)")/../.." && pwd)
	pg_major=$(major_of "$PG_CONFIG")
	[ -z "$test_user" ] || chown -R "$test_user" "$root"
	export PG_CONFIG PATH="$bindir:$PATH"
	[ ! -e "$root$libdir/libpq.so" ] ||
		export LD_LIBRARY_PATH="$root$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

# copy_path ROOT DIR: copies DIR to ROOT/DIR, unless that is there already.
copy_path()
{
	[ ! -e "$1$2" ] || return 0
	mkdir -p "$1$(dirname "$2")"
	cp -a "$2" "$1$2"
}

# link_path ROOT DIR: the same with a symbolic link; for what is only read.
link_path()
{
	[ ! -e "$1$2" ] || return 0
	mkdir -p "$1$(dirname "$2")"
	ln -s "$2" "$1$2"
}

# make_variable NAME: prints the value that the variable has in the project's Makefile.
make_variable()
{
	# shellcheck disable=SC2016	# for make to expand
	printf 'include Makefile\nprint-variable:\n\t@echo $(%s)\n' "$1" |
		make -s -C "$source_dir" --no-print-directory -f - PG_CONFIG="$PG_CONFIG" print-variable
}

# build_and_install [MAKE-ARGUMENT...]: copies the source tree into the temporary directory, where
# the unprivileged user owns it, builds it there, and installs it into the private server.
# Shows what the build wrote only when it fails, and ends the script then.
# Sets source_dir (the copy) and make_arguments.  Needs private_server.
build_and_install()
{
	local clang status=0

	source_dir=$workdir/src
	mkdir -p "$source_dir"
	tar -C "$project_dir" --exclude-vcs --exclude='*.o' --exclude='*.bc' --exclude='*.so' \
		--exclude=tmp_check --exclude=output_iso --exclude=results -cf - . |
		tar -C "$source_dir" -xf -
	if [ -n "$test_user" ]; then
		chown -R "$test_user" "$source_dir"
	fi
	chmod -R u+rwX "$source_dir"

	make_arguments=(PG_CONFIG="$PG_CONFIG" "$@")
	# bitcode needs the very compiler that the server was built with; without it, do without
	clang=$(make_variable CLANG)
	[ -n "$clang" ] && command -v "$clang" >/dev/null || make_arguments+=(with_llvm=no)
	run_limited 900 make -C "$source_dir" -j2 "${make_arguments[@]}" \
		>"$workdir/build.out" 2>&1 || status=$?
	if [ "$status" -eq 0 ]; then
		run_limited 300 make -C "$source_dir" "${make_arguments[@]}" install \
			>>"$workdir/build.out" 2>&1 || status=$?
	fi
	if [ "$status" -ne 0 ]; then
		cat "$workdir/build.out" >&2
		fail "the build failed"
	fi
}

# run_tap SECONDS FILE DIRECTORY: runs a TAP program of the source tree by prove, in the environment
# that PGXS gives it, for all server versions.  The directory takes its clusters and logs.
# Returns prove's status, 124 when the time was up.  Needs build_and_install.
run_tap()
{
	run_as mkdir -p "$3/tmp_check/log"
	run_limited "$1" env -C "$source_dir" -u PGHOST -u PGUSER -u PGDATABASE \
		PERL5LIB="$pgxs_dir/src/test/perl${PERL5LIB:+:$PERL5LIB}" \
		PG_REGRESS="$pgxs_dir/src/test/regress/pg_regress" \
		TESTDIR="$3" TESTDATADIR="$3/tmp_check" TESTLOGDIR="$3/tmp_check/log" \
		PG_TEST_PORT_DIR="$workdir" top_builddir="$pgxs_dir" \
		share_contrib_dir="$("$PG_CONFIG" --sharedir)/contrib" \
		enable_injection_points="$(make_variable enable_injection_points)" \
		PGPORT="$(free_port)" prove --verbose "$2"
}

# set_up [MAKE-ARGUMENT...]: everything up to an installed lazyhash in a private server.
set_up()
{
	# shellcheck disable=SC2119
	need_packages
	make_workdir
	private_server
	build_and_install "$@"
}

# free_port: prints a TCP port on which nothing listens, from TEST_PORT upwards, and for which no
# server of this script has a socket.
free_port()
{
	local port

	for ((port = ${TEST_PORT:-55432}; port < 65000; port++)); do
		[ ! -e "$workdir/s/.s.PGSQL.$port" ] || continue
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return 0; }
	done
	fail "no free port from ${TEST_PORT:-55432} on"
}

# data_dir NAME: prints the data directory of the server of that name.
data_dir()
{
	printf '%s/%s.data\n' "$workdir" "$1"
}

# start_server NAME [LINE...]: makes a cluster, adds the lines to its postgresql.conf, and starts
# a server.  A cluster of that name that exists is started as it is, with the lines added.
# The server listens on a socket in $workdir/s, not on TCP, and does not wait for the disk unless
# the lines say fsync = on.  Its log is $workdir/NAME.log.  Returns non-zero, having shown that log,
# when the server does not start.
# Exports PGHOST, PGPORT, PGUSER and PGDATABASE for it.  Needs private_server.
start_server()
{
	local name=$1 data
	shift

	data=$(data_dir "$name")
	mkdir -p "$workdir/s"
	[ -z "$test_user" ] || chown "$test_user" "$workdir/s"
	if [ ! -d "$data" ]; then
		run_as "$bindir/initdb" -D "$data" -U postgres -A trust --no-sync --encoding=UTF8 \
			--locale=C.UTF-8 --lc-messages=C >"$workdir/$name.initdb.log" 2>&1 ||
			{ cat "$workdir/$name.initdb.log" >&2; return 1; }
		printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$workdir/s'" \
			"port = $(free_port)" "fsync = off" | add_configuration "$data"
	fi
	[ $# -eq 0 ] || printf '%s\n' "$@" | add_configuration "$data"
	launch "$name" || return 1
	use_server "$name"
}

# clone_standby NAME PRIMARY: makes a streaming standby NAME of the running server PRIMARY, with a
# replication slot, and starts it with the same configuration but for the port.  PGPORT stays that
# of the primary.  Returns non-zero when that fails.
clone_standby()
{
	local data

	data=$(data_dir "$1")
	use_server "$2"
	run_as "$bindir/pg_basebackup" -D "$data" --checkpoint=fast --no-sync --write-recovery-conf \
		--create-slot --slot="${1//[^a-z0-9]/_}" || return 1
	printf '%s\n' "port = $(free_port)" | add_configuration "$data"
	launch "$1"
}

# The lines of standard input become part of the cluster's configuration.
add_configuration()
{
	run_as tee -a "$1/postgresql.conf" >/dev/null
}

launch()
{
	run_as "$bindir/pg_ctl" start -w -t 120 -s -D "$(data_dir "$1")" -l "$workdir/$1.log" \
		>"$workdir/$1.start.log" 2>&1 </dev/null || {
		tail -n 40 "$workdir/$1.log" "$workdir/$1.start.log" >&2
		say "the server $1 did not start"
		return 1
	}
}

# use_server NAME: makes psql and the like connect to that running server.
use_server()
{
	PGPORT=$(sed -n 4p "$(data_dir "$1")/postmaster.pid")
	export PGPORT PGHOST=$workdir/s PGUSER=postgres PGDATABASE=postgres
}

# stop_server NAME [MODE]: stops the server; MODE as for pg_ctl: smart, fast (default), immediate.
# Returns non-zero when it was not running or did not stop.
stop_server()
{
	run_as "$bindir/pg_ctl" stop -w -t 120 -s -D "$(data_dir "$1")" -m "${2:-fast}"
}

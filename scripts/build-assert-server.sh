#!/usr/bin/env bash
#
# Builds a PostgreSQL server with assertions, debugging symbols and everything that the project's
# tests need (contrib, pg_regress, the isolation tester, the Perl test modules) from the source
# package of the distribution, and installs it into a directory of its own.
#
#     scripts/build-assert-server.sh [--version N] [--suite NAME] DIR
#
#     --version N    major version of PostgreSQL (default 15)
#     --suite NAME   distribution release to take the source package from; by default the
#                    configured ones and, when they lack the version, testing and unstable
#     DIR            the installation prefix, for example /opt/pg15-assert
#
# Afterwards:  PG_CONFIG=DIR/bin/pg_config scripts/test.sh
#
# Runs as root on Debian and its relatives.  The mirrors are those of the machine's own apt
# configuration; that configuration itself is left as it is: source lines go to a temporary file.

set -euo pipefail

version=15
suites=()
prefix=

usage()
{
	sed -n '3,18{s/^# \{0,1\}//;p}' "$0"
	exit "${1:-2}"
}

while [ $# -gt 0 ]; do
	case $1 in
		--version) version=${2:?--version needs a number}; shift 2 ;;
		--suite) suites+=("${2:?--suite needs a name}"); shift 2 ;;
		-h | --help) usage 0 ;;
		-*) usage ;;
		*) [ -z "$prefix" ] || usage; prefix=$1; shift ;;
	esac
done
[ -n "$prefix" ] || usage
[[ $version =~ ^[0-9]+$ ]] || usage
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac

if [ "$(id -u)" -ne 0 ]; then
	echo "$0: must run as root, to install what the build needs" >&2
	exit 1
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/lazyhash-server.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$work"
mkdir -p "$work/lists/partial" "$work/source" "$work/stage"

# apt-get or apt-cache, reading nothing but the temporary source lines, and keeping its state apart.
source_apt()
{
	"$@" -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::Etc::TrustedParts="$work/keys/" -o Dir::State::Lists="$work/lists" \
		-o Dir::Cache::srcpkgcache="" -o Dir::Cache::pkgcache="" -o APT::Sandbox::User=root
}

# Gathers the keys that the machine's apt trusts, be it in general or for one of its sources:
# the temporary source lines do not say which key goes with which mirror.
gather_keys()
{
	local file

	mkdir "$work/keys"
	for file in /etc/apt/trusted.gpg.d/*.gpg /etc/apt/trusted.gpg.d/*.asc \
		$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
			sed -n 's/.*[Ss]igned-[Bb]y *[:=] *\(\/[^] ,]*\).*/\1/p' | sort -u); do
		[ ! -r "$file" ] || cp "$file" "$work/keys/"
	done
}

# Prints a deb-src line for each binary source that apt is configured with.
# With an argument, names that release instead of the configured ones.
source_lines()
{
	# shellcheck disable=SC2016	# apt replaces these
	apt-get indextargets --format '$(SITE)|$(RELEASE)|$(COMPONENT)' 'Created-By: Packages' |
		while IFS='|' read -r site release component; do
			# security and update suites have names of their own in other releases; asking the
			# main archive is enough there
			if [ $# -gt 0 ]; then
				case $release in *-*) continue ;; esac
				release=$1
			fi
			printf 'deb-src %s %s %s\n' "$site" "$release" "$component"
		done | sort -u
}

# Fetches the source package and unpacks what upstream released.  The distribution's patches are
# left out on purpose: one of them fixes the library directory to /usr/lib/postgresql, whatever
# the prefix is.  Without an argument from the configured releases.
# A mirror may list a package that it does not hold (yet): take the next older one then.
fetch()
{
	local candidate

	source_lines "$@" >"$work/sources.list"
	[ -s "$work/sources.list" ] || { echo "$0: apt has no package sources configured" >&2; exit 1; }
	source_apt apt-get -q update >>"$work/update.log" 2>&1 || true
	cd "$work/source"
	for candidate in $(source_apt apt-cache showsrc "postgresql-$version" 2>/dev/null |
		sed -n 's/^Version: //p' | sort -ruV); do
		if source_apt apt-get -q source --download-only "postgresql-$version=$candidate" \
			>>"$work/source.log" 2>&1
		then
			tar -xf "postgresql-${version}_"*.orig.tar.* --one-top-level=tree --strip-components=1
			return 0
		fi
	done
	return 1
}

fetch_from_somewhere()
{
	local suite

	if [ ${#suites[@]} -eq 0 ]; then
		if fetch; then return 0; fi
		suites=(testing unstable)
	fi
	for suite in "${suites[@]}"; do
		if fetch "$suite"; then return 0; fi
	done
	echo "$0: no source package postgresql-$version; apt said:" >&2
	cat "$work/update.log" "$work/source.log" >&2
	return 1
}

install_build_dependencies()
{
	export DEBIAN_FRONTEND=noninteractive
	apt-get -q update >"$work/update.log" 2>&1 || true
	apt-get install -y -q --no-install-recommends bison dpkg-dev flex gcc libc6-dev libicu-dev \
		libipc-run-perl libreadline-dev make perl pkg-config xz-utils zlib1g-dev \
		>"$work/install.log" 2>&1 || { cat "$work/install.log" >&2; exit 1; }
}

# Runs a command quietly; shows what it wrote only when it fails.
quietly()
{
	"$@" >"$work/build.log" 2>&1 && return 0
	tail -n 50 "$work/build.log" >&2
	echo "$0: this failed: $*" >&2
	exit 1
}

build()
{
	local options=(--prefix="$prefix" --enable-cassert --enable-debug --enable-tap-tests --with-icu)

	# lets a test make an error or a wait happen at a named place
	[ "$version" -lt 17 ] || options+=(--enable-injection-points)

	quietly ./configure "${options[@]}" CFLAGS='-O1 -g'
	quietly make -s -j"$(nproc)" world-bin
	quietly make -s install-world-bin DESTDIR="$work/stage"
	if [ "$version" -ge 17 ]; then
		quietly make -s -C src/test/modules/injection_points install DESTDIR="$work/stage"
	fi
}

# Moves the staged files to the prefix, unless some are meant for a place outside of it: there may
# be another PostgreSQL, which must stay as it is.
install_from_stage()
{
	local strays

	strays=$(find "$work/stage" ! -type d ! -path "$work/stage$prefix/*")
	if [ -n "$strays" ]; then
		echo "$0: nothing installed, as these would go outside of $prefix:" >&2
		head -n 20 <<<"$strays" >&2
		exit 1
	fi
	mkdir -p "$prefix"
	cp -a "$work/stage$prefix/." "$prefix/"
}

# The build installs these only when it was configured as above: say so here, not in a test run.
check_installation()
{
	local pgxs file

	case $("$prefix/bin/pg_config" --pkglibdir) in
		"$prefix"/*) ;;
		*) echo "$0: the server would load libraries from outside of $prefix" >&2; exit 1 ;;
	esac
	pgxs=$(dirname "$("$prefix/bin/pg_config" --pgxs)")/../..
	for file in src/test/regress/pg_regress src/test/isolation/isolationtester \
		src/test/isolation/pg_isolation_regress src/test/perl/PostgreSQL/Test/Cluster.pm; do
		[ -e "$pgxs/$file" ] || { echo "$0: $file has not been installed" >&2; exit 1; }
	done
}

echo "installing what the build needs"
install_build_dependencies
gather_keys
echo "fetching the source of PostgreSQL $version"
fetch_from_somewhere
echo "building it into $prefix"
cd "$work/source/tree"
build
install_from_stage
check_installation
echo "done: $("$prefix/bin/pg_config" --version), PG_CONFIG=$prefix/bin/pg_config"

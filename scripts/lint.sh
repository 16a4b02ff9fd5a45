#!/usr/bin/env bash
#
# Checks what no test would notice: compiler warnings beyond the usual ones, white space at line
# ends, lines that are too long, paths and host names of some developer's machine, perl's own
# warnings, and the shell scripts (by shellcheck, where installed).
#
#     scripts/lint.sh
#
# Prints each finding; the exit status is 0 if there was none.

set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

findings=0

# finding TITLE LINES: complains about the lines, if there are any.
finding()
{
	[ -n "$2" ] || return 0
	printf '== %s\n%s\n' "$1" "$2"
	findings=$((findings + 1))
}

# Prints the project's own files, whether committed yet or not; expected output is the server's.
project_files()
{
	cd "$project_dir"
	if git rev-parse >/dev/null 2>&1; then
		git ls-files -co --exclude-standard
	else
		find . -type f -not -path './.git/*' -printf '%P\n'
	fi | grep -v '^expected/' | while read -r file; do [ ! -f "$file" ] || echo "$file"; done
}

# Prints which lines of the given files are wider than 100 columns, tabs being four wide.
too_long()
{
	local file

	for file in "$@"; do
		expand -t 4 "$file" |
			awk -v file="$file" 'length > 100 { print file ":" NR ": " length " columns" }'
	done
}

check_text()
{
	local files code

	mapfile -t files < <(project_files)
	mapfile -t code < <(printf '%s\n' "${files[@]}" | grep -E '\.(c|h|sh|pl|pm|spec)$')
	cd "$project_dir"
	# graphics are as gnuplot wrote them
	finding "white space at the end of a line" "$(
		grep -nIE '[[:blank:]]+$' -- "${files[@]}" | grep -v '^[^:]*[.]svg:'
	)"
	finding "lines of more than 100 columns" "$(too_long "${code[@]}")"
	# not where a variable or another directory comes first
	finding "paths of one machine" "$(
		grep -nIE '(^|[^[:alnum:]_.}/-])/((work|home|root)/|tmp/[[:alnum:]])' -- "${files[@]}"
	)"
	finding "host names of mirrors" "$(
		grep -nIE '(deb|security|snapshot|archive)[.]debian[.]' -- "${files[@]}"
	)"
}

# Prints those project files that are shell scripts.
shell_scripts()
{
	local file

	project_files | while read -r file; do
		! head -n 1 "$project_dir/$file" | grep -qE '^#!.*\b(ba)?sh$|^# shellcheck shell' ||
			echo "$file"
	done
}

check_scripts()
{
	local scripts

	if ! command -v shellcheck >/dev/null; then
		say "shellcheck is not installed: the scripts have not been checked"
		return 0
	fi
	mapfile -t scripts < <(shell_scripts)
	cd "$project_dir"
	finding "shellcheck" "$(shellcheck -x "${scripts[@]}")"
}

# Has perl compile the tests.  It finds the server's modules for them in the private server.
check_perl()
{
	local file

	cd "$project_dir"
	for file in t/*.p[lm]; do
		finding "perl" "$(PERL5LIB="$pgxs_dir/src/test/perl" perl -It -wc "$file" 2>&1 |
			grep -v ' syntax OK$')"
	done
}

# Compiles with more warnings than usual.  The server's own headers, which give rise to some, are
# system headers to the compiler.
check_warnings()
{
	local options="-Werror -Wextra -Wno-unused-parameter -Wno-sign-compare"

	options+=" -Wno-missing-field-initializers -Wshadow -Wstrict-prototypes -Wold-style-definition"
	options+=" -isystem $("$PG_CONFIG" --includedir-server)"
	build_and_install COPT="$options" "$@"
}

need_packages
make_workdir
private_server
# a grep that finds nothing is what is hoped for, so errexit must wait
set +e
check_text
check_scripts
check_perl
set -e
check_warnings
rm -rf "$source_dir"
check_warnings TEST_POINTS=1
[ "$findings" -eq 0 ] || exit 1
say "nothing found"

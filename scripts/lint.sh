#!/usr/bin/env bash
#
# Checks what no test would notice: compiler warnings beyond the usual ones, white space at line
# ends, lines that are too long, paths and host names of some developer's machine, and the shell
# scripts (by shellcheck, where installed).
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
	finding "white space at the end of a line" "$(grep -nIE '[[:blank:]]+$' -- "${files[@]}")"
	finding "lines of more than 100 columns" "$(too_long "${code[@]}")"
	# what a variable or another path comes before is not one of these
	finding "paths of one machine" "$(
		grep -nIE '(^|[^[:alnum:]_.}/-])/(work|home|root)/|/tmp/[[:alnum:]]' -- "${files[@]}"
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

# Warnings that the server's own headers do not give rise to.
check_warnings()
{
	local options="-Werror -Wextra -Wno-unused-parameter -Wno-sign-compare"

	options+=" -Wno-missing-field-initializers -Wshadow -Wstrict-prototypes -Wold-style-definition"
	set_up COPT="$options"
}

# a grep that finds nothing is what is hoped for, so errexit must wait
set +e
check_text
check_scripts
set -e
check_warnings
[ "$findings" -eq 0 ] || exit 1
say "nothing found"

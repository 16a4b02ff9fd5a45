# Summarises the records of a benchmark (see record() in lib.sh) for one metric: the median, least
# and most of the alternations, by contestant and case, in the order in which they first occurred.
#
#     awk -f summary.awk -v mode=table -v metric=NAME [-v base=X] [-v minus=X] [-v across=X] FILE
#
#     mode     table: Markdown; plot: blocks for gnuplot (name; then number, case, median, least,
#              most)
#     base     figures are ratios to those of this contestant in the same round and case
#     minus    that contestant's figure of the same round and case is taken off first
#     across   figures are ratios to the case of this name of the same round and contestant
#     cases    only cases that match this regular expression

BEGIN {
	FS = ","
}

FNR == 1 || $5 != metric || (cases != "" && $4 !~ cases) {
	next
}

{
	value[$3, $4, $2] = $6
	if (!(($3) in seen_contestant)) {
		seen_contestant[$3]
		contestant[++ncontestants] = $3
	}
	if (!(($4) in seen_case)) {
		seen_case[$4]
		title[++ncases] = $4
	}
	if ($2 > rounds)
		rounds = $2
}

# The figure of a round, or "" where there is none.
function figure(c, t, r,    v)
{
	if (!((c, t, r) in value) || (minus != "" && !((minus, t, r) in value)))
		return ""
	v = value[c, t, r]
	if (minus != "")
		v -= value[minus, t, r]
	return v
}

function ratio(v, w)
{
	return v == "" || w == "" || w == 0 ? "" : v / w
}

# Fills middle, least and most; false when there are no figures.
function summarise(c, t,    r, v, n, i, sorted)
{
	n = 0
	for (r = 1; r <= rounds; r++) {
		v = figure(c, t, r)
		if (base != "")
			v = ratio(v, figure(base, t, r))
		if (across != "")
			v = ratio(v, figure(c, across, r))
		if (v == "")
			continue
		for (i = ++n; i > 1 && sorted[i - 1] > v; i--)
			sorted[i] = sorted[i - 1]
		sorted[i] = v
	}
	if (n == 0)
		return 0
	least = sorted[1]
	most = sorted[n]
	middle = n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
	return n
}

# Three significant digits or so; thousands as k.
function show(v,    size)
{
	size = v < 0 ? -v : v
	if (size >= 100000)
		return sprintf("%.0f k", v / 1000)
	if (size >= 100)
		return sprintf("%.0f", v)
	if (size >= 10)
		return sprintf("%.1f", v)
	return sprintf("%.2f", v)
}

function skipped(c)
{
	return c == base || c == minus
}

# A case may look like a number: compare as strings.
function shown(t)
{
	return t "" != across ""
}

function print_table(    i, j, n)
{
	printf "| |"
	for (j = 1; j <= ncases; j++)
		if (shown(title[j]))
			printf " %s |", title[j]
	printf "\n|---|"
	for (j = 1; j <= ncases; j++)
		if (shown(title[j]))
			printf "--:|"
	printf "\n"
	for (i = 1; i <= ncontestants; i++) {
		if (skipped(contestant[i]))
			continue
		printf "| %s |", contestant[i]
		for (j = 1; j <= ncases; j++) {
			if (!shown(title[j]))
				continue
			n = summarise(contestant[i], title[j])
			if (n == 0)
				printf " – |"
			else if (n == 1)
				printf " %s |", show(middle)
			else
				printf " **%s** (%s–%s) |", show(middle), show(least), show(most)
		}
		printf "\n"
	}
}

function print_plot(    i, j)
{
	for (i = 1; i <= ncontestants; i++) {
		if (skipped(contestant[i]))
			continue
		printf "%s%s\n", nblocks++ ? "\n\n" : "", contestant[i]
		for (j = 1; j <= ncases; j++)
			if (shown(title[j]) && summarise(contestant[i], title[j]))
				printf "%d\t%s\t%.10g\t%.10g\t%.10g\n", j, title[j], middle, least, most
	}
}

END {
	if (mode == "plot")
		print_plot()
	else
		print_table()
}

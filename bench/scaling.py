#!/usr/bin/env python3
"""A model on paper of how inserts scale with cores, held against measurements of others.

    bench/scaling.py [--update FILE] INSERT.CSV

INSERT.CSV are the records of `bench/run.sh insert`.  Prints tables in Markdown, or puts them
between the two marker lines of FILE.  The model, its assumptions and what came of it are told in
scaling.md.
"""

import argparse
import csv
import math
import statistics
import sys

BATCH = 64

# "Original report": single-row inserts a second, in thousands, one a transaction, on 32 vCPUs.
# "batched" is the built-in hash with a counter in each backend.
REPORT_CLIENTS = (1, 16, 32, 64)
REPORT = {
    "btree": (44, 514, 547, 597),
    "hash": (44, 364, 299, 273),
    "batched": (44, 533, 557, 604),
}
REPORT_CORES = 32

CORES = (1, 2, 4, 8, 16, 32, 64, 128)
MARKER_BEGIN = "<!-- tables: bench/scaling.py -->"
MARKER_END = "<!-- end of tables -->"


def measured(path):
    """Median rows a second by (contestant, writers)."""
    rates = {}
    with open(path, newline="") as records:
        for row in csv.DictReader(records):
            if row["metric"] == "rows/s":
                key = row["contestant"], int(row["case"].split()[0])
                rates.setdefault(key, []).append(float(row["value"]))
    return {key: statistics.median(values) for key, values in rates.items()}


class Lock:
    """Time for which one visit keeps the metapage from others, by the number that want it.

    Alone it is what a visit costs.  With company the lock is handed from one sleeper to the next,
    and the page's cache lines travel: that is measured, with 2 and 8 writers that do little but
    queue, and taken to go on growing with the logarithm of the queue.
    """

    def __init__(self, alone, pair, eight):
        self.alone = alone
        self.pair = max(pair, alone)
        self.growth = max(0.0, (eight - pair) / math.log2(8 / 2))

    def time(self, waiting):
        if waiting <= 1:
            return self.alone
        return self.pair + self.growth * math.log2(waiting / 2)


def through_lock(clients, think, lock, visits):
    """Inserts a second of clients that compute for `think` seconds, of which one in 1/visits goes
    through the lock.  A birth-death chain over the number at the lock; exponential times."""
    if think <= 0:
        raise ValueError("no time outside the lock")
    pause = think / visits
    weight = 1.0
    weights = [weight]
    for at_lock in range(1, clients + 1):
        weight *= (clients - at_lock + 1) / pause * lock.time(at_lock)
        weights.append(weight)
    passed = sum(w / lock.time(j) for j, w in enumerate(weights) if j > 0)
    return passed / sum(weights) / visits


def by_processors(clients, single, capacity, sharpness):
    """Inserts a second without the lock: `single` for one client, at most `capacity`; the knee
    is rounded."""
    free = clients * single
    return (free ** -sharpness + capacity ** -sharpness) ** (-1 / sharpness)


def fit_processors():
    """Capacity and sharpness of the reporter's machine, from its btree figures alone."""
    single = REPORT["btree"][0] * 1e3

    def error(capacity, sharpness):
        return sum(
            math.log(by_processors(n, single, capacity, sharpness) / (x * 1e3)) ** 2
            for n, x in zip(REPORT_CLIENTS[1:], REPORT["btree"][1:])
        )

    return min(
        ((c * 1e3, p / 10) for c in range(500, 801, 2) for p in range(10, 81)),
        key=lambda cp: error(*cp),
    )


def predict(clients, single, capacity, sharpness, lock, visits):
    rate = by_processors(clients, single, capacity, sharpness)
    if lock is None:
        return rate
    think = clients / rate - visits * lock.alone
    return through_lock(clients, think, lock, visits)


def locks_of(rates):
    """The metapage of the built-in hash and of lazyhash, from our own measurements."""
    alone = 1 / rates["lazyhash:batch=1", 1] - 1 / rates["lazyhash", 1]
    if alone <= 0:
        sys.exit("scaling.py: batch = 1 was not slower than the default: nothing to model")
    return {
        name: Lock(alone, 1 / rates[contestant, 2], 1 / rates[contestant, 8])
        for name, contestant in (("hash", "hash"), ("lazyhash", "lazyhash:batch=1"))
    }


def parameters_table(rates, locks, capacity, sharpness):
    yield "| parameter | value | from |"
    yield "|---|--:|---|"
    yield (f"| a visit to the metapage, alone | {1e6 * locks['hash'].alone:.2f} µs | "
           "1 writer: lazyhash with batch = 1 less batch = 64 |")
    for name, contestant in (("hash", "hash"), ("lazyhash", "lazyhash, batch = 1")):
        lock = locks[name]
        yield (f"| the same with 2 at it, {name} | {1e6 * lock.pair:.2f} µs | "
               f"rows a second of {contestant}, 2 writers |")
        yield (f"| more for each doubling of the queue, {name} | {1e6 * lock.growth:.2f} µs | "
               f"the same, 8 writers against 2 |")
    yield (f"| what {REPORT_CORES} vCPUs manage | {capacity / 1e3:.0f} k/s | "
           "btree in the original report |")
    yield f"| roundness of the knee | {sharpness:.1f} | the same |"


def report_table(locks, machine):
    single = REPORT["btree"][0] * 1e3
    cases = (("btree", "btree (fitted)", None, 1),
             ("hash", "hash", locks["hash"], 1),
             ("batched", f"batched by {BATCH}", locks["hash"], 1 / BATCH))
    yield "| | " + " | ".join(f"{n} client{'s' * (n > 1)}" for n in REPORT_CLIENTS) + " |"
    yield "|---|" + "--:|" * len(REPORT_CLIENTS)
    for name, title, lock, visits in cases:
        yield f"| {title}: reported | " + " | ".join(f"{x} k" for x in REPORT[name]) + " |"
        yield f"| {title}: model | " + " | ".join(
            f"{predict(n, single, *machine, lock, visits) / 1e3:.0f} k"
            for n in REPORT_CLIENTS) + " |"


def cores_table(locks, machine):
    """Twice as many clients as cores; a core of the reporter's machine."""
    capacity, sharpness = machine
    single = REPORT["btree"][0] * 1e3
    cases = (("no lock at all", None, 1), ("hash", locks["hash"], 1),
             ("lazyhash, batch = 1", locks["lazyhash"], 1),
             *((f"lazyhash, batch = {b}", locks["lazyhash"], 1 / b) for b in (8, BATCH)))
    yield "| cores | " + " | ".join(title for title, _, _ in cases) + " |"
    yield "|--:|" + "--:|" * len(cases)
    for cores in CORES:
        scaled = capacity * cores / REPORT_CORES
        rates = (predict(2 * cores, single, scaled, sharpness, lock, visits)
                 for _, lock, visits in cases)
        yield f"| {cores} | " + " | ".join(f"{rate / 1e3:.0f} k" for rate in rates) + " |"


def tables(rates):
    locks = locks_of(rates)
    machine = fit_processors()
    yield from parameters_table(rates, locks, *machine)
    yield "\nInserts a second, the original report's and the model's:\n"
    yield from report_table(locks, machine)
    yield "\nInserts a second that the model expects, two clients a core:\n"
    yield from cores_table(locks, machine)


def update(path, text):
    with open(path) as page:
        before, _, rest = page.read().partition(MARKER_BEGIN)
    _, _, after = rest.partition(MARKER_END)
    with open(path, "w") as page:
        page.write(f"{before}{MARKER_BEGIN}\n\n{text}\n\n{MARKER_END}{after}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", metavar="FILE")
    parser.add_argument("records", metavar="INSERT.CSV")
    arguments = parser.parse_args()
    text = "\n".join(tables(measured(arguments.records)))
    if arguments.update:
        update(arguments.update, text)
    else:
        print(text)


if __name__ == "__main__":
    main()

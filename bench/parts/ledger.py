#!/usr/bin/env python3
"""Simulates what a linear hash index grows to, by who counts its rows.

    ledger.py [--capacity N] [--ffactor N] [--batch N] [--seed N] ROWS_A_SESSION ROWS

Sessions of so many rows each come one after the other; hash codes are uniformly random.  Prints
lines of NAME,METRIC,VALUE.  The rules are those of src/format/meta.h and src/access/insert.c.
What is left out: a page's own place in its chain (chains are as long as their entries need), and
sessions at the same time.
"""

import argparse
import random


class Index:
    """Buckets of hash codes, and what the metapage has been told of."""

    splits_for_count = 4
    splits_for_sign = 2

    def __init__(self, capacity, ffactor, batch):
        self.capacity = capacity
        self.ffactor = ffactor
        self.batch = batch
        self.buckets = [[]]
        self.told = 0

    def start_session(self):
        pass

    def insert(self, code):
        number = self.bucket_of(code)
        bucket = self.buckets[number]
        bucket.append(code)
        overflow = len(bucket) > 1 and len(bucket) % self.capacity == 1
        self.count(number, overflow)

    def bucket_of(self, code):
        newest = len(self.buckets) - 1
        highmask = (1 << newest.bit_length()) - 1
        number = code & highmask
        return number if number <= newest else number & (highmask >> 1)

    def count(self, number, overflow):
        """An entry came to that bucket, perhaps with an overflow page."""
        raise NotImplementedError

    def split_while_due(self, most, sign=False):
        while most > 0 and (self.is_due() or (sign and self.is_justified())):
            self.split()
            most -= 1

    def is_due(self):
        return self.told > self.ffactor * len(self.buckets)

    def is_justified(self):
        return 3 * self.told >= self.capacity * len(self.buckets)

    def split(self):
        target = len(self.buckets)
        source = target ^ (1 << (target.bit_length() - 1))
        mask = (1 << target.bit_length()) - 1
        entries = self.buckets[source]
        self.buckets.append([code for code in entries if code & mask == target])
        self.buckets[source] = [code for code in entries if code & mask != target]
        return source

    def pages(self, bucket):
        return max(1, -(-len(bucket) // self.capacity))

    def figures(self):
        rows = sum(len(bucket) for bucket in self.buckets)
        read = sum(len(bucket) * self.pages(bucket) for bucket in self.buckets)
        yield "buckets", len(self.buckets)
        yield "pages a lookup", read / rows
        yield "longest chain", max(self.pages(bucket) for bucket in self.buckets)
        yield "% not told", 100 * (rows - self.told) / rows


class EveryRow(Index):
    """Each insert tells: what the rule asks for."""

    def count(self, number, overflow):
        self.told += 1
        self.split_while_due(self.splits_for_count)


class Ledger(Index):
    """Each bucket knows what it has not told; a split, or an overflow page, tells all of it."""

    def __init__(self, *args):
        super().__init__(*args)
        self.pending = [0]

    def count(self, number, overflow):
        self.pending[number] += 1
        if overflow or self.pending[number] >= self.batch:
            self.post(number)
            self.split_while_due(self.splits_for_count)

    def post(self, number):
        self.told += self.pending[number]
        self.pending[number] = 0

    def split(self):
        self.pending.append(0)
        source = super().split()
        self.post(source)


class Counter(Index):
    """Each session counts for itself, and forgets the rest as it ends."""

    counted = 0

    def start_session(self):
        self.counted = 0

    def count(self, number, overflow):
        self.counted += 1
        if self.counted >= self.batch:
            self.tell()
            self.split_while_due(self.splits_for_count)

    def tell(self):
        self.told += self.counted
        self.counted = 0


class CounterAndSign(Counter):
    """An overflow page brings on splits too, if the count says that buckets are a third full."""

    def count(self, number, overflow):
        super().count(number, overflow)
        if overflow:
            self.tell()
            self.split_while_due(self.splits_for_sign, sign=True)


class CounterAndUnboundedSign(CounterAndSign):
    """... whatever the count says."""

    def is_justified(self):
        return True


CONTESTANTS = {
    "every row": EveryRow,
    "ledger": Ledger,
    "counter": Counter,
    "counter+overflow": CounterAndSign,
    "counter+unbounded": CounterAndUnboundedSign,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--capacity", type=int, default=812, help="entries that a page takes")
    parser.add_argument("--ffactor", type=int, default=609, help="entries a bucket should hold")
    parser.add_argument("--batch", type=int, default=64, help="rows told of at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("rows_a_session", type=int)
    parser.add_argument("rows", type=int)
    options = parser.parse_args()

    for name, kind in CONTESTANTS.items():
        numbers = random.Random(options.seed)
        index = kind(options.capacity, options.ffactor, options.batch)
        for row in range(options.rows):
            if row % options.rows_a_session == 0:
                index.start_session()
            index.insert(numbers.getrandbits(32))
        for metric, value in index.figures():
            print(f"{name},{metric},{value:.6g}")


if __name__ == "__main__":
    main()

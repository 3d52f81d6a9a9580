#!/usr/bin/env python3
"""A cache that is warm after a restart: results of a slow function, the oldest dropped beyond a limit.

    warm_cache.py HEAP NUMBER...     the largest prime factor of each number; says which were known
"""

import sys
import time

import holdfast


class Cache:
    """The results of a function of one argument, in a dict of the heap; the order of the dict is that of their use."""

    def __init__(self, heap, name, function, limit=1000):
        self.entries = heap.setdefault(name, {})
        self.function, self.limit = function, limit
        self.hits = self.misses = 0

    def __call__(self, argument):
        if argument in self.entries:
            self.hits += 1
            result = self.entries.pop(argument)
        else:
            self.misses += 1
            result = self.function(argument)
            while len(self.entries) >= self.limit:
                del self.entries[next(iter(self.entries))]
        self.entries[argument] = result  # the last place: used last
        return result


def largest_factor(number):
    """By trial division; slow on purpose."""
    factor, largest = 2, 1
    while factor * factor <= number:
        while number % factor == 0:
            number, largest = number // factor, factor
        factor += 1
    return max(number, largest)


def main(path, *numbers):
    """One run of the program."""
    with holdfast.open(path) as heap:
        cached = Cache(heap, "factors", largest_factor)
        begin = time.perf_counter()
        for number in map(int, numbers):
            print(number, cached(number))
        print(f"{cached.hits} known, {cached.misses} computed, {1000 * (time.perf_counter() - begin):.1f} ms")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])

#!/usr/bin/env python3
"""Processes that share a heap in Python: prints tables of transactions and look-ups a second.

    shared.py [--directory DIR] [--seconds 2] [--entries 100000] [--rounds 3]

Transactions: `with heap.transaction(): heap["n"] += 1`, by so many processes at once, all of them together; the first
row has the heap alone, without shared=True. Look-ups: `counts[key]` of a dict with so many entries, by one process:
while nobody writes, and while another one commits such transactions without a pause; there, with a refresh() after
each 1,000 look-ups. Medians of the rounds.
"""

import argparse
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time

import holdfast


def increments(path, shared, seconds, begin, results):
    """In a process: how many transactions it ends in that time."""
    with holdfast.open(path, "w", shared=shared) as heap:
        begin.wait()
        end, count = time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            with heap.transaction():
                heap["n"] += 1
            count += 1
    results.put(count)


def look_ups(path, seconds, refreshes, begin, results):
    """In a process: how many look-ups it ends in that time."""
    with holdfast.open(path, "w", shared=True) as heap:
        counts, keys = heap["counts"], [f"key {number}" for number in range(0, len(heap["counts"]), 101)]
        begin.wait()
        end, count, place = time.perf_counter() + seconds, 0, 0
        while time.perf_counter() < end:
            for _ in range(1000):
                counts[keys[place]]
                place = (place + 1) % len(keys)
            count += 1000
            if refreshes:
                heap.refresh()
    results.put(count)


def run(context, programs, seconds):
    """Starts the programs, each a function and its arguments, and returns what each has told, a second."""
    begin, queues = context.Barrier(len(programs)), [context.SimpleQueue() for _ in programs]
    processes = [
        context.Process(target=function, args=(*arguments, begin, queue))
        for (function, *arguments), queue in zip(programs, queues)
    ]
    for process in processes:
        process.start()
    told = [queue.get() / seconds for queue in queues]
    for process in processes:
        process.join()
    return told


def main():
    """Measures, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", default=tempfile.gettempdir())
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    context, seconds = multiprocessing.get_context("spawn"), wanted.seconds
    work = tempfile.mkdtemp(dir=wanted.directory)
    path = os.path.join(work, "heap.hf")
    with holdfast.open(path, shared=True) as heap:
        heap.update({"n": 0, "counts": {f"key {number}": number for number in range(wanted.entries)}})
    writer = (increments, path, True, seconds)
    cases = {
        "1 process, not shared": [(increments, path, False, seconds)],
        **{f"{count} shared": [writer] * count for count in (1, 2, 4)},
        "look-ups, nobody writes": [(look_ups, path, seconds, False)],
        "look-ups, nobody writes, refresh": [(look_ups, path, seconds, True)],
        "look-ups beside a writer": [(look_ups, path, seconds, False), writer],
        "look-ups beside a writer, refresh": [(look_ups, path, seconds, True), writer],
    }
    told = {name: [] for name in cases}
    for _ in range(wanted.rounds):
        for name, programs in cases.items():
            rates = run(context, programs, seconds)
            told[name].append(rates[0] if name.startswith("look") else sum(rates))
    shutil.rmtree(work)
    print("| work | a second |\n|---|---|")
    for name, rates in told.items():
        print(f"| {name} | {statistics.median(rates):,.0f} |")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Processes that search a VectorIndex while another one adds to it: prints a table.

    vectors_beside_writer.py [--heap DIR/heap] [--vectors 100000] [--dimensions 32] [--readers 8] [--seconds 5]

--heap: a heap that `compare_vectors.py --keep DIR` has left; else one of so many vectors is made. The first row has the
readers alone, the second one readers that refresh after each search, beside a process that adds vectors one by one,
each durable when the call has returned. Searches a second of all readers; the median and the 99th part of a search, in
microseconds; vectors added a second; and how many of those that were added before its last refresh a reader has not
found by themselves as the nearest: each is asked for up to 200 of them.
"""

import argparse
import multiprocessing
import os
import platform
import shutil
import tempfile
import time

import numpy

import holdfast

FIRST_ADDED = 10**9  # keys


def vector_of(number, dimensions):
    """The one that is added under that number."""
    return numpy.random.default_rng(number).standard_normal(dimensions).astype("f4")


def read(path, seconds, refreshes, begin, ends, results):
    """Searches until the time is over."""
    heap = holdfast.open(path, "r")
    index = holdfast.VectorIndex(heap, "vectors")
    dimensions = heap["vectors"]["dimensions"]
    asked = [vector_of(number, dimensions) for number in range(256)]
    index.search(asked[0])
    begin.wait()
    times = []
    end = time.perf_counter() + seconds
    while (now := time.perf_counter()) < end:
        if refreshes:
            heap.refresh()
        index.search(asked[len(times) % len(asked)])
        times.append(time.perf_counter() - now)
    ends.wait()
    lost = 0
    if refreshes:
        heap.refresh()
        added = [key for key in range(FIRST_ADDED, FIRST_ADDED + 200) if key in index]
        lost = sum(index.search(index[key], 1)[0].key != key for key in added)
        assert added
    results.put((times, lost))


def write(path, seconds, begin, ends, results):
    """Adds until the time is over."""
    with holdfast.open(path, "w") as heap:
        index = holdfast.VectorIndex(heap, "vectors")
        dimensions = heap["vectors"]["dimensions"]
        first = FIRST_ADDED
        while first in index:
            first += 1
        index.add(first, vector_of(first, dimensions))
        begin.wait()
        end, count = time.perf_counter() + seconds, 1
        while time.perf_counter() < end:
            index.add(first + count, vector_of(first + count, dimensions))
            count += 1
        ends.wait()
    results.put(count)


def measure(path, readers, seconds, writes):
    """A row."""
    begin, ends = (multiprocessing.Barrier(readers + writes) for _ in range(2))
    results, added = multiprocessing.Queue(), multiprocessing.Queue()
    arguments = (path, seconds, writes, begin, ends, results)
    processes = [multiprocessing.Process(target=read, args=arguments) for _ in range(readers)]
    if writes:
        processes.append(multiprocessing.Process(target=write, args=(path, seconds, begin, ends, added)))
    for process in processes:
        process.start()
    found = [results.get() for _ in range(readers)]
    count = added.get() if writes else 0
    for process in processes:
        process.join()
    times = numpy.concatenate([numpy.array(each) for each, _ in found]) * 1e6
    median, late = numpy.percentile(times, (50, 99))
    lost = sum(each for _, each in found)
    name = "beside a writer" if writes else "alone"
    rate = len(times) / seconds
    print(f"{name:16}{rate:14.0f}{median:12.0f}{late:12.0f}{count / seconds:12.0f}{lost:12}", flush=True)


def main():
    """Two rows."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--heap")
    options.add_argument("--directory")
    options.add_argument("--vectors", type=int, default=100_000)
    options.add_argument("--dimensions", type=int, default=32)
    options.add_argument("--readers", type=int, default=8)
    options.add_argument("--seconds", type=float, default=5)
    wanted = options.parse_args()
    multiprocessing.set_start_method("spawn")
    work = None if wanted.heap else tempfile.mkdtemp(dir=wanted.directory)
    path = wanted.heap or work + "/heap"
    try:
        if work:
            with holdfast.open(path) as heap:
                vectors = numpy.random.default_rng(1).standard_normal((wanted.vectors, wanted.dimensions), "f4")
                holdfast.VectorIndex(heap, "vectors", wanted.dimensions).add(range(len(vectors)), vectors)
        with holdfast.open(path, "r") as heap:
            count = len(holdfast.VectorIndex(heap, "vectors"))
        print(
            f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, {platform.platform()}\n{count} vectors, "
            f"{wanted.readers} readers\n\n{'':16}{'searches/s':>14}{'median, us':>12}{'99 %, us':>12}{'added/s':>12}"
            f"{'not found':>12}"
        )
        for writes in (False, True):
            measure(path, wanted.readers, wanted.seconds, writes)
    finally:
        if work:
            shutil.rmtree(work)


if __name__ == "__main__":
    main()

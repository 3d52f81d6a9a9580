#!/usr/bin/env python3
"""Holdfast in Python beside numpy.memmap, h5py, zarr, shelve, diskcache, sqlitedict and lmdb: prints four tables.

    compare.py [--directory DIR] [--mebibytes 1024] [--zeros 2304] [--entries 20000] [--rounds 5]

Imports: milliseconds that a new process takes for each package, behind that of numpy.
Zeros: an array of so many MiB is made by a new process in a new file: milliseconds, and MiB of memory that it took.
Arrays: one of so many MiB, opened and summed, by a new process each time, with the file in the page cache.
Entries: microseconds for each set of a new key, each set of one that is there and each get, of 100 bytes under a key of
text, in a process that has the store open; sets are durable as the column says.

Each figure is the median of the rounds, in which the programs take turns. The package of each competitor is on PyPI;
one that is not installed is left out, and named. usearch and other indexes of vectors: compare_vectors.py.
"""

import argparse
import contextlib
import importlib
import importlib.util
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import holdfast

LOAD = """
import sys, time, numpy
begin = time.perf_counter()
__import__(sys.argv[1])
print(time.perf_counter() - begin)
"""

ZEROS = """
import resource, sys, time
name, path, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
import numpy
if name.startswith("holdfast"):
    import holdfast
    durability = name.split()[1]
    crash = {} if durability == "commit" else {"accept_process_crash_only": True}
    heap = holdfast.open(path, durability=durability, **crash)
    make = lambda: heap.array("x", (rows, 1024), "f8")
elif name == "memmap":
    make = lambda: numpy.memmap(path, "f8", "w+", shape=(rows, 1024))
elif name == "h5py":
    import h5py
    file = h5py.File(path, "w")
    def make():
        file.create_dataset("x", (rows, 1024), "f8")
        file.flush()
else:
    import zarr
    make = lambda: zarr.create_array(path, shape=(rows, 1024), chunks=(1024, 1024), dtype="f8")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begin = time.perf_counter()
kept = make()
end = time.perf_counter()
print(end - begin, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""

SUM = """
import sys, time
name, path = sys.argv[1:]
import numpy
if name == "holdfast":
    import holdfast
elif name in ("h5py", "zarr"):
    module = __import__(name)
begin = time.perf_counter()
if name == "holdfast":
    array = holdfast.open(path, mode="r")["x"]
elif name == "h5py":
    array = module.File(path, "r")["x"]
elif name == "zarr":
    array = module.open_array(path, mode="r")
else:
    array = numpy.load(path, mmap_mode="r") if name == "memmap" else numpy.load(path)
opened = time.perf_counter()
total = array[:].sum()
print(opened - begin, time.perf_counter() - opened, total)
"""


class Store:
    """A mapping under test: how it is opened, what a set promises, and the block that all sets are done in."""

    def __init__(self, name, promise, opener, commit=None, block=None):
        self.name, self.promise, self.opener = name, promise, opener
        self.commit = commit or (lambda store: None)
        self.block = block or (lambda store: contextlib.nullcontext())


class TextStore:
    """holdfast.Store with keys of text: a transaction for each call."""

    def __init__(self, path):
        self.store = holdfast.Store(path, durable=False)

    def __setitem__(self, key, value):
        self.store[key.encode()] = value

    def __getitem__(self, key):
        return self.store[key.encode()]

    def close(self):
        self.store.close()


class Lmdb:
    """lmdb as a mapping: a transaction for each call."""

    def __init__(self, path):
        self.environment = importlib.import_module("lmdb").open(path, map_size=1 << 30, sync=False)

    def __setitem__(self, key, value):
        with self.environment.begin(write=True) as transaction:
            transaction.put(key.encode(), value)

    def __getitem__(self, key):
        with self.environment.begin() as transaction:
            return transaction.get(key.encode())

    def close(self):
        self.environment.close()


def absent(names):
    """Those of the packages that are not installed."""
    return [name for name in names if importlib.util.find_spec(name) is None]


def stores():
    """Those that can be imported."""
    found = [
        Store("holdfast commit", "with commit()", holdfast.open, lambda heap: heap.commit()),
        Store(
            "  in a transaction", "with its end", holdfast.open, lambda heap: None, lambda heap: heap.transaction()
        ),
        Store(
            "holdfast atomic", "crash of the process",
            lambda path: holdfast.open(path, durability="atomic", accept_process_crash_only=True),
        ),
        Store("holdfast.Store", "crash of the process", TextStore),
        Store("shelve", "with close()", importlib.import_module("shelve").open),
    ]  # fmt: skip
    left = absent(("lmdb", "diskcache", "sqlitedict"))
    if "lmdb" not in left:
        found.append(Store("lmdb (sync=False)", "crash of the process", Lmdb))
    if "diskcache" not in left:
        found.append(Store("diskcache", "crash of the process", importlib.import_module("diskcache").Cache))
    if "sqlitedict" not in left:
        opener = importlib.import_module("sqlitedict").SqliteDict
        found.append(Store("sqlitedict", "with commit()", opener, lambda store: store.commit()))
    return found


def told_by(program, *arguments):
    """What a new process prints."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    # pip compiles what it installs: without this, packages would be compiled at each import.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    told = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if told.returncode != 0:
        raise RuntimeError(f"{arguments}: {told.stderr}")
    return [float(each) for each in told.stdout.split()]


def print_table(titles, rows):
    """`rows`: by name, what the rounds have measured; of each column the median, and of the first one the least."""
    print(f"{'':20}" + "".join(f"{title:>14}" for title in titles) + f"{'least':>14}")
    for name, rounds in rows.items():
        columns = list(zip(*rounds))
        cells = "".join(f"{statistics.median(column):14.2f}" for column in columns)
        print(f"{name:20}{cells}{min(columns[0]):14.2f}", flush=True)


def measure_imports(rounds):
    """The first table."""
    wanted = ["holdfast", "h5py", "zarr", "lmdb", "diskcache", "shelve", "usearch.index", "pandas"]
    wanted = [name for name in wanted if name.split(".")[0] not in absent([each.split(".")[0] for each in wanted])]
    times = {name: [] for name in wanted}
    for turn in range(2 * rounds + 1):
        for name in wanted:
            told = told_by(LOAD, name)
            if turn > 0:  # the first one fills the page cache
                times[name].append([1e3 * told[0]])
    print("Imports behind numpy's:\n")
    print_table(["ms"], times)


def measure_zeros(directory, mebibytes, rounds):
    """The second table."""
    wanted = ["holdfast commit", "holdfast atomic", "holdfast collect", "memmap", "h5py", "zarr"]
    wanted = [name for name in wanted if name not in absent(("h5py", "zarr"))]
    times = {name: [] for name in wanted}
    for turn in range(rounds):
        for name in wanted:
            path = f"{directory}/zeros-{turn}"
            seconds, memory = told_by(ZEROS, name, path, mebibytes * 128)
            times[name].append([1e3 * seconds, memory])
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    print(f"\nAn array of {mebibytes} MiB of zeros is made:\n")
    print_table(["ms", "memory, MiB"], times)


def measure_arrays(directory, mebibytes, rounds):
    """The third table."""
    array = numpy.random.default_rng(1).random(mebibytes << 17)
    expected = array.sum()
    numpy.save(directory + "/x.npy", array)
    with holdfast.open(directory + "/x.hf") as heap:
        heap["x"] = array
    wanted = {"holdfast": "x.hf", "memmap": "x.npy", "numpy.load": "x.npy", "h5py": "x.h5", "zarr": "x.zarr"}
    for name in absent(("h5py", "zarr")):
        del wanted[name]
    if "h5py" in wanted:
        with importlib.import_module("h5py").File(directory + "/x.h5", "w") as file:
            file["x"] = array
    if "zarr" in wanted:
        zarr = importlib.import_module("zarr")
        zarr.create_array(directory + "/x.zarr", data=array, chunks=(1 << 20,), compressors=None)
    del array
    times = {name: [] for name in wanted}
    for turn in range(rounds + 1):  # the first round fills the page cache
        for name, file in wanted.items():
            opened, summed, total = told_by(SUM, name, f"{directory}/{file}")
            assert abs(total - expected) < 1e-6 * abs(expected)
            if turn > 0:
                times[name].append((1e3 * opened, 1e3 * summed))
    print(f"\nAn array of {mebibytes} MiB is opened and summed:\n")
    print_table(["open, ms", "sum, ms"], times)


def measure_stores(directory, entries, rounds):
    """The fourth table."""
    found = stores()
    keys = [f"key {i * 7919 % entries}" for i in range(entries)]
    value, other = bytes(range(100)), bytes(range(100, 200))
    times = {store.name: [] for store in found}
    for turn in range(rounds):
        for store in found:
            path = f"{directory}/{turn}-{store.name.strip().replace(' ', '-')}"
            opened = store.opener(path)
            begin = time.perf_counter()
            with store.block(opened):
                for key in keys:
                    opened[key] = value
            store.commit(opened)
            made = time.perf_counter()
            with store.block(opened):
                for key in keys:
                    opened[key] = other
            store.commit(opened)
            changed = time.perf_counter()
            with store.block(opened):
                read = time.perf_counter()
                for key in keys:
                    if opened[key] != other:
                        raise ValueError(f"{store.name} has lost {key}")
                end = time.perf_counter()
            opened.close()
            spans = (made - begin, changed - made, end - read)
            times[store.name].append([each / entries * 1e6 for each in spans])
    print(f"\n{entries} entries of 100 bytes:\n")
    print_table(["new key, us", "set, us", "get, us"], times)
    print("\nA set is durable: " + "; ".join(f"{store.name.strip()}: {store.promise}" for store in found))


def main():
    """All tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--directory", default=None)
    options.add_argument("--mebibytes", type=int, default=1024)
    options.add_argument("--zeros", type=int, default=2304)
    options.add_argument("--entries", type=int, default=20000)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    directory = tempfile.mkdtemp(dir=chosen.directory)
    try:
        print(
            f"Python {platform.python_version()}, numpy {numpy.__version__}, {os.cpu_count()} processors, load "
            f"{os.getloadavg()[0]:.1f}"
        )
        if left := absent(("h5py", "zarr", "lmdb", "diskcache", "sqlitedict", "usearch", "pandas")):
            print(f"not installed: {', '.join(left)}")
        measure_imports(chosen.rounds)
        measure_zeros(directory, chosen.zeros, chosen.rounds)
        measure_arrays(directory, chosen.mebibytes, chosen.rounds)
        measure_stores(directory, chosen.entries, chosen.rounds)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()

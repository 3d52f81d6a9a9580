"""Transactions in durability "commit": elements of arrays are part of them, and they are durable at their end."""

import signal
import subprocess
import sys
import threading

import numpy
import pytest

import holdfast

# Prints the number of each transaction that has ended, until it is killed.
COUNTER = """
import sys, holdfast
heap = holdfast.open(sys.argv[1], durability="commit")
array, n = heap["a"], heap["n"]
while True:
    n += 1
    with heap.transaction():
        array[: len(array) // 2] = n
        heap["d"][n] = [n, {"n": n}]
        heap["l"].append(n)
        heap["n"] = n
        array[len(array) // 2 :] = n
    print(n, flush=True)
"""


@pytest.fixture
def heap(path):
    with holdfast.open(path, durability="commit") as made:
        made["a"] = numpy.arange(100_000)
        made["d"] = {"x": [1]}
        yield made


def test_an_exception_takes_back_what_was_stored_to_arrays(heap):
    array = heap["a"]
    part = array[50_000:]
    array[0] = 7  # before the transaction, and not committed: it stays
    with pytest.raises(ZeroDivisionError):
        with heap.transaction():
            array[:] = 0
            part += 5
            heap["d"]["x"].append(2)
            del heap["a"]
            1 / 0
    expected = numpy.arange(100_000)
    expected[0] = 7
    assert (array == expected).all() and (part == expected[50_000:]).all()
    assert (heap["a"] == expected).all() and heap["d"] == {"x": [1]}
    assert heap.check() == []
    array[1] = 8
    assert heap["a"][1] == 8


def test_a_transaction_is_durable_at_its_end_with_its_arrays(path):
    with holdfast.open(path, durability="commit") as heap:
        heap["a"] = numpy.zeros(10)
        with heap.transaction():
            heap["a"][:] = 1
            heap["d"] = {"x": 1}
        with heap.transaction(durable=False):
            heap["a"][:] = 2
        heap.close(commit=False)
    with holdfast.open(path, mode="r") as heap:
        assert (heap["a"] == 1).all() and heap["d"] == {"x": 1}


def test_a_killed_process_leaves_each_transaction_as_a_whole(path):
    with holdfast.open(path, durability="commit") as heap:
        heap.update({"a": numpy.zeros(4096, "i8"), "d": {}, "l": [], "n": 0})
    for kill_after in (1, 7, 20):
        with subprocess.Popen([sys.executable, "-c", COUNTER, path], stdout=subprocess.PIPE, text=True) as child:
            told = [int(child.stdout.readline()) for _ in range(kill_after)]
            child.send_signal(signal.SIGKILL)
            told += [int(line) for line in child.stdout if line.endswith("\n")]
        with holdfast.open(path, durability="commit") as heap:
            n = heap["n"]
            assert n in (told[-1], told[-1] + 1)
            assert (heap["a"] == n).all()
            assert heap["d"] == {i: [i, {"n": i}] for i in range(1, n + 1)} and heap["l"] == list(range(1, n + 1))
            assert heap.check() == []


def test_other_threads_run_while_one_waits_for_its_turn(heap):
    entered, counted, leave = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def first():
        with heap.transaction():
            heap["a"][0] = 1
            entered.set()
            leave.wait()

    def second():
        entered.wait()
        with heap.transaction():
            seen.append(int(heap["a"][0]))

    def third():
        entered.wait()
        sum(range(100_000))
        counted.set()

    threads = [threading.Thread(target=each) for each in (first, second, third)]
    [thread.start() for thread in threads]
    assert counted.wait(30) and seen == []
    leave.set()
    [thread.join() for thread in threads]
    assert seen == [1]


def test_threads_that_count_in_an_array_lose_no_count(heap):
    heap["c"] = numpy.zeros(1, "i8")

    def count(fails):
        for i in range(50):
            try:
                with heap.transaction():
                    heap["c"][0] += 1
                    if fails and i % 2:
                        raise KeyError(i)
            except KeyError:
                pass

    threads = [threading.Thread(target=count, args=(i % 2,)) for i in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert heap["c"][0] == 150


def test_a_change_that_has_no_space_takes_arrays_back(path):
    with holdfast.open(path, durability="commit", maximum_size=8 << 20) as heap:
        heap["a"] = numpy.zeros(1000)
        with pytest.raises(holdfast.ClosedError, match="taken back"):
            with heap.transaction():
                heap["a"][:] = 1
                with pytest.raises(MemoryError):
                    heap["b"] = b"0" * (64 << 20)
        assert not heap["a"].any() and "b" not in heap
        with heap.transaction():
            heap["a"][:] = 2
        assert (heap["a"] == 2).all() and heap.check() == []


@pytest.mark.parametrize("durability", ["atomic", "collect"])
def test_other_durabilities_leave_the_elements_of_arrays_out(path, durability):
    with holdfast.open(path, durability=durability, accept_process_crash_only=True) as heap:
        heap["a"], heap["n"] = numpy.zeros(10), 1
        with pytest.raises(ZeroDivisionError):
            with heap.transaction():
                heap["a"][:], heap["n"] = 1, 2
                1 / 0
        assert heap["a"].all() and heap["n"] == 1

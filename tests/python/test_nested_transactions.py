"""Transactions within others, and those that are durable later."""

import asyncio
import random
import threading
import time

import numpy
import pytest

import holdfast
from conftest import run_python


class Dropped(Exception):
    """What a part is dropped by."""


def test_an_inner_part_is_dropped_alone(heap):
    heap["d"], heap["l"] = {"kept": [1]}, [1]
    with heap.transaction():
        heap["d"]["outer"] = {"x": 1}
        outer = heap["d"]["outer"]
        with pytest.raises(Dropped):
            with heap.transaction():
                outer["x"] = 2
                heap["d"]["kept"].append(2)
                heap["d"]["inner"] = {"y": [1]}
                inner = heap["d"]["inner"]
                heap["l"][:] = [7, 8]
                raise Dropped
        with pytest.raises(holdfast.NotFoundError):
            inner["y"]
        assert outer == {"x": 1} and heap["l"] == [1] and heap["d"] == {"kept": [1], "outer": {"x": 1}}
        with heap.transaction():
            heap["l"].append(2)
            with heap.transaction():
                outer["x"] = 3
    assert heap == {"d": {"kept": [1], "outer": {"x": 3}}, "l": [1, 2]}
    assert heap.check() == []


def test_an_outer_exception_takes_inner_parts_back(heap):
    heap["x"] = {"n": 0}
    allocated = heap.statistics()["allocated"]
    with pytest.raises(Dropped):
        with heap.transaction():
            with heap.transaction():
                heap["x"]["n"] = 1
                heap["new"] = {"a": [1, 2, 3]}
                made = heap["new"]
            assert made == {"a": [1, 2, 3]}
            raise Dropped
    with pytest.raises(holdfast.NotFoundError):
        made["a"]
    assert heap == {"x": {"n": 0}} and heap.statistics()["allocated"] == allocated and heap.check() == []


def test_elements_of_arrays_go_back_with_their_part(path):
    with holdfast.open(path) as heap:
        heap["a"] = numpy.zeros(100_000)
        array = heap["a"]
        with heap.transaction():
            array[:] = 1
            for number in range(5):
                with pytest.raises(Dropped):
                    with heap.transaction():
                        array[::7] = 2
                        heap["b"] = numpy.ones(10)
                        raise Dropped
                with heap.transaction():
                    array[number] = 3
        expected = numpy.ones(100_000)
        expected[:5] = 3
        assert (array == expected).all() and "b" not in heap
        heap.close(commit=False)
        del array
    with holdfast.open(path, "r") as heap:
        assert (heap["a"] == expected).all()


def test_a_failed_change_fails_its_part_alone(path):
    with holdfast.open(path, maximum_size=4 << 20) as heap:
        with heap.transaction():
            heap["x"] = 1
            with pytest.raises(holdfast.ClosedError, match="taken back"):
                with heap.transaction():
                    heap["x"] = 2
                    with pytest.raises(MemoryError):
                        heap["y"] = b"0" * (64 << 20)
                    with pytest.raises(holdfast.ClosedError), heap.transaction():
                        pass
            assert heap == {"x": 1}
            heap["z"] = 3
        assert heap == {"x": 1, "z": 3} and heap.check() == []


def test_a_part_that_is_left_open_takes_the_whole_back(heap):
    heap["x"] = 0
    with pytest.raises(holdfast.ClosedError, match="within it that is open"):
        with heap.transaction():
            heap["x"] = 1
            inner = heap.transaction()
            inner.__enter__()
            heap["x"] = 2
    assert heap == {"x": 0}
    with pytest.raises(ValueError, match="has ended"):
        inner.__exit__(None, None, None)
    with heap.transaction():
        heap["x"] = 3
    assert heap == {"x": 3}


def test_a_function_that_is_a_transaction_may_call_itself(heap):
    heap["l"] = []

    @heap.transaction()
    def add(number):
        heap["l"].append(number)
        if number:
            add(number - 1)
        if number == 1:
            raise Dropped

    @heap.transaction()
    def add_if_it_can(number):
        heap["l"].append("before")
        try:
            add(number)
        except Dropped:
            heap["l"].append("dropped")

    add_if_it_can(3)
    assert heap["l"] == ["before", "dropped"]


def test_rows_of_arrays_go_back_with_their_part(heap):
    heap["old"] = numpy.arange(4)
    heap.append("old", range(4, 8))  # from now on there is room behind it
    with heap.transaction():
        heap["new"] = numpy.arange(4)
        heap.append("new", range(4, 8))
        for key in ("old", "new"):
            with pytest.raises(Dropped):
                with heap.transaction():
                    heap.append(key, [8])
                    with heap.transaction():
                        heap.append(key, [9])
                        heap.resize(key, 5)
                    heap.append(key, range(100))
                    raise Dropped
            assert (heap[key] == range(8)).all()
            with heap.transaction():
                heap.append(key, 77)
    for key in ("old", "new"):
        assert heap[key].tolist() == [*range(8), 77]
    assert heap.check() == []


@pytest.mark.parametrize("durability", ["atomic", "collect"])
def test_many_parts_in_a_transaction_that_has_changed_much_take_no_longer(path, durability):
    heap = holdfast.open(path, durability=durability, accept_process_crash_only=True)
    heap["d"] = {}

    def parts(begin):
        start = time.process_time()
        for number in range(begin, begin + 300):
            with heap.transaction():
                heap["d"][number] = [number]
        return time.process_time() - start

    with heap.transaction():
        first = min(parts(0), parts(300))
        heap["d"].update({str(number): [number] for number in range(30_000)})
        with pytest.raises(Dropped), heap.transaction():
            heap["d"].clear()
            raise Dropped
        last = min(parts(1000), parts(1300))
    assert len(heap["d"]) == 31_200 and heap.check() == []
    assert last < 10 * first + 0.1  # was: 100 times as long


def change_at_random(chance, heap, model):
    """One change, of a heap and of a dict of Python."""
    kind = chance.randrange(6)
    key = f"key {chance.randrange(20)}"
    if kind == 0:
        heap[key] = model[key] = chance.randrange(1000)
    elif kind == 1:
        heap[key], model[key] = [1, {"x": [2]}], [1, {"x": [2]}]
    elif kind == 2:
        assert heap.to_python().pop(key, None) == model.get(key)
        heap.pop(key, None), model.pop(key, None)
    elif kind == 3 and isinstance(model.get(key), list):
        number = chance.randrange(1000)
        heap[key].append(number), model[key].append(number)
        if isinstance(model[key][1], dict):
            heap[key][1][number] = (number,)
            model[key][1][number] = (number,)
    elif kind == 4:
        heap["text"] = model["text"] = "x" * chance.randrange(3000)
    elif kind == 5 and chance.random() < 0.1:
        heap.clear(), model.clear()


def run_parts(chance, heap, model, depth):
    """A transaction of random changes and parts; returns what the model is behind it."""
    import copy

    within = copy.deepcopy(model)
    try:
        with heap.transaction(durable=depth == 0 and chance.random() < 0.2):
            for _ in range(chance.randrange(6)):
                if depth < 4 and chance.random() < 0.4:
                    within = run_parts(chance, heap, within, depth + 1)
                else:
                    change_at_random(chance, heap, within)
                assert heap == within
            if chance.random() < 0.4:
                raise Dropped
    except Dropped:
        return model
    return within


@pytest.mark.parametrize("seed", range(3))
def test_random_parts_leave_what_a_dict_of_python_has(open_heap, seed):
    chance, model = random.Random(seed), {}
    with open_heap() as heap:
        for _ in range(60):
            model = run_parts(chance, heap, model, 0)
            assert heap == model
        assert heap.check() == []
    with open_heap() as heap:
        assert heap == model
        heap.clear()
        heap.commit()


def test_the_ticket_of_a_transaction_says_when_it_is_durable(path):
    run_python(
        """
import holdfast, os, sys
heap = holdfast.open(sys.argv[1])
change = heap.transaction(durable=False)
assert change.ticket is None
with change:
    heap["x"] = 1
version = heap.version
change.ticket.wait()
assert heap.version > version
change.ticket.wait()
with heap.transaction() as _, heap.transaction(durable=False) as _:
    heap["y"] = 2
os._exit(0)
""",
        path,
    )
    with holdfast.open(path, "r") as heap:
        assert heap == {"x": 1, "y": 2}


def test_commit_later_takes_the_state_of_its_moment(path):
    run_python(
        """
import holdfast, numpy, os, sys
heap = holdfast.open(sys.argv[1])
heap["a"] = numpy.zeros(100_000)
heap.commit()
heap["a"][:] = 1
heap["x"] = {"y": 1}
ticket = heap.commit_later()
heap["a"][:] = 2
heap["x"]["y"] = 2
ticket.wait()
os._exit(0)
""",
        path,
    )
    with holdfast.open(path, "r") as heap:
        assert (heap["a"] == 1).all() and heap["x"] == {"y": 1}


def test_tickets_of_every_durability_can_be_waited_for(heap):
    change = heap.transaction(durable=False)
    with change:
        heap["x"] = 1
    change.ticket.wait()
    heap.commit_later().wait()

    async def write():
        async with heap.transaction(durable=False):
            heap["x"] = 2
        await asyncio.to_thread(heap.commit_later().wait)

    asyncio.run(write())
    with heap.transaction(), pytest.raises(holdfast.Error):
        heap.commit_later()
    dropped = heap.transaction(durable=False)
    with pytest.raises(Dropped), dropped:
        raise Dropped
    assert dropped.ticket is None and heap == {"x": 2}


def test_a_close_waits_for_the_threads_that_wait_for_tickets(path):
    def wait(ticket):
        ticket.wait()
        told.append("durable")

    for number in range(10):
        heap, told = holdfast.open(path), []
        heap.array("a", 1_000_000)[:] = number
        ticket = heap.commit_later()
        threads = [threading.Thread(target=wait, args=(ticket,)) for _ in range(2)]
        [thread.start() for thread in threads]
        heap.close()
        [thread.join() for thread in threads]
        assert len(told) == 2
    with holdfast.open(path, "r") as heap:
        assert (heap["a"] == 9).all()


def test_a_ticket_has_come_true_behind_a_close_that_has_committed(path):
    with holdfast.open(path) as heap:
        change = heap.transaction(durable=False)
        with change:
            heap["x"] = 1
        with heap.transaction(durable=False), pytest.raises(holdfast.ClosedError, match="sync"):
            change.ticket.wait()
    change.ticket.wait()
    with holdfast.open(path, "r") as heap:
        assert heap == {"x": 1}


def test_a_ticket_is_an_error_behind_a_close_without_a_commit(path):
    heap = holdfast.open(path)
    change = heap.transaction(durable=False)
    with change:
        heap["x"] = 1
    heap.close(commit=False)
    with pytest.raises(holdfast.ClosedError):
        change.ticket.wait()
    with holdfast.open(path, "r") as heap:
        assert heap == {}

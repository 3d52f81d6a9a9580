"""Transactions belong to a task: those of asyncio, and contexts of other frameworks."""

import asyncio
import contextvars
import threading

import pytest

import holdfast


class Turn:
    """Awaited, it lets the other tasks have their turn."""

    def __await__(self):
        yield


turn = Turn()


def run(body):
    """Runs a coroutine; one that hangs fails the test."""
    return asyncio.run(asyncio.wait_for(body, 20))


def test_what_another_task_stores_is_not_lost_with_the_transaction(heap):
    told = []

    async def first(entered, goes_on):
        with pytest.raises(ZeroDivisionError):
            with heap.transaction():
                heap["mine"] = 1
                entered.set()
                await goes_on.wait()
                1 / 0

    async def second(entered, goes_on):
        await entered.wait()
        with pytest.raises(holdfast.ClosedError, match="async with") as failure:
            heap["acknowledged"] = 1  # was: joined the transaction, and was taken back with it
        told.append(failure.value.field)
        for refused in (heap.clear, lambda: heap.array("x", 3), heap.transaction().__enter__, heap.commit, heap.close):
            with pytest.raises((holdfast.ClosedError, RuntimeError)):
                refused()
        goes_on.set()
        async with heap.transaction():
            heap["acknowledged"] = 2

    async def both():
        entered, goes_on = asyncio.Event(), asyncio.Event()
        await asyncio.gather(first(entered, goes_on), second(entered, goes_on))

    run(both())
    assert told == ["transaction"]
    assert heap == {"acknowledged": 2}


def test_another_task_reads_what_was_there_before(heap):
    heap.update({"d": {"old": 1}, "l": [1, 2]})

    async def reader(entered, goes_on):
        await entered.wait()
        assert heap == {"d": {"old": 1}, "l": [1, 2]}
        assert [*heap["d"].items()] == [("old", 1)] and heap["l"][1] == 2 and "new" not in heap["d"]
        with pytest.raises(holdfast.ClosedError):
            len(made[0])  # a dict that the transaction has made
        goes_on.set()

    async def writer(entered, goes_on):
        async with heap.transaction():
            heap["d"]["new"] = {"x": 1}
            made.append(heap["d"]["new"])
            heap["l"][:] = ["a"] * 50
            entered.set()
            await goes_on.wait()
            assert made[0] == {"x": 1} and len(heap["l"]) == 50
        assert len(made[0]) == 1

    async def both():
        entered, goes_on = asyncio.Event(), asyncio.Event()
        await asyncio.gather(writer(entered, goes_on), reader(entered, goes_on))

    made = []
    run(both())
    assert heap == {"d": {"old": 1, "new": {"x": 1}}, "l": ["a"] * 50}
    assert heap.check() == []


def test_tasks_wait_for_each_other_and_lose_no_count(heap):
    heap["n"] = 0

    async def count():
        for _ in range(20):
            async with heap.transaction(durable=False):
                before = heap["n"]
                await turn
                heap["n"] = before + 1

    async def all_of_them():
        await asyncio.gather(*(count() for _ in range(20)))

    run(all_of_them())
    assert heap["n"] == 400


def test_tasks_wait_for_threads_while_the_loop_goes_on(heap):
    begun, ends = threading.Event(), threading.Event()

    def hold():
        with heap.transaction():
            heap["order"] = ["thread"]
            begun.set()
            ends.wait()

    async def task():
        async with heap.transaction():
            heap["order"].append("task")

    async def all_of_it():
        waiting = asyncio.create_task(task())
        for _ in range(10):  # the loop turns
            await turn
        assert not waiting.done()
        ends.set()
        await waiting

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    run(all_of_it())
    thread.join()
    assert heap["order"] == ["thread", "task"]


def test_a_wait_that_is_cancelled_leaves_no_transaction(heap):
    async def task():
        async with heap.transaction():
            raise AssertionError("entered")

    async def all_of_it():
        async with heap.transaction():
            await turn
        loop = asyncio.get_running_loop()
        async with heap.transaction():
            waiting = loop.create_task(task(), context=contextvars.Context())
            await turn
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        async with heap.transaction():
            heap["x"] = 1

    run(all_of_it())
    assert heap == {"x": 1}


def test_a_task_that_was_started_within_is_no_part_of_it(heap):
    async def child():
        with pytest.raises(holdfast.ClosedError):
            heap["x"] = 1
        with pytest.raises(holdfast.ClosedError):
            async with heap.transaction():  # would wait for its parent, which waits for it
                pass
        with pytest.raises(holdfast.ClosedError, match="belongs to one task"):
            await asyncio.to_thread(heap.get, "x")  # as well

    async def parent():
        async with heap.transaction():
            heap["y"] = 1
            await asyncio.gather(child())
            with pytest.raises(holdfast.ClosedError):
                await asyncio.to_thread(heap.__setitem__, "x", 1)
            heap["y"] = 2

    run(parent())
    assert heap == {"y": 2}


def test_a_task_nests_its_transactions(heap):
    async def other():
        assert "x" not in heap
        async with heap.transaction():  # waits for the outermost
            return dict(heap)

    async def parent():
        waits = asyncio.create_task(other())
        async with heap.transaction():
            heap["x"] = 1
            with pytest.raises(ZeroDivisionError):
                async with heap.transaction():
                    heap["x"] = 2
                    await turn
                    raise ZeroDivisionError
            assert heap["x"] == 1
            async with heap.transaction():
                await turn
                heap["y"] = 2
            with heap.transaction():
                heap["z"] = 3
        return await waits

    assert run(parent()) == {"x": 1, "y": 2, "z": 3}


def test_a_loop_within_a_transaction_is_a_part_of_it(heap):
    async def body():
        heap["x"] = 1

    with heap.transaction():
        asyncio.run(body())
    assert heap == {"x": 1}


def test_another_context_of_the_thread_is_no_part_of_it(heap):
    """Greenlets and tasks of trio have contexts of their own."""
    other = contextvars.Context()
    with heap.transaction():
        heap["x"] = 1
        with pytest.raises(holdfast.ClosedError):
            other.run(heap.__setitem__, "y", 1)
        assert other.run(heap.get, "x") is None
    assert other.run(heap.get, "x") == 1
    other.run(heap.__setitem__, "y", 1)
    assert heap == {"x": 1, "y": 1}


def test_a_transaction_that_is_dropped_in_its_block_is_taken_back(heap):
    def generator():
        with heap.transaction():
            heap["x"] = 1
            yield

    next(generator())
    transaction = heap.transaction()
    transaction.__enter__()
    heap["x"] = 2
    del transaction
    assert heap == {}


def test_a_transaction_decorates_a_function(heap):
    @heap.transaction()
    def change(value):
        heap["x"] = value
        if value < 0:
            raise ValueError

    for value in (1, 2):
        change(value)
    with pytest.raises(ValueError):
        change(-1)
    assert heap == {"x": 2}


def test_a_thread_that_makes_an_array_waits_for_the_transaction_of_another(heap):
    begun, ends = threading.Event(), threading.Event()

    def hold():
        with heap.transaction():
            begun.set()
            ends.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    other = threading.Thread(target=lambda: made.append(heap.array("x", 3).shape))  # was: RuntimeError
    made = []
    other.start()
    ends.set()
    thread.join()
    other.join()
    assert made == [(3,)]

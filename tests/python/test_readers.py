"""Readers beside a writer: each sees one commit as a whole, and goes on when it wants to."""

import asyncio
import multiprocessing
import os
import signal
import threading
import time

import numpy
import pytest

import holdfast


def test_a_reader_sees_the_last_commit_and_goes_on(path):
    with holdfast.open(path) as writer:
        writer["words"] = {"one": 1}
        writer["x"] = numpy.arange(10.0)
        writer.commit()
        with holdfast.open(path, mode="r") as reader:
            words = reader["words"]
            first = reader.version
            writer["words"]["two"] = 2
            writer["x"][:] = 7
            assert dict(words) == {"one": 1} and reader["x"].sum() == 45
            writer.commit()
            assert dict(words) == {"one": 1} and reader["x"].sum() == 45
            assert reader.refresh() == first + 1 == reader.version
            assert dict(words) == dict(reader["words"]) == {"one": 1, "two": 2} and reader["x"].sum() == 70
            assert reader.refresh() == first + 1
            assert not reader.wait_for_change(0)
            writer["words"] = {"other": 1}
            writer.commit()
            assert dict(words) == {"one": 1, "two": 2}
            reader.refresh()
            with pytest.raises(holdfast.NotFoundError, match="another process has removed"):
                len(words)


def test_a_transaction_is_seen_as_a_whole(path):
    with holdfast.open(path) as writer, holdfast.open(path, mode="r") as reader:
        for number in range(20):
            with writer.transaction():
                writer["a"] = list(range(number))
                writer["b"] = {"count": number}
            with pytest.raises(ZeroDivisionError):
                with writer.transaction():
                    writer["a"] = 1 // 0
            reader.refresh()
            assert len(reader["a"]) == number == reader["b"]["count"]


def test_a_thread_waits_for_a_change_and_for_no_longer_than_it_says(path):
    with holdfast.open(path) as writer, holdfast.open(path, mode="r") as reader:
        start = time.monotonic()
        assert not reader.wait_for_change(0.05)
        assert time.monotonic() - start < 5
        found = []
        waits = threading.Thread(target=lambda: found.append(reader.wait_for_change()))
        waits.start()
        writer["x"] = 1
        writer.commit()
        waits.join()
        assert found == [True]
        reader.refresh()
        assert reader["x"] == 1


def test_a_thread_refreshes_while_another_waits(path):
    with holdfast.open(path) as writer, holdfast.open(path, mode="r") as reader:
        ends = threading.Event()

        def wait():
            while not ends.is_set():
                reader.wait_for_change(0.01)

        waits = threading.Thread(target=wait)
        waits.start()
        for number in range(50):
            writer["x"] = [number] * 100
            writer.commit()
            reader.refresh()
            assert reader["x"] == [number] * 100
        ends.set()
        waits.join()


def test_a_task_waits_for_a_change(path):
    async def main(writer, reader):
        change = asyncio.create_task(asyncio.to_thread(reader.wait_for_change, 30))
        writer["x"] = 1
        writer.commit()
        assert await change
        reader.refresh()
        return reader["x"]

    with holdfast.open(path) as writer, holdfast.open(path, mode="r") as reader:
        assert asyncio.run(main(writer, reader)) == 1


def test_a_heap_is_closed_while_a_thread_waits(path):
    with holdfast.open(path):
        reader = holdfast.open(path, mode="r")
        waits = threading.Thread(target=lambda: pytest.raises(holdfast.Error, reader.wait_for_change))
        waits.start()
        reader.close()
        waits.join()


def read_on(path, least):
    """In another process: sums of a dict that its writer keeps equal, until `least` commits were seen."""
    with holdfast.open(path, mode="r") as heap:
        seen = set()
        while len(seen) < least:
            numbers = list(heap["numbers"].values())
            if len(set(numbers)) != 1:
                return numbers
            seen.add(numbers[0])
            heap.wait_for_change(1)
            heap.refresh()
    return None


def test_workers_read_beside_one_that_writes_and_may_be_killed(path):
    keys = [f"key {number}" for number in range(50)]
    with holdfast.open(path) as writer:
        writer["numbers"] = dict.fromkeys(keys, 0)
        writer.commit()
        context = multiprocessing.get_context("spawn")
        with context.Pool(2) as pool:
            victim = context.Process(target=read_on, args=(path, 1 << 30))
            victim.start()
            results = pool.starmap_async(read_on, [(path, 20)] * 2)
            number = 0
            while not results.ready():
                number += 1
                with writer.transaction():
                    writer["numbers"].update(dict.fromkeys(keys, number))
                if number == 20:
                    os.kill(victim.pid, signal.SIGKILL)
                    victim.join()
            assert results.get() == [None, None]


def test_statistics_tell_who_has_the_heap_open(path):
    with holdfast.open(path) as writer:
        writer["x"] = 1
        writer.commit()
        with holdfast.open(path, "r") as reader:
            writer["x"] = 2
            writer.commit()
            seen = writer.statistics()
            assert seen["writer"] == reader.statistics()["writer"] == os.getpid()
            (one,) = seen["readers"]
            assert one["process"] == os.getpid()
            assert one["version"] == reader.version == seen["commits"] - 1
            assert 0 < one["since_ns"] <= one["refreshed_ns"]
            assert "atomic" not in seen
            assert seen["private_bytes"] < seen["size"]
        assert writer.statistics()["readers"] == []


def test_statistics_of_atomic_count_its_records(path):
    with holdfast.open(path, durability="atomic", accept_process_crash_only=True) as heap:
        before = heap.statistics()["atomic"]["records"]
        for number in range(100):
            heap[number] = number
        assert heap.statistics()["atomic"]["records"] >= before + 100

"""Heaps that processes share, by shared=True: each changes it in its turn, and reads between turns what it has seen.

Two heaps of one process are as those of two processes: each has files and memory of its own.
"""

import asyncio
import contextlib
import multiprocessing
import os
import pickle
import signal
import threading

import numpy
import pytest

import holdfast
from conftest import run_python
from test_tasks import turn


def share(path, mode="a"):
    """Opens the heap as each process does."""
    return holdfast.open(path, mode, shared=True)


@pytest.fixture
def pair(path):
    """Two that share a heap."""
    with share(path) as one, share(path) as other:
        yield one, other


def test_each_turn_begins_with_what_the_others_have_left(pair):
    pair[0].update(n=0, l=[], d={})
    for number in range(100):
        heap = pair[number % 2]
        with heap.transaction():
            heap["n"] += 1
            heap["l"].append(number)
            heap["d"][f"key {number}"] = {"number": number}
        assert heap == {
            "n": number + 1,
            "l": list(range(number + 1)),
            "d": {f"key {i}": {"number": i} for i in range(number + 1)},
        }
    assert pair[1].check(pages=True) == pair[0].check(pages=True) == []


def test_between_turns_a_process_reads_one_version(pair):
    one, other = pair
    one["d"] = {"a": 1}
    assert "d" not in other and not one.wait_for_change(0)
    assert other.wait_for_change(30) and other.refresh() == one.version == other.version
    one["d"]["a"] = 2
    assert other["d"] == {"a": 1} and other.version == one.version - 1
    assert other.refresh() == one.version and other["d"] == {"a": 2}
    assert other.refresh() == one.version


def test_a_change_by_itself_is_a_transaction(path):
    run_python(
        """
import holdfast, os, sys
heap = holdfast.open(sys.argv[1], shared=True)
heap["x"] = {"a": [1]}
heap["x"]["a"].append(2)
heap.array("z", 3)[:] = 0
os._exit(0)
""",
        path,
        check=False,
    )
    with holdfast.open(path, "r") as heap:
        assert heap["x"] == {"a": [1, 2]}


def test_a_dict_goes_on_where_it_is_still_at_its_place(pair):
    one, other = pair
    one["d"] = {"inner": {"x": 1}, "list": [[1], [2]], "gone": {}, "tuple": ({"t": 1}, [5])}
    other.refresh()
    inner, lists, gone = other["d"]["inner"], other["d"]["list"], other["d"]["gone"]
    second = lists[1]
    in_tuple = other["d"]["tuple"][0]
    by_iteration = dict(other["d"].items())["inner"]
    with one.transaction():
        one["d"]["inner"]["x"] = 2
        one["d"]["list"][1].append(3)
        one["d"]["tuple"][0]["t"] = 2
        one["d"]["gone"] = {"another": 1}
    assert inner["x"] == 1 and second == [2] and gone == {} and in_tuple == {"t": 1}
    inner["y"] = 1  # a turn
    assert inner == by_iteration == {"x": 2, "y": 1} and second == [2, 3] and in_tuple == {"t": 2}
    for use in (lambda: len(gone), lambda: gone["another"], lambda: gone.update(a=1)):
        with pytest.raises(holdfast.NotFoundError, match="another process has removed or moved.*look it up again"):
            use()
    one["d"]["list"].insert(0, [0])
    other.refresh()
    with pytest.raises(holdfast.NotFoundError):
        second.append(4)
    assert lists == [[0], [1], [2, 3]]
    del one["d"]
    other.refresh()
    for use in (lambda: inner["x"], lambda: lists[0], lambda: in_tuple["t"]):
        with pytest.raises(holdfast.NotFoundError):
            use()


def test_memory_that_another_dict_has_now_is_never_read_as_the_old_one(pair):
    one, other = pair
    one["d"] = {}
    other.refresh()
    held = []
    for number in range(30):
        other["d"][number] = {"number": number}
        held.append((number, other["d"][number]))
        one.refresh()
        del one["d"][number]
        one["d"][-number - 1] = {"number": -1}  # in the same block, most likely
        other.refresh()
        for old, each in held:
            with pytest.raises(holdfast.NotFoundError):
                each["number"] if each["number"] != old else None
    assert one.check() == []


def test_an_iteration_says_that_another_process_has_changed_the_heap(pair):
    one, other = pair
    one["d"] = dict.fromkeys(range(10), 0)
    other.refresh()
    with pytest.raises(RuntimeError, match="during the iteration"):
        for key in other["d"]:
            one["d"][key] = 1
            other["d"][key] = 2


def test_what_takes_several_steps_is_one_turn(pair):
    one, other = pair
    one["l"] = [3, 1]
    other.refresh()
    other["l"].append(2)
    one["l"].sort()  # was: of the list as this process had seen it
    assert one["l"] == [1, 2, 3]
    other["l"].insert(-1, 0)
    assert other["l"] == [1, 2, 0, 3]
    one["l"][1:3] = [7, 8, 9]
    del other["l"][-1]
    assert other["l"] == [1, 7, 8, 9]
    del one["l"][::2]
    assert one["l"] == [7, 9]
    before = one.version
    one.update({str(number): number for number in range(50)})
    assert one.version == before + 1
    one["s"] = "of one"
    assert other.setdefault("s", "of other") == "of one"
    assert other.array("a", 3).shape == one.array("a", 3).shape


def test_an_array_shows_the_version_of_its_time(pair):
    one, other = pair
    one["a"] = numpy.zeros(100_000)
    other.refresh()
    view = other["a"]
    for number in range(1, 4):
        with one.transaction():
            one["a"][:] = number
        assert (view == number - 1).all()
        other.refresh()
        assert (view == number).all()
    one["unrelated"] = 1
    with one.transaction():
        one["a"][0] = 7
    assert view[0] == 3
    other["also unrelated"] = 1  # a turn
    assert view[0] == 7


def test_an_array_is_written_in_a_turn_alone(pair):
    one, other = pair
    one["a"] = numpy.zeros(10)
    with pytest.raises(ValueError, match="read-only"):
        one["a"][0] = 1
    with one.transaction():
        array = one["a"]
        part = array[2:]
        array[:] = 5
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    part[:] = 9  # a view that it does not know of: taken back
    with one.transaction():
        assert (one["a"] == 5).all()
    part[:] = 9
    other["x"] = 1
    one["x"] = 2
    assert (one["a"] == 5).all()
    part[:] = 9
    one.close()
    other.refresh()
    assert (other["a"] == 5).all()


@pytest.mark.parametrize("call", ["commit", "snapshot", "check", "shrink", "refresh", "close"])
def test_what_was_stored_outside_of_a_turn_gets_into_no_version(path, tmp_path, call):
    with share(path) as heap:
        heap["a"] = numpy.zeros(10)
        with heap.transaction():
            part = heap["a"][:]
        part[:] = 9
        getattr(heap, call)(*([str(tmp_path / "copy")] if call == "snapshot" else []))
        del part
    with holdfast.open(path) as heap:
        assert not heap["a"].any()


def test_rows_that_others_append_are_there_after_a_turn(pair):
    one, other = pair
    one["a"] = numpy.arange(4)
    other.refresh()
    before = other["a"]
    for number in range(4, 40):
        pair[number % 2].append("a", number)
    assert (before == range(4)).all()
    one.refresh()
    assert (one["a"] == range(40)).all()


def test_an_exception_takes_a_turn_back(pair):
    one, other = pair
    one["d"] = {"x": 1}
    other.refresh()
    held = other["d"]
    with pytest.raises(ZeroDivisionError):
        with other.transaction():
            held["x"] = 2
            other["new"] = {"made": numpy.zeros(10)}
            made = other["new"]
            raise ZeroDivisionError
    with pytest.raises(holdfast.NotFoundError):
        made["made"]
    assert held == {"x": 1} == one["d"] and "new" not in other
    one["d"]["x"] = 3
    other.refresh()
    assert held == {"x": 3} and "new" not in other


def test_what_was_removed_while_it_was_in_use_is_freed_by_a_later_turn(pair):
    one, other = pair
    one["n"] = 0
    before = one.statistics()["allocated"]
    for number in range(20):
        one["x"] = {"bytes": "x" * 100_000}
        held = one["x"]
        with other.transaction():
            other["n"] += 1
        del one["x"]
        del held
    one["n"] = 0
    assert one.statistics()["allocated"] < before + 20_000 and one.check() == []


def test_what_does_not_go_together_is_refused_with_a_sentence(path):
    with share(path) as heap:
        heap["x"] = 1
        for wrong in ({"mode": "r"}, {"durability": "atomic"}, {"hardened": True}):
            with pytest.raises(holdfast.ClosedError, match="shared"):
                holdfast.open(path, shared=True, **wrong)
        with pytest.raises(holdfast.LockedError, match="share"):
            holdfast.open(path)
        with pytest.raises(holdfast.ClosedError, match="transaction"):
            with heap.transaction():
                heap.refresh()
        with heap.transaction(), pytest.raises(holdfast.ClosedError):
            heap.commit()
        assert heap.shared and not heap.read_only and heap.durability == "commit" and "shared" in repr(heap)
    with holdfast.open(path) as heap:
        assert not heap.shared and heap == {"x": 1} and not heap.statistics()["recovered"]
        with pytest.raises(holdfast.LockedError):
            share(path, "w")


def test_threads_and_tasks_of_a_process_share_its_turns(pair):
    one, other = pair
    one["n"] = 0

    def count(heap):
        for _ in range(25):
            with heap.transaction():
                heap["n"] += 1

    async def count_in_task(heap):
        for _ in range(25):
            async with heap.transaction():
                await turn
                heap["n"] += 1

    async def count_in_tasks():
        await asyncio.gather(*(count_in_task(one) for _ in range(3)))

    threads = [threading.Thread(target=count, args=(heap,)) for heap in (one, other, other)]
    threads.append(threading.Thread(target=lambda: asyncio.run(count_in_tasks())))
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    one.refresh()
    assert one["n"] == 150


def test_a_thread_waits_for_a_change_while_another_has_turns(pair):
    one, other = pair
    seen = []

    def follow():
        while not seen or seen[-1] != 20:
            other.wait_for_change(5)
            other.refresh()
            seen.append(other.get("n"))

    thread = threading.Thread(target=follow)
    thread.start()
    for number in range(21):
        one["n"] = number
    thread.join(60)
    assert seen[-1] == 20


def increment(heap):
    """In a worker that is handed the heap."""
    with heap.transaction():
        heap["n"] += 1
    return heap.shared, os.getpid()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_shared_heap_is_pickled_as_its_path(path, method):
    with share(path) as heap:
        heap["n"] = 0
        assert pickle.loads(pickle.dumps(heap)).shared
        with multiprocessing.get_context(method).Pool(2) as pool:
            told = pool.map(increment, [heap] * 8)
        assert {shared for shared, _ in told} == {True} and os.getpid() not in {process for _, process in told}
        heap.refresh()
        assert heap["n"] == 8


def test_a_child_of_fork_opens_the_heap_for_itself(path):
    run_python(
        """
import holdfast, os, sys
heap = holdfast.open(sys.argv[1], shared=True)
heap["d"] = {"x": 1}
d = heap["d"]
child = os.fork()
if child == 0:
    for use in (lambda: heap["d"], lambda: d["x"], heap.refresh, lambda: heap.version, heap.transaction().__enter__,
                lambda: heap.update(x=1), lambda: d.update(x=2), heap.wait_for_change, heap.check, heap.commit):
        try:
            use()
            os._exit(1)
        except holdfast.Error as failure:
            if failure.code != "wrong_process" or "opens the heap for itself" not in str(failure):
                os._exit(2)
    heap.close()
    with holdfast.open(sys.argv[1], shared=True) as own:
        own["d"]["x"] += 1
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert heap.refresh() and heap["d"] == d == {"x": 2}
""",
        path,
    )


def work(path, name, turns, told):
    """In a worker: turns that change everything together, each told of when it has ended."""
    with share(path, "w") as heap:
        done = heap["done"]
        for number in range(turns):
            with heap.transaction():
                heap["n"] += 1
                heap["list"].append((name, number))
                heap["dict"][f"{name} {number}"] = {"number": number}
                heap["array"][heap["n"] % 1000] += 1
                done[name] = number + 1
            told.put((name, number + 1))


def expect_whole(heap):
    """What every version has."""
    total = sum(heap["done"].values())
    assert heap["n"] == len(heap["list"]) == len(heap["dict"]) == heap["array"].sum() == total
    return total


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_which_one_is_killed(path, method):
    with share(path) as heap:
        heap.update({"n": 0, "list": [], "dict": {}, "array": numpy.zeros(1000, "i8"), "done": {}})
    context = multiprocessing.get_context(method)
    told = context.SimpleQueue()
    victim_told = context.SimpleQueue()  # one that is killed may leave a lock of its queue
    turns = 40
    workers = [context.Process(target=work, args=(path, f"worker {i}", turns, told)) for i in range(3)]
    victim = context.Process(target=work, args=(path, "victim", 1 << 30, victim_told))
    [each.start() for each in (*workers, victim)]
    reached = 0
    with holdfast.open(path, "r") as reader:
        while reached < turns // 2:
            reached = victim_told.get()[1]
            reader.refresh()
            expect_whole(reader)
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        while not victim_told.empty():
            reached = victim_told.get()[1]
        last = {}
        while len(last) < 3 or min(last.values()) < turns:
            name, number = told.get()
            last[name] = number
            reader.refresh()
            expect_whole(reader)
        [each.join() for each in workers]
        assert [each.exitcode for each in workers] == [0] * 3
    with share(path) as heap:
        done = heap["done"].pop("victim")
        assert reached <= done <= reached + 2  # what it was about to tell
        heap["done"]["victim"] = done
        assert expect_whole(heap) == 3 * turns + done and heap.check(pages=True) == []


def die_within(path, begun):
    """In a worker: stays within a turn until it is killed."""
    heap = share(path, "w")
    with heap.transaction():
        heap["d"].clear()
        heap["a"][:] = -1
        heap["big"] = numpy.ones(1_000_000)
        begun.set()
        signal.pause()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_next_one_goes_on_at_once_where_one_is_killed_in_its_turn(path, method):
    context = multiprocessing.get_context(method)
    with share(path) as heap:
        heap.update({"d": {"x": {"y": 1}}, "a": numpy.arange(1000), "n": 0})
        held, view = heap["d"]["x"], heap["a"]
        for number in range(3):
            begun = context.Event()
            victim = context.Process(target=die_within, args=(path, begun))
            victim.start()
            assert begun.wait(60)
            threading.Timer(0.1, victim.kill).start()
            with heap.transaction():  # waits for the turn
                heap["n"] += 1
            assert set(heap) == {"d", "a", "n"} and heap["d"] == {"x": {"y": 1}} and heap["n"] == number + 1
            assert held == {"y": 1} and (view == numpy.arange(1000)).all() and (heap["a"] == view).all()
            victim.join()
        assert heap.check(pages=True) == []


def test_an_array_may_be_read_by_a_thread_while_another_takes_turns(pair):
    one, other = pair
    one["a"] = numpy.zeros(200_000)
    other.refresh()
    view, ends, sums = other["a"], threading.Event(), set()

    def look():
        while not ends.is_set():
            sums.add(float(view.max()))

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(1, 30):
        with one.transaction():
            one["a"][:] = number
        other.refresh()
    ends.set()
    thread.join()
    assert sums <= set(range(30)) and (view == 29).all()


def test_processes_that_make_an_array_at_once_make_one(path):
    with holdfast.open(path, shared=True) as one, holdfast.open(path, shared=True) as other:  # at the same version
        one.array("x", 3)
        with one.transaction():
            one["x"][:] = 1
        assert other.array("x", 3).tolist() == [1, 1, 1]
        with pytest.raises(TypeError):
            other.array("x", 4)


class Alarm(Exception):
    """What the handler of a signal raises, as KeyboardInterrupt is raised."""


@contextlib.contextmanager
def expect_alarm():
    """SIGALRM each 20 ms until the block raises it: the first one may come before the call waits."""

    def handle(_number, _frame):
        signal.setitimer(signal.ITIMER_REAL, 1)  # a finalizer may have swallowed this one
        raise Alarm

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        with pytest.raises(Alarm):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def has_turn(heap):
    """Another thread is in a transaction of the heap, which stores something."""
    begun, ends = threading.Event(), threading.Event()

    def run():
        with heap.transaction():
            heap["n"] = 2
            begun.set()
            ends.wait(60)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert begun.wait(30)
        yield
    finally:
        ends.set()
        thread.join()


def test_a_signal_ends_the_wait_for_a_turn(pair, path):
    """Was: Ctrl-C had no effect until another process ended its turn."""
    one, other = pair
    one["n"] = 1
    other.refresh()

    def nothing():
        with other.transaction():
            pytest.fail("one has the turn")

    waits = [
        nothing,
        lambda: other.update(n=3),
        lambda: other.setdefault("m", {}),
        other.refresh,
        lambda: other.wait_for_change(60),
        lambda: share(path),
    ]
    with has_turn(one):
        for wait in waits:
            with expect_alarm():
                wait()
            assert other["n"] == 1
    assert other.refresh() == one.version and other["n"] == 2
    with other.transaction():
        other["n"] = 3
    one.refresh()
    assert one["n"] == 3 and one.check(pages=True) == other.check(pages=True) == []


def test_a_signal_ends_the_wait_in_a_task(pair):
    one, other = pair

    async def wait():
        async with other.transaction():
            pytest.fail("one has the turn")

    with has_turn(one):
        with expect_alarm():
            asyncio.run(wait())
    other["n"] = 1
    one.refresh()
    assert one["n"] == 1

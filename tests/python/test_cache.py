"""holdfast.Cache: what it keeps, what it removes, and one computation for all who ask."""

import contextvars
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading

import pytest

import holdfast
from holdfast import _cache, _cache_keys


@pytest.fixture
def clock(monkeypatch):
    """The time, in a list that the test changes."""
    now = [1000.0]
    monkeypatch.setattr(_cache.time, "time", lambda: now[0])
    return now


@pytest.fixture
def file(tmp_path):
    """Where a cache can be made."""
    return str(tmp_path / "cache")


def test_values_outlive_the_cache(file):
    values = {"text": "x", b"bytes": b"y", 1: [1, {"a": (2,)}], (1, "a"): None, 2.5: 10**40, None: {1, 2}, "": b""}
    with holdfast.Cache(file) as cache:
        for key, value in values.items():
            assert cache.set(key, value)
        cache["long " * 1000] = "value"
    with holdfast.Cache(file) as cache:
        for key, value in values.items():
            assert cache[key] == value and type(cache[key]) is type(value) and key in cache
        assert cache["long " * 1000] == "value" and cache.get("other", 5) == 5
        assert len(cache) == len(values) + 1 and set(cache) == {*values, "long " * 1000}
        assert cache[True] == cache[1.0] == [1, {"a": (2,)}]
        with pytest.raises(KeyError):
            cache["other"]
        with pytest.raises(KeyError):
            del cache["other"]
        del cache[1]
        assert cache.pop("text") == "x" and cache.pop("text", 7) == 7 and not cache.delete("text")
        assert cache.add("text", 1) and not cache.add("text", 2) and cache["text"] == 1
        assert cache.stats(reset=True)[0] > 0 and cache.stats() == (0, 0)
        assert cache.clear() == len(values) and len(cache) == 0 and cache.volume() == 0
        cache["again"] = 1
    cache["opened again"] = 2
    assert dict(cache) == {"again": 1, "opened again": 2}
    cache.close()


def test_an_entry_expires(file, clock):
    with holdfast.Cache(file) as cache:
        cache.set("a", 1, expire=10)
        cache.set("b", 2, expire=20, tag="t")
        cache["c"] = 3
        assert cache.get("b", expire_time=True, tag=True) == (2, 1020.0, "t")
        assert cache.get("c", expire_time=True) == (3, None)
        clock[0] += 10
        assert "a" not in cache and cache.get("a") is None and list(cache) == ["b", "c"]
        assert cache.add("a", 4, expire=1) and cache["a"] == 4
        assert cache.touch("b", 100) and not cache.touch("x", 1)
        clock[0] += 50
        assert cache["b"] == 2 and "a" not in cache
        assert cache.incr("n") == 1 and cache.incr("n", 5) == 6 and cache.decr("n") == 5
        with pytest.raises(KeyError):
            cache.incr("m", default=None)
        for number in range(30):
            cache.set(number, "x", expire=1)
        clock[0] += 2
        before = cache.volume()
        cache["d"] = 1  # removes some of those that have expired
        assert cache.volume() < before
        cache.expire()
        assert sorted(cache) == ["b", "c", "d", "n"] and len(cache) == 4
        assert cache.evict("t") == 1 and "b" not in cache


@pytest.mark.parametrize("eviction", ["lru", "fifo", "none"])
def test_the_limit_bounds_what_is_kept(file, eviction):
    with holdfast.Cache(file, size_limit=100_000, eviction=eviction) as cache:
        for number in range(200):
            cache[number] = b"x" * 1000
            assert cache.get(0) is not None or number > 50
        if eviction == "none":
            assert len(cache) == 200
            return
        assert 80_000 < cache.volume() <= 100_000
        assert (0 in cache) == (eviction == "lru") and 1 not in cache and 199 in cache
        cache["large"] = b"x" * 200_000
        assert "large" not in cache and cache.volume() <= 100_000
        count, volume = len(cache), cache.volume()
        for key in list(cache):
            del cache[key]
        assert count > 0 and volume > 0 and len(cache) == cache.volume() == 0
        with cache._store.read() as view:
            assert [key[:1] for key in view] == [b"m"]  # no place is left


def test_a_block_of_changes_is_one(file):
    with holdfast.Cache(file) as cache:
        with pytest.raises(ZeroDivisionError):
            with cache.transact():
                cache["a"] = 1
                assert cache["a"] == 1
                1 / 0
        assert "a" not in cache
        with cache.transact(), cache.transact():
            cache["a"], cache["b"] = 1, 2
        assert dict(cache) == {"a": 1, "b": 2}


def test_another_task_is_no_part_of_a_block_of_changes(file):
    other = contextvars.Context()
    with holdfast.Cache(file) as cache:
        with pytest.raises(ZeroDivisionError):
            with cache.transact():
                cache["a"] = 1
                assert other.run(cache.get, "a") is None
                with pytest.raises(holdfast.ClosedError):
                    other.run(cache.set, "b", 2)  # was: taken back with the block of another task
                1 / 0
        other.run(cache.set, "b", 3)
        assert dict(cache) == {"b": 3}


def test_a_function_is_called_once_for_the_same_arguments(file):
    calls = []
    with holdfast.Cache(file) as cache:

        @cache.memoize()
        def add(a, b=1, *, c=0):
            """Adds."""
            calls.append((a, b, c))
            return a + b + c

        assert (add(1), add(1), add(1.0), add(1, b=2), add(1, b=2), add(1, c=3)) == (2, 2, 2, 3, 3, 5)
        assert calls == [(1, 1, 0), (1, 2, 0), (1, 1, 3)] and add.__name__ == "add" and add.__wrapped__(1) == 2
        assert cache[add.cache_key(1, b=2)] == 3
        assert add.cache_info() == (3, 3, None, 3) and add.cache_info().hits == 3  # as that of functools
        add.cache_clear()
        assert len(cache) == 0

        @cache.memoize(typed=True, name="other")
        def kind(value):
            return type(value).__name__

        assert (kind(1), kind(1.0)) == ("int", "float")
        assert kind.cache_info()[:2] == (0, 2)
        with pytest.raises(TypeError, match="with parentheses"):
            cache.memoize(add)

        async def later(value):
            return value

        def several(value):
            yield value

        for refused in (later, several):
            with pytest.raises(TypeError, match=f"{refused.__name__}.. is async or a generator, .*to_thread"):
                cache.memoize()(refused)  # was: cannot pickle 'coroutine' object, at the first call

        @cache.memoize()
        def fibonacci(n):
            return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

        assert fibonacci(30) == 832040
        with pytest.raises(ZeroDivisionError):
            cache.get_or_set("x", lambda: 1 / 0)
        assert cache.get_or_set("x", lambda: 5) == 5  # the failure has left no lease
        assert cache.get_or_set("self", lambda: cache.get_or_set("self", lambda: 6)) == 6


def compute(file, start, number, directory):
    """In a process: waits for the others, and asks for a value. Leaves a file for each call of the function."""
    start.wait()
    with holdfast.Cache(file) as cache:

        def make():
            with open(os.path.join(directory, f"{os.getpid()}.{number}"), "x"):
                return number

        return cache.get_or_set(number, make), cache.incr("count")


def asks(file, start, directory, told):
    """In a process: asks for ten values."""
    told.put([compute(file, start, number, directory)[0] for number in range(10)])


def test_eight_processes_compute_each_value_once(file, tmp_path):
    context = multiprocessing.get_context("spawn")
    start, told = context.Barrier(8), context.Queue()
    (tmp_path / "calls").mkdir()
    arguments = (file, start, str(tmp_path / "calls"), told)
    processes = [context.Process(target=asks, args=arguments) for _ in range(8)]
    [process.start() for process in processes]
    assert [told.get(timeout=60) for _ in processes] == [list(range(10))] * 8
    [process.join() for process in processes]
    calls = sorted(int(name.rpartition(".")[2]) for name in os.listdir(tmp_path / "calls"))
    assert calls == list(range(10))
    with holdfast.Cache(file) as cache:
        assert cache["count"] == 80


def test_threads_compute_each_value_once(file):
    with holdfast.Cache(file) as cache:
        calls, found, start = [], [], threading.Barrier(8)

        def ask():
            start.wait()
            found.append(cache.get_or_set("x", lambda: calls.append(1) or len(calls)))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert (found, calls) == ([1] * 8, [1])


def test_a_process_that_is_killed_while_it_computes_keeps_nobody_waiting(file):
    program = (
        "import holdfast, os, sys\n"
        "def make():\n    os.write(1, b'x'); sys.stdin.read()\n"
        "holdfast.Cache(sys.argv[1]).get_or_set('x', make, lease=1e9)\n"
    )
    killed = subprocess.Popen([sys.executable, "-c", program, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert killed.stdout.read(1) == b"x"
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    killed.stdin.close(), killed.stdout.close()
    with holdfast.Cache(file) as cache:
        assert cache.get_or_set("x", lambda: 5) == 5


def test_a_lease_ends_with_its_time(file, clock):
    with holdfast.Cache(file) as cache:
        first = cache._take_lease(b"sx", 10)
        assert cache._take_lease(b"sx", 10) is None
        clock[0] += 11
        second = cache._take_lease(b"sx", 10)
        cache._end_lease(b"sx", first)  # is the other's by now
        assert cache._take_lease(b"sx", 10) is None
        cache._end_lease(b"sx", second)
        assert cache._take_lease(b"sx", 10) is not None


def test_a_child_of_fork_opens_the_cache_anew(file):
    with holdfast.Cache(file) as cache:
        cache["x"] = 1
        child = os.fork()
        if child == 0:
            cache["y"] = cache["x"] + 1
            os._exit(0 if cache["y"] == 2 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert cache["y"] == 2
        with pickle.loads(pickle.dumps(cache)) as again:
            assert again["y"] == 2 and again.size_limit == cache.size_limit


def test_equal_keys_have_equal_bytes():
    text = "".join(["a", "b"])
    for one, other in (((1, True), (1.0, 1)), ((text, text), ("ab", "ab")), (-0.0, 0), (b"", bytes())):
        assert _cache_keys.encode(one) == _cache_keys.encode(other)
    for key in (None, 0, -5, 2.5, "", "\u00e9", b"\0", (), ((1, ("a", None)), b"x"), 10**50, frozenset({1})):
        assert _cache_keys.decode_key(_cache_keys.encode(key)) == key
    assert len({_cache_keys.encode(key) for key in (1, "1", b"1", (1,), ("1",), 1.5, None, ("a", "b"), ("ab",))}) == 9

"""holdfast.Store: against a model, between threads and processes, killed, damaged, and CPython's tests of mappings."""

import multiprocessing
import os
import pickle
import random
import shelve
import signal
import subprocess
import sys
import tempfile
import threading

import pytest

import holdfast
from conftest import run_python
from test_processes import in_child, turns_during


@pytest.fixture
def file(tmp_path):
    """Where a store can be made."""
    return str(tmp_path / "words.store")


def in_order(model):
    """The entries of a dict, as a store returns them."""
    return sorted(model.items())


def check_against(entries, model, chance):
    """Every way of reading gives what the model has."""
    items = in_order(model)
    assert list(entries.items()) == items and len(entries) == len(items)
    assert list(entries) == [key for key, _ in items]
    assert list(entries.values()) == [value for _, value in items]
    assert list(reversed(entries)) == [key for key, _ in reversed(items)]
    for _ in range(20):
        begin, end = (chance.choice([None, b"", chance.randbytes(1), chance.randbytes(600)]) for _ in range(2))
        if items and chance.random() < 0.5:
            begin = chance.choice(items)[0]
        within = [(k, v) for k, v in items if (begin is None or k >= begin) and (end is None or k < end)]
        assert list(entries.range(begin, end)) == within, (begin, end)
        assert list(entries.range(begin, end, reverse=True)) == within[::-1], (begin, end)
        prefix = chance.choice([b"", b"\xff", b"\xff\xff", b"a", chance.randbytes(1)])
        within = [(k, v) for k, v in items if k.startswith(prefix)]
        assert list(entries.prefix(prefix)) == within
        assert list(entries.prefix(prefix, reverse=True)) == within[::-1]


def change_at_random(entries, model, chance, count):
    """Changes both alike, and compares the outcomes."""
    for _ in range(count):
        key = bytes(chance.choice(b"ab\xff") for _ in range(chance.randrange(1, 5))) + chance.randbytes(2)
        if model and chance.random() < 0.5:
            key = chance.choice(list(model))
        value = bytes(chance.randrange(3 if chance.random() < 0.9 else 9000))
        match chance.randrange(6):
            case 0 | 1:
                entries[key] = model[key] = value
            case 2:
                assert entries.pop(key, None) == model.pop(key, None)
            case 3:
                assert entries.setdefault(key, value) == model.setdefault(key, value)
            case 4:
                assert entries.get(key) == model.get(key) and (key in entries) == (key in model)
            case 5 if model:
                last = chance.random() < 0.5
                gone = (max if last else min)(model)
                assert entries.popitem(last) == (gone, model.pop(gone))


@pytest.mark.parametrize("seed", range(3))
def test_a_store_is_as_the_model_after_random_changes(file, seed):
    chance, model = random.Random(seed), {}
    for _ in range(3):
        with holdfast.Store(file, durable=False) as store:
            change_at_random(store, model, chance, 100)
            check_against(store, model, chance)
            with store.write() as change:
                change_at_random(change, model, chance, 1000)
                check_against(change, model, chance)
            with pytest.raises(RuntimeError), store.write() as change:
                change_at_random(change, dict(model), chance, 50)
                raise RuntimeError
            with store.read() as view:
                check_against(view, model, chance)
            assert store.check() > 0
        with holdfast.Store(file, "r") as store:
            check_against(store, model, chance)


def test_a_view_and_an_iteration_see_one_version(file):
    with holdfast.Store(file) as store:
        store.update({b"%03d" % i: b"old" for i in range(1000)})
        iteration = store.items()
        begun = iter(iteration)
        assert next(begun) == (b"000", b"old")
        with store.read() as view:
            store.update({b"%03d" % i: b"new" for i in range(0, 2000, 2)})
            assert view[b"000"] == b"old" and len(view) == 1000 and set(view.values()) == {b"old"}
        assert {value for _, value in begun} == {b"old"}
        assert store[b"000"] == b"new"
        with pytest.raises(ValueError, match="has ended"):
            view.get(b"000")


def test_an_iteration_of_a_transaction_goes_on_after_changes(file):
    with holdfast.Store(file) as store, store.write() as change:
        for i in range(600):
            change[b"%03d" % i] = b"x"
        seen = []
        for key in change:
            seen.append(int(key))
            del change[key]
            change.pop(b"%03d" % (int(key) + 1), None)
        assert seen == list(range(0, 600, 2)) and len(change) == 0
        change.update({b"a": b"1", b"c": b"2"})
        backwards = reversed(change)
        assert next(backwards) == b"c"
        change[b"b"] = b"3"
        assert list(backwards) == [b"b", b"a"]


def test_nested_transactions_are_undone_alone(file):
    with holdfast.Store(file) as store:
        with store.write() as change:
            change[b"a"] = b"1"
            with pytest.raises(KeyError), change.nested() as inner:
                inner[b"a"] = b"2"
                with pytest.raises(ValueError, match="another one is open"):
                    change[b"a"] = b"3"
                raise KeyError
            with change.nested() as inner:
                assert inner[b"a"] == b"1"
                inner[b"b"] = b"4"
        assert dict(store) == {b"a": b"1", b"b": b"4"}


def test_keys_are_as_long_as_is_asked_for(file):
    keys = [b"k" * 40 + b"%03d" % (i * 7919 % 300) + b"k" * (i * 97 % 3000) for i in range(300)]
    keys += [b"k" * 60000 + b"%03d" % i for i in range(20)] + [b"l" * 65536]
    with holdfast.Store(file, longest_key=65536) as store:
        store.update((key, b"%d" % len(key)) for key in keys)
        with pytest.raises(ValueError) as told:
            store[b"l" * 65537] = b""
        assert told.value.expected == "1 to 65536 bytes"
        again = pickle.loads(pickle.dumps(store))
        again[b"m" * 65536] = b""
        del again[b"m" * 65536]
    with holdfast.Store(file) as store:  # reading needs no wish
        assert list(store) == sorted(keys) and list(reversed(store)) == sorted(keys, reverse=True)
        assert list(store.range(keys[-3], keys[-1], reverse=True)) == [(keys[-2], b"60003"), (keys[-3], b"60003")]
        assert all(store[key] == b"%d" % len(key) for key in keys) and b"l" * 65537 not in store
        assert store.check() > 0
        for key in keys:
            del store[key]
        with pytest.raises(ValueError):
            store[keys[-1]] = b""
        assert len(store) == 0
    with pytest.raises(ValueError):
        holdfast.Store(file, longest_key=65537)


def test_what_cannot_be_is_an_error_that_says_so(file, tmp_path):
    with pytest.raises(holdfast.NotFoundError) as told:
        holdfast.Store(file, "w")
    assert (told.value.code, told.value.path) == ("not_found", file)
    with holdfast.Store(file) as store:
        for key, value in ((b"", b""), (b"k" * 512, b"")):
            assert key not in store and store.get(key) is None
            with pytest.raises(ValueError) as told:
                store[key] = value
            assert (told.value.field, told.value.expected) == ("key", "1 to 511 bytes")
        for key, value in (("a", b""), (b"a", "b"), (1, b""), (b"a", None)):
            with pytest.raises(TypeError, match="of a store is bytes, not"):
                store[key] = value
        for call in (store.get, store.pop, store.prefix, store.range, lambda key: store.setdefault(key, b"")):
            for key in (5, "a"):
                with pytest.raises(TypeError):
                    call(key)
        store[bytearray(b"a")] = memoryview(b"value")[1:]
        assert store[memoryview(b"a")] == b"alue"
        with store.write(), pytest.raises(ValueError, match="through the transaction"):
            store[b"b"] = b"1"
        with pytest.raises(ValueError) as told, store.write() as change:
            told_by_thread = []
            thread = threading.Thread(target=lambda: told_by_thread.append(pytest.raises(ValueError, change.get, b"a")))
            thread.start(), thread.join()
            assert told_by_thread[0].value.found == "another thread"
            change.commit()
            change[b"a"] = b"1"
        with pytest.raises(holdfast.ExistsError):
            holdfast.Store(file, "x")
    with holdfast.Store(tmp_path / "new", "x") as made:
        assert len(made) == 0
    with pytest.raises(ValueError, match="directory"):
        holdfast.Store(tmp_path)
    with pytest.raises(holdfast.ClosedError):
        store.get(b"a")
    with holdfast.Store(file, "r") as store, pytest.raises(holdfast.ReadOnlyError):
        store[b"a"] = b"2"
    with holdfast.Store(tmp_path / "small", limit=400000) as store:
        with pytest.raises(holdfast.NoSpaceError):
            store.update({b"%d" % i: bytes(1000) for i in range(1000)})
        assert len(store) == 0
    (tmp_path / "other").write_bytes(bytes(range(256)) * 64)
    with pytest.raises(holdfast.CorruptError) as told:
        holdfast.Store(tmp_path / "other")
    assert told.value.code == "not_a_heap" and told.value.found and told.value.expected and told.value.hint
    again = pickle.loads(pickle.dumps(told.value))
    assert (type(again), again.expected) == (type(told.value), told.value.expected)


def test_a_damaged_page_is_an_error_and_no_crash(file, tmp_path):
    with holdfast.Store(file) as store:
        store.update({b"%05d" % i: bytes(50) for i in range(5000)})
    content = open(file, "rb").read()
    chance = random.Random(1)
    noticed = 0
    for turn in range(8):
        damaged = bytearray(content)
        for at in range(8192 + 4096 * (turn % 4), len(damaged), 16384):
            damaged[at + chance.randrange(4096)] ^= 1 << chance.randrange(8)
        other = tmp_path / f"damaged{turn}"
        other.write_bytes(damaged)
        done = run_python(
            "import holdfast, sys\n"
            "try:\n"
            "    with holdfast.Store(sys.argv[1]) as store:\n"
            "        store.check(); dict(store); store[b'00001'] = b'x'; store.clear()\n"
            "except holdfast.CorruptError as error:\n"
            "    assert error.path and error.field and error.expected\n"
            "    print('noticed')",
            str(other),
        )
        noticed += "noticed" in done.stdout
    assert noticed >= 4


def add_some(store, number):
    """In another process: twenty entries and the sum of all, in a transaction each."""
    for i in range(20):
        with store.write() as change:
            change[b"%d-%d" % (number, i)] = b"1"
            change[b"sum"] = b"%d" % (int(change.get(b"sum", b"0")) + 1)
    return os.getpid()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_several_processes_write_one_store(file, method):
    with holdfast.Store(file, durable=False) as store:
        with multiprocessing.get_context(method).Pool(3) as pool:
            processes = pool.starmap(add_some, [(store, number) for number in range(6)])
        assert store[b"sum"] == b"120" and len(store) == 121
        assert os.getpid() not in processes
        same = pickle.loads(pickle.dumps(store))
        assert dict(same) == dict(store)
        same.close()
        assert in_child(lambda: store.get(b"sum")) == "wrong_process"
        assert in_child(lambda: pickle.loads(pickle.dumps(store)).get(b"sum")) == "b'120'"
        with store.write() as change:
            change[b"sum"] = b"0"
            assert in_child(lambda: change.get(b"sum")) == "wrong_process"
            assert in_child(lambda: int(holdfast.Store(file)[b"sum"])) == "120"
        assert store[b"sum"] == b"0"


def test_the_interpreter_goes_on_while_a_store_commits(file):
    with holdfast.Store(file) as store:
        with store.write() as change:
            change.update({b"%d" % i: bytes(1 << 20) for i in range(20)})
            assert turns_during(change.commit) > 0
        assert len(store) == 20


def test_threads_take_turns(file):
    with holdfast.Store(file) as store:
        failures = []

        def work(number):
            try:
                for i in range(30):
                    with store.write() as change:
                        change[b"sum"] = b"%d" % (int(change.get(b"sum", b"0")) + 1)
                    store[b"%d-%d" % (number, i)] = b"1"
                    assert store[b"%d-%d" % (number, i)] == b"1"
            except Exception as failure:  # noqa: BLE001
                failures.append(failure)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures and store[b"sum"] == b"120" and len(store) == 121


def test_a_store_may_be_closed_while_parts_of_it_are_in_use(file):
    store = holdfast.Store(file)
    store.update({b"%d" % i: b"x" for i in range(1000)})
    view, iteration = store.read(), iter(store)
    next(iteration)
    store.close()
    assert len(view) == 1000 and sum(1 for _ in iteration) == 999
    with holdfast.Store(file) as again:
        again.clear()
        assert len(view) == 1000


def test_a_copy_has_what_was_committed(file, tmp_path):
    with holdfast.Store(file) as store:
        store[b"a"] = b"1"
        with store.write() as change:
            change[b"b"] = b"2"
            store.copy(tmp_path / "copy")
    with holdfast.Store(tmp_path / "copy", "r") as store:
        assert dict(store) == {b"a": b"1"}


KILLED = """
import holdfast, os, sys
store = holdfast.Store(sys.argv[1])
for i in range(int(store.get(b"n", b"0")) + 1, 10**9):
    with store.write() as change:
        change[b"n"] = b"%d" % i
        change[b"key %d" % i] = bytes(i % 700)
        change.pop(b"key %d" % (i // 2), None)
    os.write(1, b"%d\\n" % i)
"""


def test_a_program_that_is_killed_loses_no_commit(file):
    chance = random.Random(7)
    for _ in range(int(os.environ.get("HOLDFAST_PYTHON_KILLS", "5"))):
        program = subprocess.Popen([sys.executable, "-c", KILLED, file], stdout=subprocess.PIPE)
        told = 0
        for _ in range(chance.randrange(1, 100)):
            told = int(program.stdout.readline())
        program.send_signal(signal.SIGKILL)
        rest = [line for line in program.stdout if line.endswith(b"\n")]
        assert program.wait() == -signal.SIGKILL
        program.stdout.close()
        told = int(rest[-1]) if rest else told
        model = {}
        with holdfast.Store(file) as store:
            reached = int(store[b"n"])
            assert told <= reached <= told + 1
            for i in range(1, reached + 1):
                model[b"key %d" % i] = bytes(i % 700)
                model.pop(b"key %d" % (i // 2), None)
            assert dict(store) == {**model, b"n": b"%d" % reached}
            assert store.check() > 0


mapping_tests = pytest.importorskip(
    "test.mapping_tests", reason="NOT TESTED HERE: this interpreter has no package `test` (libpython3.11-testsuite)"
)


class Stores:
    """New stores in a directory that vanishes with the process."""

    directory = tempfile.TemporaryDirectory()
    count = 0

    @classmethod
    def make(cls):
        """An empty one."""
        cls.count += 1
        return holdfast.Store(f"{cls.directory.name}/{cls.count}", durable=False)


class TestStore(mapping_tests.BasicTestMappingProtocol):
    """CPython's tests of mappings, with keys and values of bytes."""

    type2test = staticmethod(Stores.make)

    def _reference(self):
        return {b"1": b"2", b"key1": b"value1", b"key2": b"value2"}

    def test_update(self):
        """Theirs stores text, which a store refuses, and keeps what an update had stored before it failed."""
        for entries in (self.reference, self.reference.items(), iter(self.reference.items())):
            store = self._empty_mapping()
            store.update(entries)
            assert dict(store) == self.reference
            for wrong in (42, [(1, 2, 3)], {"text": b""}, [(b"new", b"1"), (b"newer", 2)]):
                with pytest.raises((TypeError, ValueError)):
                    store.update(wrong)
            assert dict(store) == self.reference


class TestShelf(mapping_tests.BasicTestMappingProtocol):
    """CPython's tests of mappings on a shelf of the standard library whose dict is a store."""

    def _empty_mapping(self):
        return shelve.Shelf(Stores.make())



del mapping_tests  # pytest would collect its abstract classes

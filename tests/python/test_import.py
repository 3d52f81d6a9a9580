"""What `import holdfast` loads, and what it shows."""

import sys

import pytest

import holdfast
from conftest import run_python


def test_what_few_programs_use_is_loaded_when_it_is_asked_for():
    run_python(
        """
import sys, holdfast
later = {"_cache", "_json", "_show", "_store", "_vectors", "_vector_graphs"}
later = {f"holdfast.{name}" for name in later}
assert not later & set(sys.modules), later & set(sys.modules)
assert set(holdfast.__all__) <= set(dir(holdfast))
assert holdfast.Cache is holdfast.Cache and holdfast.Cache.__name__ == "Cache"
from holdfast import *
assert VectorIndex is holdfast.VectorIndex and Store is holdfast.Store
assert later - set(sys.modules) == {"holdfast._show"}
"""
    )


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'Sotre'"):
        holdfast.Sotre
    assert all(getattr(holdfast, name) is not None for name in holdfast.__all__)
    assert holdfast.Match is sys.modules["holdfast._vectors"].Match


BARRIER = """
import ctypes, platform, sys, threading
if sys.argv[1] == "threads":
    end = threading.Event()
    threading.Thread(target=end.wait, daemon=True).start()
import holdfast
number = {"x86_64": 324, "aarch64": 283}[platform.machine()]
print(ctypes.CDLL(None, use_errno=True).syscall(number, 1 << 3, 0, 0))  # MEMBARRIER_CMD_PRIVATE_EXPEDITED
with holdfast.open(sys.argv[2], durability="atomic", accept_process_crash_only=True) as heap:
    heap["n"] = 1
    threads = [threading.Thread(target=lambda: [heap.__setitem__("n", n) for n in range(2000)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heap["n"] == 1999 and heap.check() == []
"""


def test_an_import_beside_threads_does_not_wait_for_the_kernel(path):
    """A process with threads that registers for barriers waits some 10 ms; numpy has threads."""
    assert run_python(BARRIER, "none", path).stdout == "0\n"  # registered
    assert run_python(BARRIER, "threads", path).stdout == "-1\n"  # not


def test_an_import_loads_few_modules_beyond_those_of_numpy():
    run_python(
        """
import sys, numpy
before = set(sys.modules)
import holdfast
found = {name for name in set(sys.modules) - before if not name.startswith("holdfast")}
assert found <= {"__future__", "atexit", "errno"}, found
"""
    )

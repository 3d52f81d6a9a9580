"""What the tests of the Python package share."""

import os
import subprocess
import sys

import pytest

import holdfast


@pytest.fixture
def path(tmp_path):
    """Where a heap can be made."""
    return str(tmp_path / "heap.hf")


@pytest.fixture(params=["commit", "atomic", "collect"])
def open_heap(request, path):
    """open(**options): opens the heap of this test, in each durability."""

    def open_it(**options):
        return holdfast.open(path, durability=request.param, accept_process_crash_only=True, **options)

    return open_it


@pytest.fixture
def heap(open_heap):
    """An open heap, in each durability."""
    with open_heap() as made:
        yield made


def run_python(code, *arguments, check=True):
    """Runs code in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=os.environ, timeout=60
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done

"""Heap.rollback(): back to the last commit."""

import os

import numpy
import pytest

import holdfast


def test_what_was_changed_since_the_last_commit_is_gone(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with holdfast.open("heap.hf") as heap:
        os.chdir("/")
        heap["d"], heap["a"] = {"x": 1}, numpy.zeros(1000)
        heap.commit()
        found = heap["d"]
        for _ in range(3):
            heap["d"]["x"] = 2
            heap["d"]["new"] = [1]
            heap["a"][:] = 1
            with heap.transaction(durable=False):
                heap["more"] = 1
            heap.rollback()
            assert set(heap) == {"d", "a"} and heap["d"] == {"x": 1} and (heap["a"] == 0).all()
            with pytest.raises(holdfast.ClosedError):
                len(found)
            found = heap["d"]
        heap["d"]["x"] = 3
        heap.commit()
        heap["d"]["x"] = 4
        heap.rollback()
        assert heap["d"] == {"x": 3} and heap.check() == []
    with holdfast.open(path, "r") as heap:
        assert heap["d"] == {"x": 3}


def test_an_index_goes_back_too(path):
    pytest.importorskip("usearch", reason="NOT TESTED HERE: usearch is not installed")
    vectors = numpy.random.default_rng(1).standard_normal((5000, 8)).astype("f4")
    with holdfast.open(path) as heap:
        index = holdfast.VectorIndex(heap, "i", 8)
        index.add(range(4500), vectors[:4500])
        heap.commit()
        with heap.transaction(durable=False):
            index.add(range(4500, 5000), vectors[4500:])
        assert index.search(vectors[4700], 1)[0].key == 4700
        heap.rollback()
        assert len(index) == 4500
        assert index.search(vectors[4700], 1)[0].key != 4700 and index.search(vectors[17], 1)[0].key == 17


def test_arrays_in_use_and_open_transactions_are_in_its_way(path):
    with holdfast.open(path) as heap:
        heap["a"] = numpy.zeros(10)
        heap.commit()
        view = heap["a"][2:4]
        heap["x"] = 1
        with pytest.raises(holdfast.LockedError, match="1 arrays"):
            heap.rollback()
        assert heap["x"] == 1 and view[0] == 0
        del view
        with heap.transaction(), pytest.raises(holdfast.ClosedError):
            heap.rollback()
        heap["y"] = 1
        heap.rollback()
        assert set(heap) == {"a", "x"}  # the transaction has committed it


def test_other_heaps_have_no_rollback(path):
    holdfast.open(path).close()
    for options in ({"mode": "r"}, {"shared": True}, {"durability": "atomic"}, {"durability": "collect"}):
        with holdfast.open(path, accept_process_crash_only=True, **options) as heap:
            with pytest.raises(holdfast.ClosedError, match="rollback"):
                heap.rollback()
            assert heap == {}
    with pytest.raises(holdfast.ClosedError):
        heap.rollback()

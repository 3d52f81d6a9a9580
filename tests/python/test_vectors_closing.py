"""VectorIndex and the heap around it: closing, settings that are there, heaps that processes share."""

import gc
import multiprocessing
import warnings

import numpy
import pytest

import holdfast

pytest.importorskip("usearch", reason="NOT TESTED HERE: usearch is not installed")

DIMENSIONS = 8
START = multiprocessing.get_context("spawn")


def vectors_of(first, count):
    """Those of the keys from `first` on."""
    return numpy.random.default_rng(first + 1).standard_normal((count, DIMENSIONS)).astype("f4")


def test_an_index_that_lives_on_does_not_keep_the_heap_open(path):
    heap = holdfast.open(path)
    index = holdfast.VectorIndex(heap, "i", DIMENSIONS)
    index.add(range(5000), vectors_of(0, 5000))
    assert index.search(index[7], 1)[0].key == 7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        heap.close()
    with pytest.raises(holdfast.ClosedError):
        index.search(vectors_of(0, 1)[0])
    for mode in ("w", "r"):
        with holdfast.open(path, mode) as heap:
            again = holdfast.VectorIndex(heap, "i")
            assert again.search(again[8], 1)[0].key == 8


def test_an_index_with_other_settings_is_refused(path):
    with holdfast.open(path) as heap:
        holdfast.VectorIndex(heap, "i", DIMENSIONS, metric="l2sq", dtype="f2", connectivity=8)
        for wrong in ({"metric": "cos"}, {"dtype": "f4"}, {"connectivity": 16}, {"metric": "none"}):
            with pytest.raises(ValueError, match="was made with"):
                holdfast.VectorIndex(heap, "i", DIMENSIONS, **wrong)
        holdfast.VectorIndex(heap, "i", metric="l2sq", dtype=numpy.float16, connectivity=8)
        assert len(holdfast.VectorIndex(heap, "i")) == 0


def test_nothing_can_be_added(path):
    with holdfast.open(path) as heap:
        index = holdfast.VectorIndex(heap, "i", DIMENSIONS)
        index.add([], [])
        index.add([], numpy.zeros((0, DIMENSIONS)), [])
        with pytest.raises(ValueError):
            index.add(["a"], [])
        assert len(index) == 0


def search_until(path, stop, told):
    """Each vector that the index says is there is found."""
    with holdfast.open(path, shared=True) as heap:
        index = holdfast.VectorIndex(heap, "i")
        searches = 0
        while not stop.is_set() or searches == 0:
            heap.refresh()
            count = len(index)
            for key in numpy.random.default_rng(searches).integers(0, count, 5).tolist():
                found = index.search(index[key], 1, effort=200)
                if found[0].distance > 1e-3:
                    told.put(f"{key} of {count}: {found}")
                    return
            searches += 1
        told.put(searches)


def test_processes_that_share_a_heap_search_while_one_adds(path):
    with holdfast.open(path, shared=True) as heap:
        index = holdfast.VectorIndex(heap, "i", DIMENSIONS)
        index.add(range(500), vectors_of(0, 500))
        stop, told = START.Event(), START.Queue()
        readers = [START.Process(target=search_until, args=(path, stop, told)) for _ in range(3)]
        [reader.start() for reader in readers]
        for first in range(500, 12_000, 500):  # behind the last graph, in graphs, in merged graphs
            index.add(range(first, first + 500), vectors_of(first, 500))
            index.remove(first)
            index.add(first, vectors_of(first, 1)[0])
        index.optimize()
        stop.set()
        answers = [told.get(timeout=60) for _ in readers]
        [reader.join() for reader in readers]
        assert all(isinstance(answer, int) and answer > 0 for answer in answers), answers
        assert len(index) == 12_000 and heap.check() == []


def test_processes_that_make_an_index_at_once_make_one(path):
    with holdfast.open(path, shared=True) as one, holdfast.open(path, shared=True) as other:  # at the same version
        of_one = holdfast.VectorIndex(one, "i", DIMENSIONS)
        of_one.add("a", vectors_of(0, 1)[0])
        of_other = holdfast.VectorIndex(other, "i", DIMENSIONS)
        of_other.add("b", vectors_of(1, 1)[0])
        one.refresh()
        assert sorted(of_one) == sorted(of_other) == ["a", "b"]


def add_in_turn(path, first):
    """Some vectors, one at a time."""
    with holdfast.open(path, shared=True) as heap:
        index = holdfast.VectorIndex(heap, "i", DIMENSIONS)
        for key, vector in enumerate(vectors_of(first, 40), first):
            index.add(key, vector, {"first": first})
        del index
        gc.collect()


def test_processes_that_share_a_heap_add_by_turns(path):
    firsts = (0, 1000, 2000)
    adders = [START.Process(target=add_in_turn, args=(path, first)) for first in firsts]
    [adder.start() for adder in adders]
    [adder.join() for adder in adders]
    with holdfast.open(path, "r") as heap:
        index = holdfast.VectorIndex(heap, "i")
        assert len(index) == 120
        for first in firsts:
            vectors = vectors_of(first, 40)
            assert (index[first + 39] == vectors[39]).all() and index.values(first) == {"first": first}
            assert index.search(vectors[3], 1, {"first": first})[0].key == first + 3

"""VectorIndex: nearest vectors, found by graphs of usearch that lie in the heap."""

import os
import signal
import subprocess
import sys
import threading

import numpy
import pytest

import holdfast

pytest.importorskip("usearch", reason="NOT TESTED HERE: usearch is not installed")

DIMENSIONS = 16


def clouds(count, seed=1):
    """Vectors in some groups, as texts have them."""
    random = numpy.random.default_rng(seed)
    centres = random.standard_normal((20, DIMENSIONS))
    return (centres[random.integers(0, 20, count)] + 0.4 * random.standard_normal((count, DIMENSIONS))).astype("f4")


def queries(vectors, count):
    """Near some of the vectors."""
    random = numpy.random.default_rng(2)
    return vectors[random.integers(0, len(vectors), count)] + 0.1 * random.standard_normal((count, DIMENSIONS))


def nearest(index, vector):
    """The key of the vector, which a graph finds with enough effort."""
    return index.search(vector, 1, effort=800)[0].key


def exact(query, vectors, metric, count):
    """The true nearest rows."""
    query, vectors = query.astype("f8"), vectors.astype("f8")
    products = vectors @ query
    found = {
        "cos": 1 - products / numpy.linalg.norm(vectors, axis=1) / numpy.linalg.norm(query),
        "l2sq": ((vectors - query) ** 2).sum(axis=1),
        "ip": 1 - products,
    }[metric]
    order = numpy.argsort(found, kind="stable")[:count]
    return order.tolist(), found[order]


@pytest.mark.parametrize("metric", ["cos", "l2sq", "ip"])
def test_the_nearest_vectors_are_found(heap, metric):
    vectors = clouds(6000)
    index = holdfast.VectorIndex(heap, "texts", DIMENSIONS, metric=metric)
    index.add(range(5000), vectors[:5000])  # a graph
    index.add(range(5000, 6000), vectors[5000:])  # rows behind it
    assert len(index) == 6000 and 5999 in index and 6000 not in index
    hits = 0
    for query in queries(vectors, 50):
        rows, _ = exact(query, vectors, metric, 10)
        _, apart = exact(query, vectors, metric, len(vectors))
        found = index.search(query, 10, effort=400)
        assert len(found) == 10
        assert [match.distance for match in found] == sorted(match.distance for match in found)
        assert numpy.isclose(apart, found[0].distance, rtol=1e-4, atol=1e-4).any(), "distances are exact"
        hits += len({match.key for match in found} & set(rows))
    assert hits >= (350 if metric == "ip" else 450)  # of 500: a graph by inner products finds less
    assert heap.check() == []


def test_keys_are_replaced_and_removed(heap):
    index = holdfast.VectorIndex(heap, "texts", 2, metric="l2sq")
    index.add("a", [1, 0], {"colour": "red"})
    index.add(["b", ("c", 1), "b"], numpy.array([[9, 9], [0, 1], [0.5, 0.5]], "f4"))
    assert [match.key for match in index.search([1, 0])] == ["a", "b", ("c", 1)]
    index.add("a", [5, 5])
    assert index.search([5, 5], 1) == [holdfast.Match("a", 0.0)]
    assert index.values("a") == {} and index["a"].tolist() == [5, 5]
    assert index.search([1, 0], where={"colour": "red"}) == []
    index.remove("b")
    with pytest.raises(KeyError):
        index.remove("b")
    assert sorted(map(str, index)) == ["('c', 1)", "a"]
    assert [match.key for match in index.search([1, 0])] == [("c", 1), "a"]
    index.optimize()
    assert len(heap["texts"]["vectors"]) == 2, "the places of removed vectors are free"
    assert [match.key for match in index.search([1, 0])] == [("c", 1), "a"]


def test_values_filter(heap):
    vectors = clouds(10_000)
    values = [
        {"even": row % 2 == 0, "tens": row // 10, "tags": ["a", "b"] if row % 3 else ["a"]} for row in range(10_000)
    ]
    index = holdfast.VectorIndex(heap, "texts", DIMENSIONS)
    for begin in range(0, 10_000, 2500):
        index.add(range(begin, begin + 2500), vectors[begin : begin + 2500], values[begin : begin + 2500])
    rows = numpy.arange(10_000)
    for where, allowed in [
        ({"even": True}, rows % 2 == 0),
        ({"tens": 7}, rows // 10 == 7),
        ({"tens": [7, 8], "even": False}, numpy.isin(rows // 10, [7, 8]) & (rows % 2 == 1)),
        ({"tags": "b"}, rows % 3 != 0),
        ({"tags": "none"}, rows < 0),
        ({"no such name": 1}, rows < 0),
    ]:
        hits = wanted = 0
        for query in queries(vectors, 10):
            near, _ = exact(query, vectors[allowed], "cos", 10)
            true = set(rows[allowed][near].tolist())
            found = index.search(query, 10, where, effort=400)
            assert all(allowed[match.key] for match in found) and len(found) == min(10, allowed.sum())
            hits, wanted = hits + len(true & {match.key for match in found}), wanted + len(true)
        assert hits >= 0.9 * wanted
    assert index.values(31) == {"even": False, "tens": 3, "tags": ["a", "b"]}


def test_many_small_additions_make_few_graphs(path, monkeypatch):
    monkeypatch.setattr(holdfast._vectors, "_FEW", 256)
    with holdfast.open(path) as heap:
        index = holdfast.VectorIndex(heap, "texts", 2, metric="l2sq", connectivity=4)
        points = numpy.random.default_rng(1).standard_normal((6000, 2)).astype("f4")
        for begin in range(0, len(points), 150):
            index.add(range(begin, begin + 150), points[begin : begin + 150])
        graphs = heap["texts"]["graphs"]
        assert len(graphs) <= 10, "graphs of one size become one"
        assert graphs[0]["first"] == 0
        assert all(graphs[i]["end"] == graphs[i + 1]["first"] for i in range(len(graphs) - 1))
        assert [nearest(index, points[row]) for row in range(0, 6000, 400)] == list(range(0, 6000, 400))


def test_a_transaction_takes_additions_back(heap):
    index = holdfast.VectorIndex(heap, "texts", DIMENSIONS)
    vectors = clouds(10_000)
    index.add(range(5000), vectors[:5000], [{"n": 1}] * 5000)
    with pytest.raises(ZeroDivisionError):
        with heap.transaction():
            index.remove(17)
            index.add(range(5000, 10_000), vectors[5000:], [{"n": 1}] * 5000)
            assert nearest(index, vectors[7777]) == 7777
            raise ZeroDivisionError
    assert len(index) == 5000
    assert nearest(index, vectors[17]) == 17
    assert {match.key < 5000 for match in index.search(vectors[7777], 20, {"n": 1})} == {True}
    index.add(range(5000, 10_000), vectors[:5000] + 100)
    assert nearest(index, vectors[17] + 100) >= 5000, "a graph of the transaction that was taken back"
    with pytest.raises(TypeError):
        index.add("bad", vectors[0], {"n": object()})
    assert "bad" not in index and len(index) == 10_000


def test_threads_search_beside_each_other(heap):
    vectors = clouds(5000)
    index = holdfast.VectorIndex(heap, "texts", DIMENSIONS)
    index.add(range(5000), vectors)
    alone = {row: index.search(vectors[row]) for row in range(0, 5000, 50)}
    wrong = []

    def search():
        for _ in range(3):
            wrong.extend(row for row in alone if index.search(vectors[row]) != alone[row])

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_does_not_fit_is_refused(heap):
    index = holdfast.VectorIndex(heap, "texts", 3)
    for arguments, error in [
        (("a", [1, 2]), ValueError),
        ((["a", "b"], [[1, 2, 3]]), ValueError),
        ((["a"], [[1, 2, 3]], [{}, {}]), ValueError),
        ((["a"], [["x", "y", "z"]]), (TypeError, ValueError)),
        (([["a"]], [[1, 2, 3]]), TypeError),
    ]:
        with pytest.raises(error):
            index.add(*arguments)
    assert len(index) == 0 and index.search([1, 2, 3]) == []
    with pytest.raises(ValueError):
        index.search([1, 2])
    with pytest.raises(ValueError):
        index.search([1, 2, 3], 0)
    with pytest.raises(ValueError, match="dimensions"):
        holdfast.VectorIndex(heap, "texts", 4)
    with pytest.raises(KeyError, match="dimensions"):
        holdfast.VectorIndex(heap, "none")
    with pytest.raises(ValueError, match="metric"):
        holdfast.VectorIndex(heap, "none", 4, metric="near")
    with pytest.raises(TypeError):
        holdfast.VectorIndex(heap, "none", 4, dtype="i4")
    heap["words"] = {}
    with pytest.raises(TypeError, match="no VectorIndex"):
        holdfast.VectorIndex(heap, "words")
    assert "none" not in heap


WRITER = """
import sys
import holdfast
sys.path.insert(0, sys.argv[2])
from test_vectors import DIMENSIONS, clouds, nearest
heap = holdfast.open(sys.argv[1])
index = holdfast.VectorIndex(heap, "texts", DIMENSIONS)
vectors = clouds(12_000)
for begin in range(len(index), 12_000, 500):
    index.add(range(begin, begin + 500), vectors[begin : begin + 500], [{"begin": begin}] * 500)
    print(begin + 500, flush=True)
"""

READER = """
import sys
import holdfast
sys.path.insert(0, sys.argv[2])
from test_vectors import DIMENSIONS, clouds, nearest
heap = holdfast.open(sys.argv[1], mode="r")
index = holdfast.VectorIndex(heap, "texts")
vectors = clouds(12_000)
known, versions = 0, set()
print("ready", flush=True)
while known < 12_000:
    if not heap.wait_for_change(60):
        sys.exit("no change")
    heap.refresh()
    assert len(index) >= known and len(index) % 500 == 0, len(index)
    known = len(index)
    versions.add(known)
    for row in (0, known // 2, known - 1):
        assert nearest(index, vectors[row]) == row
    assert {match.key // 500 for match in index.search(vectors[0], 5, {"begin": known - 500})} == {known // 500 - 1}
print(len(versions))
"""


def started(code, path):
    return subprocess.Popen(
        [sys.executable, "-c", code, path, os.path.dirname(__file__)], stdout=subprocess.PIPE, text=True
    )


def test_a_killed_writer_leaves_whole_additions(path):
    vectors = clouds(12_000)
    for stop in (2, 9):
        writer = started(WRITER, path)
        said = [int(writer.stdout.readline()) for _ in range(stop)]
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        with holdfast.open(path, mode="r") as heap:
            index = holdfast.VectorIndex(heap, "texts")
            assert len(index) >= said[-1] and len(index) % 500 == 0
            for row in range(0, len(index), 333):
                assert nearest(index, vectors[row]) == row
            assert heap.check(pages=True) == []
    writer = started(WRITER, path)
    assert writer.wait(60) == 0
    writer.communicate()


def test_readers_search_while_one_adds(path):
    with holdfast.open(path) as heap:
        holdfast.VectorIndex(heap, "texts", DIMENSIONS)
    readers = [started(READER, path) for _ in range(3)]
    for reader in readers:
        assert reader.stdout.readline() == "ready\n"
    writer = started(WRITER, path)
    writer.communicate()
    assert writer.returncode == 0
    for reader in readers:
        assert int(reader.communicate(timeout=60)[0]) >= 2
        assert reader.returncode == 0

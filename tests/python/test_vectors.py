"""VectorIndex: nearest vectors, found by graphs of usearch that lie in the heap."""

import os
import signal
import subprocess
import sys
import threading

import numpy
import pytest

import holdfast
from holdfast import _vectors

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
    monkeypatch.setattr(_vectors, "_FEW", 256)
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


def test_a_function_filters(heap):
    vectors = clouds(6000)
    index = holdfast.VectorIndex(heap, "texts", DIMENSIONS)
    index.add(range(6000), vectors, [{"row": row} if row % 7 else None for row in range(6000)])
    asked = []

    def is_odd(values):
        asked.append(values)
        return values.get("row", 0) % 2

    for query in queries(vectors, 10):
        odd = [row for row in range(6000) if row % 7 and row % 2]
        near, _ = exact(query, vectors[odd], "cos", 5)
        del asked[:]
        found = index.search(query, 5, is_odd, effort=400)
        assert len({match.key for match in found} & {odd[row] for row in near}) >= 4
        assert len(asked) < 100, "nearest first, until there are enough"
    assert {} in [dict(each) for each in asked] or index.values(7) == {}
    rare = index.search(vectors[0], 3, lambda values: values.get("row") in (17, 4000))
    assert sorted(match.key for match in rare) == [17, 4000], "all are looked at where few are accepted"
    assert index.search(vectors[0], 3, lambda values: False) == []
    with pytest.raises(ZeroDivisionError):
        index.search(vectors[0], 3, lambda values: 1 / 0)


def test_many_queries_at_once_find_what_each_finds(heap):
    vectors = clouds(6000)
    index = holdfast.VectorIndex(heap, "texts", DIMENSIONS)
    assert index.search(vectors[:3]) == [[], [], []]
    index.add(range(5000), vectors[:5000], [{"even": row % 2 == 0} for row in range(5000)])
    index.add(range(5000, 6000), vectors[5000:])
    asked = queries(vectors, 20)
    for where in (None, {"even": True}, lambda values: values.get("even")):
        assert index.search(asked, 5, where) == [index.search(query, 5, where) for query in asked]
    assert index.search(asked[:0]) == []
    assert index.search(vectors[:2], 7000)[1][0].key == 1, "more than there are"
    assert [len(each) for each in index.search(vectors[:2], 7000)] == [6000, 6000]


@pytest.mark.parametrize("metric", ["cos", "l2sq", "ip"])
def test_vectors_of_bytes(heap, metric):
    vectors = numpy.clip(numpy.rint(clouds(5000) * 30), -127, 127).astype("i1")
    index = holdfast.VectorIndex(heap, "texts", DIMENSIONS, metric=metric, dtype="i1")
    index.add(range(5000), vectors)
    assert index[17].dtype == numpy.int8 and index.get(17).tolist() == vectors[17].tolist()
    assert index.get("none") is None and index.get("none", 3) == 3
    hits = 0
    for query in queries(vectors, 50):
        rows, apart = exact(query, vectors, metric, 10)
        found = index.search(query, 10, effort=400)
        hits += len({match.key for match in found} & set(rows))
        if found[0].key == rows[0]:
            assert found[0].distance == pytest.approx(apart[0], rel=1e-3, abs=1e-3)
    assert hits >= (350 if metric == "ip" else 440)  # of 500
    for wrong in ([0.5] * DIMENSIONS, [128] * DIMENSIONS, [-128] * DIMENSIONS, ["a"] * DIMENSIONS):
        with pytest.raises(TypeError):
            index.add("wrong", wrong)
    assert "wrong" not in index


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_numbers_that_are_not_finite_are_refused(heap, dtype):
    index = holdfast.VectorIndex(heap, "texts", 2, dtype=dtype)
    too_large = {"f2": 1e5, "f4": 1e39, "f8": 1e39}[dtype]
    for wrong in (float("nan"), float("inf"), too_large):
        with pytest.raises(ValueError, match="finite"):
            index.add("a", numpy.array([1.0, wrong]))
    with pytest.raises(ValueError, match="finite"):
        index.search([1.0, float("nan")])
    assert len(index) == 0


def test_graphs_that_are_as_they_were_are_not_opened_again(heap, monkeypatch):
    monkeypatch.setattr(_vectors, "_FEW", 256)
    opened = []
    graph = _vectors.Graph

    def counted(settings, first, end, memory):
        opened.append(first)
        return graph(settings, first, end, memory)

    monkeypatch.setattr(_vectors, "Graph", counted)
    index = holdfast.VectorIndex(heap, "texts", DIMENSIONS)
    vectors = clouds(1200)
    for begin in range(0, 900, 300):
        index.add(range(begin, begin + 300), vectors[begin : begin + 300])
        assert nearest(index, vectors[begin]) == begin
    assert opened == [0, 300, 600]
    index.optimize()
    assert nearest(index, vectors[700]) == 700 and opened == [0, 300, 600, 0]


DAMAGE = """
import random, sys
import numpy, holdfast
sys.path.insert(0, sys.argv[2])
from test_vectors import DIMENSIONS, clouds
vectors = clouds(4096)
heap = holdfast.open(sys.argv[1])
index = holdfast.VectorIndex(heap, "texts", DIMENSIONS, metric="l2sq", connectivity=4)
index.add(range(4096), vectors)
graph = heap["texts"]["graphs"][0]["graph"]
begin = 8 + 4096 * 4 * DIMENSIONS  # of the head
levels = begin + 64 + 40
nodes = levels + 2 * 4096
sound = graph.copy()

def answer():
    try:
        return holdfast.VectorIndex(heap, "texts").search(vectors[5], 10, effort=500)
    except holdfast.CorruptError as fault:
        assert "graph" in str(fault) or "VectorIndex" in str(fault), fault
        return None

assert answer()[0].key == 5
# The number of vectors and bytes, the name of the format, its kinds, the numbers of the graph; levels; a key; the
# number of neighbours, and a neighbour.
for at in [0, 4, begin, begin + 13, begin + 14, *range(begin + 64, levels, 8), levels, levels + 1, nodes + 3, nodes + 8,
           nodes + 11, nodes + 12, nodes + 17]:
    graph[at] ^= 0x80
    assert answer() is None, at
    graph[at] ^= 0x80
assert answer()[0].key == 5
random.seed(3)
found = []
for _ in range(400):
    for _ in range(random.choice((1, 1, 3, 50))):
        graph[random.randrange(begin + 64, len(graph))] = random.choice((0, 1, 127, 128, 255))
    found.append(answer())
    graph[:] = sound
assert None in found and any(each is not None for each in found), "some damage is no danger"
for size in (0, 7, begin, nodes, len(graph) - 1, len(graph) + 1):
    heap["texts"]["graphs"][0]["graph"] = numpy.resize(sound, size)
    assert answer() is None, size
heap["texts"]["graphs"][0]["graph"] = sound
for name, wrong in [("first", 1), ("end", 4097), ("end", 0), ("graph", sound.astype("i4"))]:
    right = heap["texts"]["graphs"][0][name]
    heap["texts"]["graphs"][0][name] = wrong
    assert answer() is None, name
    heap["texts"]["graphs"][0][name] = right
for name, wrong in [("metric", "far"), ("dimensions", 4), ("connectivity", 1 << 40), ("precision", "f64"),
                    ("vectors", vectors[:, :3].copy())]:
    right = heap["texts"][name]
    heap["texts"][name] = wrong
    assert answer() is None, name
    heap["texts"][name] = right
assert answer()[0].key == 5
print("sound")
"""


def test_damage_is_an_error_and_no_crash(path):
    done = subprocess.run(
        [sys.executable, "-c", DAMAGE, path, os.path.dirname(__file__)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "sound\n"), done.stderr


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

"""Arrays that become longer and shorter: append() and resize(); and arrays of zeros that take no memory."""

import gc
import resource

import numpy
import pytest
from conftest import run_python

import holdfast


def test_rows_are_appended(open_heap):
    with open_heap() as heap:
        heap.array("x", (0, 3), "f4")
        for number in range(1000):
            heap.append("x", [number, number + 0.5, -number])  # one row
        heap.append("x", numpy.ones((24, 3), "f2"))  # rows of another type of the same kind
        heap["d"] = {"t": numpy.array(["2026-01-01"], "M8[D]")}
        heap["d"].append("t", ["2026-01-02", "NaT"])
        heap["d"].append("t", numpy.datetime64("2026-01-03"))
    with open_heap(mode="r") as heap:
        x = heap["x"]
        assert x.shape == (1024, 3) and x.dtype == "f4"
        assert (x[:1000, 0] == numpy.arange(1000)).all() and (x[:1000, 1] == x[:1000, 0] + 0.5).all()
        assert (x[1000:] == 1).all()
        assert heap["d"]["t"].tolist()[3].day == 3 and numpy.isnat(heap["d"]["t"][2])
        assert heap.check(pages=True) == []


def test_rows_of_lists_follow_the_rule_of_arrays(heap):
    """A number that would lose its fraction, and a text that would be cut, are refused in either form."""
    for dtype, rows in (
        ("i8", 1.5), ("i8", [1.0]), ("i1", [300]), ("?", [2]), ("f8", [1j]),
        ("U2", ["ab", "abc"]), ("S2", [b"abc"]), ("U2", numpy.array(["abc"])),
    ):  # fmt: skip
        heap["x"] = numpy.zeros(1, dtype)
        with pytest.raises((TypeError, ValueError, OverflowError)):
            heap.append("x", rows)
        assert heap["x"].tolist() == numpy.zeros(1, dtype).tolist()
    for dtype, rows in (
        ("i8", [1, True]), ("f4", [1, 2.5]), ("c8", [1, 2.5, 1j]), ("?", [True]), ("u1", [255]), ("i8", []),
        ("U2", ["ab", ""]), ("U5", "abc"), ("S3", [b"abc"]), ("U2", numpy.array(["ab"], "U9")),
    ):  # fmt: skip
        heap["x"] = numpy.zeros(0, dtype)
        heap.append("x", rows)
        assert heap["x"].tolist() == numpy.atleast_1d(numpy.asarray(rows, dtype)).tolist()


def test_a_length_that_is_no_whole_number_is_refused(heap):
    heap["x"] = numpy.zeros(3)
    for length in (1.5, "2", None):
        with pytest.raises(TypeError):
            heap.resize("x", length)
    heap.resize("x", numpy.int8(2))
    assert heap["x"].shape == (2,)


def test_rows_of_records_are_appended(heap):
    kind = numpy.dtype([("when", "M8[us]"), ("x", "f8", (2,)), ("name", "U5")], align=True)
    heap.array("log", 0, kind)
    heap.append("log", numpy.array([("2026-01-01", (1, 2), "one")], kind))
    heap.append("log", ("2026-01-02", (3, 4), "two"))
    heap.append("log", [("2026-01-03", (5, 6), "three"), ("2026-01-04", (7, 8), "four")])
    assert heap["log"].dtype == kind
    assert heap["log"]["name"].tolist() == ["one", "two", "three", "four"]
    assert heap["log"]["x"][3].tolist() == [7, 8]


@pytest.mark.parametrize("text", ["bfloat16", "float8_e4m3fn"])
def test_rows_of_other_packages_are_appended(heap, text):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="NOT TESTED HERE: ml_dtypes is not installed")
    dtype = numpy.dtype(getattr(ml_dtypes, text))
    heap.array("x", 0, dtype)
    heap.append("x", numpy.ones(3, dtype))
    assert heap["x"].dtype == dtype and heap["x"].tolist() == [1, 1, 1]


def test_a_view_keeps_what_it_saw(heap):
    heap["x"] = numpy.arange(10)
    views = []
    for number in range(10, 2000):
        if number % 100 == 0:
            views.append((heap["x"], number))
        heap.append("x", [number])
    heap.resize("x", 5)
    heap.append("x", numpy.full(3000, -1))
    for view, size in views:
        assert (view == numpy.arange(size)).all(), "rows that came later lie where the view looks"
    assert heap["x"][:6].tolist() == [0, 1, 2, 3, 4, -1]
    del view, views
    gc.collect()
    heap.commit()
    assert heap.statistics()["allocated"] < 100_000
    assert heap.check() == []


def test_an_appended_row_is_seen_in_the_memory_of_the_array(heap):
    heap["x"] = numpy.zeros(1000)
    heap.append("x", numpy.zeros(1))
    before = heap["x"]
    heap.append("x", [5])
    after = heap["x"]
    assert numpy.shares_memory(before, after), "there was room behind the last row"
    before[0] = 3
    assert after[0] == 3 and after[1001] == 5


def test_appending_takes_time_in_proportion_to_the_rows(heap):
    heap.array("x", 0, "i8")
    places = set()
    for number in range(20_000):
        heap.append("x", numpy.array([number]))
        if number % 16 == 0:
            places.add(heap["x"].__array_interface__["data"][0])
    assert len(places) < 50
    assert (heap["x"] == numpy.arange(20_000)).all()


def test_an_array_is_resized(heap):
    heap["x"] = numpy.ones((4, 2), "i2")
    heap.resize("x", 6)
    assert heap["x"].tolist() == [[1, 1]] * 4 + [[0, 0]] * 2
    heap["x"][:] = 7
    heap.resize("x", 3)
    heap.resize("x", 5)
    assert heap["x"].tolist() == [[7, 7]] * 3 + [[0, 0]] * 2, "what was beyond the end does not come back"
    heap.resize("x", 0)
    assert heap["x"].shape == (0, 2)
    heap.append("x", [1, 2])
    assert heap["x"].tolist() == [[1, 2]]
    heap["n"] = numpy.zeros((3, 0))
    heap.resize("n", 5)
    assert heap["n"].shape == (5, 0)


def test_what_cannot_grow_is_refused(heap):
    heap["f"] = numpy.asfortranarray(numpy.ones((2, 3)))
    heap["0"] = numpy.array(1.5)
    heap["text"] = "text"
    heap["x"] = numpy.ones((2, 3))
    for key, rows, error, words in [
        ("f", numpy.ones((2, 3)), TypeError, "Fortran"),
        ("0", [1], TypeError, "without dimensions"),
        ("text", "more", TypeError, "no array"),
        ("none", [1], KeyError, "none"),
        ("x", numpy.ones((2, 4)), ValueError, "shape"),
        ("x", numpy.ones((2, 3), "c8"), TypeError, "same_kind"),
        ("x", 5, ValueError, "shape"),
    ]:
        with pytest.raises(error, match=words):
            heap.append(key, rows)
    for length, error in [(-1, ValueError), (1 << 60, ValueError), (2.5, (TypeError, AttributeError))]:
        with pytest.raises(error):
            heap.resize("x", length)
    with pytest.raises(holdfast.InvalidArgumentError if hasattr(holdfast, "InvalidArgumentError") else holdfast.Error):
        heap._held.resize_array("x", numpy.zeros((0, 4)), 32, 9)  # as if another thread had changed its shape
    assert heap["x"].tolist() == [[1] * 3] * 2


def test_an_aborted_transaction_takes_rows_back(heap):
    heap["x"] = numpy.arange(100)
    heap.append("x", [100])  # now it has room
    view = heap["x"]
    with pytest.raises(KeyError):
        with heap.transaction():
            heap.append("x", [-1] * 3)
            assert heap["x"].tolist() == [*range(101), -1, -1, -1]
            assert numpy.shares_memory(heap["x"], view), "so that a loop of appends and reads copies nothing"
            heap.resize("x", 50)
            heap.append("x", [-2] * 10)
            assert heap["x"].tolist() == [*range(50)] + [-2] * 10
            heap.append("x", [-3] * 10_000)
            heap.append("x", [-4])
            assert heap["x"].shape == (10_061,)
            raise KeyError
    assert heap["x"].tolist() == [*range(101)], "rows that the abort had taken back were written over"
    assert view.tolist() == [*range(101)]
    with heap.transaction():
        heap.append("x", [101])
        heap.append("x", [102])
    assert heap["x"].tolist() == [*range(103)]
    assert heap.check() == []


def test_a_transaction_makes_an_array_shorter_and_longer_again(heap):
    heap["x"] = numpy.arange(100)
    with heap.transaction():
        heap.resize("x", 50)
        heap.append("x", [-1] * 3)
    assert heap["x"].tolist() == [*range(50), -1, -1, -1]


@pytest.mark.parametrize("durability", ["commit", "atomic", "collect"])
def test_a_killed_process_leaves_whole_rows(path, durability):
    run_python(
        "import holdfast, os, sys, numpy\n"
        "heap = holdfast.open(sys.argv[1], durability=sys.argv[2], accept_process_crash_only=True)\n"
        "heap.array('x', (0, 100), 'i8')\n"
        "for number in range(500):\n"
        "    heap.append('x', numpy.full(100, number))\n"
        "    if number == 300:\n"
        "        heap.commit()\n"
        "os._exit(0)\n",
        path,
        durability,
    )
    with holdfast.open(path, durability=durability, accept_process_crash_only=True) as heap:
        rows = heap["x"]
        assert len(rows) == (301 if durability == "commit" else 500)
        assert (rows == numpy.arange(len(rows))[:, None]).all()
        assert heap.check() == []


def test_readers_see_the_rows_of_each_commit(path):
    with holdfast.open(path) as writer:
        writer["x"] = numpy.arange(10)
        writer.commit()
        with holdfast.open(path, mode="r") as reader:
            for size in range(11, 200):
                writer.append("x", [size - 1])
                assert len(reader["x"]) == size - 1
                writer.commit()
                reader.refresh()
                assert reader["x"].tolist() == list(range(size))


def test_an_array_of_zeros_takes_no_memory(path):
    def most_memory():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    with holdfast.open(path) as heap:
        before = most_memory()
        zeros = heap.array("x", (1 << 20, 64), "f4")  # 256 MiB
        assert most_memory() - before < 64 << 20  # was: as much as the array
        assert not zeros[::4096].any()
        zeros[1 << 19, 5] = 1
        heap.resize("x", 1 << 21)
        assert most_memory() - before < 400 << 20
        del zeros
        heap.close(commit=False)

"""Arrays: in the heap as such, and read without a copy."""

import gc
import pickle

import numpy
import pytest

import holdfast

ARRAYS = [
    numpy.arange(12.0).reshape(3, 4), numpy.arange(5, dtype="i1"), numpy.array(7.5), numpy.zeros((0, 3), "c16"),
    numpy.array([True, False]), numpy.array(["2026-01-01", "NaT"], "M8[D]"), numpy.array(["a", "bcd"]),
    numpy.array([b"ab", b""]), numpy.arange(6, dtype=">i4"), numpy.ones((2, 3, 4, 5), "f2"),
    numpy.array([(1, (2.0, 3.0)), (4, (5.0, 6.0))], dtype=[("n", "<i4"), ("xy", "<f8", (2,))]),
]  # fmt: skip


def same(a, b):
    """Whether two arrays are of one type, one shape, and one content."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.dtype))
def test_an_array_is_read_as_it_was_stored(path, array):
    with holdfast.open(path) as heap:
        heap["x"] = array
        heap["y"] = [array.T, array[..., ::-1] if array.ndim else array]
    with holdfast.open(path, mode="r") as heap:
        assert same(heap["x"], array)
        assert same(heap["y"][0], array.T)
        assert same(heap["y"][1], array[..., ::-1] if array.ndim else array)


def test_an_array_is_the_one_in_the_heap(open_heap):
    with open_heap() as heap:
        heap["x"] = numpy.zeros(100)
        first, second = heap["x"], heap["x"]
        first[3] = 5
        assert second[3] == 5
        assert numpy.shares_memory(first, second)
        assert not first.flags.owndata
        del first, second
    with open_heap(mode="r") as heap:
        assert heap["x"][3] == 5
        with pytest.raises(ValueError, match="read-only"):
            heap["x"][3] = 1


def test_an_array_of_zeros_is_made_once(heap):
    made = heap.array("x", (10, 20), "f4")
    assert made.shape == (10, 20) and not made.any()
    made[1, 2] = 3
    assert heap.array("x", (10, 20), "f4")[1, 2] == 3
    with pytest.raises(TypeError):
        heap.array("x", (10, 21), "f4")
    with pytest.raises(TypeError):
        heap.array("x", (10, 20), "f8")
    assert heap.array("n", 5).shape == (5,)


@pytest.mark.parametrize(
    "shape,dtype", [((1,) * 65, float), ((0, 1 << 63), float), ((0, 1 << 70), float), (3, "S"), (3, (float, (2,)))]
)
def test_an_array_that_could_not_be_read_is_not_made(heap, shape, dtype):
    with pytest.raises((ValueError, TypeError)):
        heap.array("x", shape, dtype)
    assert heap == {}  # was: an entry that no call could read


def test_an_array_that_others_have_made_meanwhile_is_not_replaced(heap):
    heap["x"] = "of another thread"
    heap._session.make_array("x", repr("<f8"), [1], 8)
    assert heap["x"] == "of another thread"


def test_an_array_that_no_heap_has_room_for_is_an_error_that_says_so(heap):
    with pytest.raises(ValueError, match="too large"):
        heap.array("x", (2**40, 2**40))
    assert "x" not in heap


def test_an_array_with_a_mask_is_refused(heap):
    with pytest.raises(TypeError, match="mask"):
        heap["x"] = numpy.ma.array([1, 2, 3], mask=[False, True, False])
    assert "x" not in heap


def test_objects_of_python_are_refused(heap):
    with pytest.raises(TypeError, match="objects of Python"):
        heap["x"] = numpy.array([object()])
    assert "x" not in heap


def test_a_view_of_memory_that_has_a_type_is_refused(heap):
    heap["b"] = memoryview(b"bytes")[1:]
    heap["a"] = bytearray(b"array")
    assert heap == {"b": b"ytes", "a": b"array"}
    for view in (memoryview(numpy.zeros(3)), memoryview(bytes(6)).cast("B", (2, 3))):
        with pytest.raises(TypeError, match="numpy.asarray"):
            heap["x"] = view  # was: its bytes


def test_scalars_of_numpy_become_numbers(heap):
    heap["x"] = numpy.float32(0.5)
    heap["y"] = {numpy.int64(3): numpy.bool_(True)}
    assert heap["x"] == 0.5 and type(heap["x"]) is float
    assert heap["y"] == {3: True}


def test_what_was_removed_stays_for_those_who_hold_it(heap):
    heap["x"] = numpy.full(1000, 7.0)
    view = heap["x"][10:20]
    del heap["x"]
    for i in range(50):
        heap[i] = numpy.zeros(1000)
    heap["x"] = numpy.zeros(1000)
    assert (view == 7).all()
    view[:] = 8
    assert not heap["x"].any()
    held = heap.statistics()["allocated"]
    del view
    gc.collect()
    heap.commit()
    assert heap.statistics()["allocated"] <= held - 8000


def test_a_heap_that_is_closed_stays_mapped_for_its_arrays(path):
    heap = holdfast.open(path)
    heap["x"] = numpy.arange(1000)
    view = heap["x"][::2]
    with pytest.warns(ResourceWarning, match="heap\\['x'\\]"):
        heap.close()
    assert heap.closed
    with pytest.raises(holdfast.ClosedError):
        heap["x"]
    assert view.sum() == sum(range(0, 1000, 2))
    with pytest.raises(holdfast.LockedError):
        holdfast.open(path)
    del view
    gc.collect()
    with holdfast.open(path) as again:
        assert again["x"].sum() == sum(range(1000))


def test_the_array_that_keeps_a_closed_heap_locked_is_named(path, tmp_path, monkeypatch):
    heap = holdfast.open(path)
    heap["d"] = {"rows": [1, {"deep": numpy.zeros(3)}], (1, 2): numpy.zeros(4)}
    heap["gone"] = numpy.zeros(5)
    held = [heap["d"]["rows"][1]["deep"].T, heap["d"][1, 2][1:], heap["gone"]]
    del heap["gone"]
    with pytest.raises(holdfast.LockedError, match="this process has the heap open"):
        holdfast.open(path)
    with pytest.warns(ResourceWarning):
        heap.close()
    with pytest.raises(TypeError, match="deep"):
        pickle.dumps(heap)
    del heap
    gc.collect()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(holdfast.LockedError) as told:
        holdfast.open("heap.hf")  # was: "locked", by this very process
    for name in ("heap['d']['rows'][1]['deep']", "heap['d'][...]", "1 that the heap has no more"):
        assert name in told.value.hint and name in str(told.value)
    del held[1:]
    gc.collect()
    del held[0]
    gc.collect()
    with holdfast.open("heap.hf") as heap:
        assert sorted(heap) == ["d"]


def test_what_was_held_at_the_end_of_the_process_is_freed_at_the_next_open(path):
    from conftest import run_python

    run_python(
        "import holdfast, numpy, os, sys\n"
        "heap = holdfast.open(sys.argv[1])\n"
        "heap['x'] = numpy.zeros(100_000); view = heap['x']; del heap['x']; heap.commit()\n"
        "assert heap.statistics()['allocated'] > 800_000\n"
        "os._exit(0)\n",
        path,
    )
    with holdfast.open(path) as heap:
        assert heap.statistics()["allocated"] < 100_000


def test_a_pinned_array_stays_where_it_is(path):
    with holdfast.open(path) as heap:
        heap["x"] = numpy.zeros(100_000)
        heap["y"] = numpy.zeros((10, 10))
        x = heap["x"]
        heap.pin(x)
        for number in (1, 2):
            x[:] = number
            heap.commit()
        del heap["x"]
        with pytest.raises(holdfast.Error):
            heap.unpin(heap["y"])
        with pytest.raises(holdfast.Error):
            heap.pin(numpy.zeros(10))
        with pytest.raises(ValueError):
            heap.pin(heap["y"].T)
        where = x.__array_interface__["data"][0]
        del x
        gc.collect()
        heap.commit()
        assert heap._pinned[0].__array_interface__["data"][0] == where
        assert heap._pinned[0][7] == 2, "deleted, and its memory is still the device's"
        heap.unpin(heap._pinned[0])
        gc.collect()
        heap.commit()
    with holdfast.open(path, mode="r") as heap:
        assert heap.check(pages=True) == []
        assert sorted(heap) == ["y"]
        with pytest.raises(holdfast.ReadOnlyError):
            heap.pin(heap["y"])

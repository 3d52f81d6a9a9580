"""Types of arrays: every type of numpy and of ml_dtypes is read as it was stored, or refused."""

import itertools
import subprocess
import sys

import numpy
import pytest

import holdfast
from conftest import run_python

ORDERS = "<>"
SIMPLE = ["?", "i1", "u1", "S1", "S7", "V1", "V13"] + [
    order + kind
    for order, kind in itertools.product(
        ORDERS,
        ["i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "g", "c8", "c16", "G", "U1", "U9", "p", "P", "l", "L"]
        + [f"{kind}8[{unit}]" for kind in "Mm" for unit in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps",
                                                              "fs", "as", "25s", "generic")],
    )
]  # fmt: skip
STRUCTURED = [
    [("a", "<f4", (2,)), ("b", "U5")],
    [("a", "i1"), ("b", [("x", ">i8"), ("y", "M8[ns]", (2, 3))])],
    numpy.dtype([("a", "i1"), ("b", "f8")], align=True),
    numpy.dtype({"names": ["b", "a"], "formats": ["i4", "i2"], "offsets": [2, 8], "itemsize": 20}),
    numpy.dtype([(("a title", "a"), "i4"), ("b", "f4")]),
    numpy.dtype((numpy.record, [("x", int), ("y", float)])),
]


def ml_types():
    """All types of ml_dtypes."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="NOT TESTED HERE: ml_dtypes is not installed")
    found = [getattr(ml_dtypes, name) for name in dir(ml_dtypes)]
    return [numpy.dtype(each) for each in found if isinstance(each, type) and issubclass(each, numpy.generic)]


def filled(dtype, shape):
    """An array whose bytes are not zeros."""
    size = int(numpy.prod(shape)) * dtype.itemsize
    data = numpy.arange(1, size + 1, dtype="u4").astype("u1") % 100
    return numpy.ndarray(shape, dtype, data.tobytes()) if size else numpy.zeros(shape, dtype)


def content(array):
    """The bytes of all elements, without those between fields."""
    names = array.dtype.names
    return array.tobytes() if names is None else [content(array[name]) for name in names]


def same(a, b):
    """Whether two arrays are of one type, one shape, one order, and one content."""
    orders = [(each.flags.c_contiguous, each.flags.f_contiguous) for each in (a, b)]
    return a.dtype == b.dtype and a.shape == b.shape and orders[0] == orders[1] and content(a) == content(b)


def round_trip(path, dtypes):
    """Stores arrays of these types in several shapes and orders, and reads them in another process's way."""
    arrays = {}
    with holdfast.open(path) as heap:
        for number, dtype in enumerate(dtypes):
            for shape in ((), (0,), (5,), (3, 4), (2, 3, 2)):
                made = filled(dtype, shape)
                for order in "CF":
                    arrays[number, shape, order] = numpy.asarray(made, order=order)
        heap.update(arrays)
    with holdfast.open(path, mode="r") as heap:
        for key, array in arrays.items():
            found = heap[key]
            assert same(found, array), (array.dtype, found.dtype, key)
            assert same(holdfast.to_python(found), array)
        copied = heap.to_python()
        assert all(same(copied[key], array) for key, array in arrays.items())


def test_every_type_of_numpy_is_read_as_it_was_stored(path):
    known = {numpy.dtype(code) for code in numpy.typecodes["All"] if code not in "OSUV"}
    round_trip(path, sorted({numpy.dtype(each) for each in SIMPLE} | known, key=str))


def test_every_structured_type_is_read_as_it_was_stored(path):
    round_trip(path, [numpy.dtype(each) for each in STRUCTURED])


def test_every_type_of_ml_dtypes_is_read_as_it_was_stored(path):
    found = ml_types()
    assert len(found) > 5
    bfloat16 = next(each for each in found if each.name == "bfloat16")
    round_trip(path, [*found, numpy.dtype([("w", bfloat16, (3,)), ("n", "i4")])])  # was: V2


def test_a_scalar_keeps_its_type(heap):
    scalars = [
        numpy.datetime64("2026-11-27T01:02:03.5", "ns"), numpy.timedelta64(5, "h"), numpy.complex64(1 + 2j),
        numpy.longdouble(1) / 3, *(each.type(1) for each in ml_types()),
    ]  # fmt: skip
    for number, scalar in enumerate(scalars):
        heap[number] = scalar
        found = heap[number]
        assert type(found) is type(scalar) and found.dtype == scalar.dtype
        assert found == scalar or found.tobytes() == scalar.tobytes()  # those of a longdouble are padded with anything
    heap["text"] = numpy.array(["a"])[0]
    heap["bytes"] = numpy.array([b"a"])[0]
    assert heap["text"] == "a" and type(heap["text"]) is str
    assert heap["bytes"] == b"a" and type(heap["bytes"]) is bytes


def test_a_type_without_a_name_is_refused(heap):
    overlapping = numpy.dtype({"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 2]})
    backwards = numpy.dtype({"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [8, 0]})
    for dtype in (overlapping, backwards, numpy.dtype([("x", "O")]), numpy.dtype("O")):
        with pytest.raises(TypeError):
            heap["x"] = numpy.zeros(3, dtype)
    if hasattr(numpy.dtypes, "StringDType"):
        with pytest.raises(TypeError, match="StringDType"):
            heap["x"] = numpy.array(["a", "b"], numpy.dtypes.StringDType())
        with pytest.raises(TypeError, match="StringDType"):
            heap.array("x", 3, numpy.dtypes.StringDType())
    assert "x" not in heap


def test_a_subclass_that_would_lose_something_is_refused(heap, tmp_path):
    class WithUnit(numpy.ndarray):
        """An array with a unit, as astropy has."""

    for array in (numpy.zeros(3).view(WithUnit), numpy.matrix([[1, 2]]), numpy.ma.array([1])):
        with pytest.raises(TypeError):
            heap["x"] = array
    mapped = numpy.memmap(tmp_path / "file", "f4", "w+", shape=(3, 2), order="F")
    mapped[:] = [[1, 2], [3, 4], [5, 6]]
    heap["x"] = mapped
    assert type(heap["x"]) is numpy.ndarray and same(heap["x"], numpy.asarray(mapped))


def test_an_order_is_kept_by_what_is_made_of_an_array(heap):
    heap["f"] = numpy.asfortranarray(numpy.arange(12.0).reshape(3, 4))
    assert heap["f"].flags.f_contiguous and not heap["f"].flags.c_contiguous
    heap["f"][1, 2] = -1
    assert heap["f"][1, 2] == -1 and heap["f"].sum() == 59
    heap["again"] = heap["f"]
    heap["copy"] = {"in": heap}
    assert heap["again"].flags.f_contiguous and heap["copy"]["in"]["f"].flags.f_contiguous
    heap["t"] = numpy.arange(24).reshape(2, 3, 4).transpose(1, 2, 0)  # neither order: C
    assert heap["t"].flags.c_contiguous and heap["t"][2, 3, 1] == 23


def test_a_type_that_the_reader_has_not_is_told(path):
    ml_types()
    program = "import holdfast, ml_dtypes, numpy, sys; h = holdfast.open(sys.argv[1]);"
    run_python(program + "h['w'] = numpy.ones(3, ml_dtypes.bfloat16); h.close()", path)
    told = run_python(
        "import holdfast, sys; sys.modules['ml_dtypes'] = None\n"
        "try: holdfast.open(sys.argv[1], mode='r')['w']\n"
        "except ModuleNotFoundError as failure: print(failure)",
        path,
    ).stdout
    assert "pip install ml_dtypes" in told


@pytest.mark.parametrize(
    "text", ["", "'", "'<f9'", "[[[[", "('<f4', -1)", "'O'", "[('a', 'O')]", "1", "'ml_dtypes.finfo'", "'ml_dtypes.os'",
             "[('a', '<f4'), ('a', '<f4')]", "(" * 5000, "'<U4611686018427387904'", "{'a': 1}", "None"]
)  # fmt: skip
def test_a_type_that_is_none_is_a_corrupt_heap(text):
    from holdfast._dtypes import type_from

    with pytest.raises((holdfast.CorruptError, ModuleNotFoundError)) as told:
        type_from(text)
    assert told.type is not ModuleNotFoundError or "ml_dtypes" in text


def test_an_order_that_is_none_is_a_corrupt_heap(path, tmp_path):
    with holdfast.open(path, segment_size=2 << 20) as heap:
        heap["x"] = numpy.ones((2, 3))
    file = tmp_path / "heap.hf" / "segment.000000"
    content = bytearray(file.read_bytes())
    tag = (10).to_bytes(4, "little") + b"HFV1"
    (place,) = (at for at in range(0, len(content), 8) if content[at : at + 8] == tag)
    assert content[place + 16 : place + 24] == bytes([2, 0, 0, 0, 0, 0, 0, 0])  # dimensions, order
    for order in (2, 255):
        content[place + 20] = order
        file.write_bytes(content)
        done = subprocess.run(
            [sys.executable, "-c", "import holdfast, sys; holdfast.open(sys.argv[1], mode='r')['x']", path],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert "CorruptError" in done.stderr and "order of an array" in done.stderr, done

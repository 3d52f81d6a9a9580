"""Tables and columns of pandas, pyarrow and polars: read as they were stored, and where they lie."""

import datetime
import decimal
import gc

import numpy
import pytest

import holdfast

pyarrow = pytest.importorskip("pyarrow", reason="NOT TESTED HERE: pyarrow is not installed")


@pytest.fixture
def pandas():
    """The module."""
    return pytest.importorskip("pandas", reason="NOT TESTED HERE: pandas is not installed")


@pytest.fixture
def polars():
    """The module."""
    return pytest.importorskip("polars", reason="NOT TESTED HERE: polars is not installed")


def whole_frame(pandas):
    """Columns of many types, with an index."""
    return pandas.DataFrame(
        {
            "x": numpy.arange(5), "y": numpy.arange(5.0), "s": list("abcd") + [None],
            "t": pandas.date_range("2026-01-01", periods=5, tz="UTC"), "c": pandas.Categorical(list("aabbc")),
            "n": pandas.array([1, None, 3, 4, 5], dtype="Int64"), "b": [True] * 5, "f": numpy.ones(5, "f4"),
            "d": [datetime.date(2026, 1, 1)] * 5, "m": [decimal.Decimal("1.5")] * 5,
        },
        index=pandas.Index(list("vwxyz"), name="i"),
    )  # fmt: skip


def test_frames_of_pandas_are_read_as_they_were_stored(open_heap, pandas):
    frames = [
        whole_frame(pandas), pandas.DataFrame(), pandas.DataFrame({"a": []}), pandas.DataFrame({1: [1], 2: [2.5]}),
        pandas.DataFrame({("a", 1): [1], ("a", 2): [2.0]}), pandas.DataFrame({"a": [[1, 2], [3]]}),
        pandas.DataFrame({"a": [1, 2]}, index=pandas.MultiIndex.from_tuples([(1, "a"), (2, "b")])),
        pandas.DataFrame({"p": pandas.period_range("2026", periods=2, freq="M"), "i": pandas.interval_range(0, 2)}),
        pandas.DataFrame({"d": [{"a": 1, "b": [1.5, 2.5]}] * 2}), pandas.DataFrame({"v": [numpy.arange(3), None]}),
    ]  # fmt: skip
    columns = [pandas.Series([1, 2], name="q"), pandas.Series(["a"], index=["k"]), pandas.Series([], dtype=float)]
    with open_heap() as heap:
        heap["frames"], heap["columns"] = frames, columns
    with open_heap(mode="r") as heap:
        for found, frame in zip(heap["frames"], frames):
            pandas.testing.assert_frame_equal(found, frame)
        for found, column in zip(heap["columns"], columns):
            pandas.testing.assert_series_equal(found, column)
        assert heap.check() == []
        del found


def test_frames_that_arrow_would_change_are_refused(heap, pandas):
    for frame in (
        pandas.DataFrame({"m": [1, "a"]}), pandas.DataFrame({"c": [1j]}),
        pandas.DataFrame([[1, 2]], columns=["a", "a"]),
        pandas.DataFrame({"o": [object()]}), pandas.DataFrame({"i": pandas.Series([1, 2], dtype=object)}),
        pandas.DataFrame({"d": [{"a": 1}, {"b": 2}]}), pandas.DataFrame({"s": [{1, 2}, {3}]}),
        pandas.DataFrame({"l": [[1, None], [2]]}), pandas.DataFrame({"l": [[{"a": 1}], [{"b": 1}]]}),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            heap["x"] = frame

    class More(pandas.DataFrame):
        """A frame that has more, as one of geopandas."""

    for value in (More({"a": [1]}), pandas.Timestamp("2026-01-01"), pandas.Index([1])):
        with pytest.raises(TypeError):
            heap["x"] = value
    assert heap == {}


def test_a_refused_frame_is_stored_by_what_the_error_says(heap, pandas):
    for values, name in (([1, None], "Int64"), ([True, None], "boolean"), ([1, 2], "int64"), ([1.5, None], "float64")):
        frame = pandas.DataFrame({"c": pandas.Series(values, dtype=object)})
        with pytest.raises(TypeError, match=f"astype.*'{name}'"):
            heap["x"] = frame
        heap["x"] = frame.astype({"c": name})
        assert heap["x"]["c"].isna().tolist() == [each is None for each in values]


def test_frames_of_polars_that_arrow_has_not_are_refused(heap, polars):
    wide = polars.DataFrame({"i": polars.Series([1], dtype=polars.Int128)})
    for frame in (wide, wide["i"], polars.DataFrame({"o": [object()]})):
        with pytest.raises(TypeError, match="as Arrow has it"):
            heap["x"] = frame
    assert heap == {}


def test_columns_lie_in_the_heap(path, pandas):
    with holdfast.open(path) as heap:
        heap["f"] = pandas.DataFrame({"a": numpy.arange(100_000.0), "b": numpy.arange(100_000)})
        heap["a"] = pyarrow.array(numpy.arange(100_000))
        frame, again, column = heap["f"], heap["f"], heap["a"]
        for name in "ab":
            assert numpy.shares_memory(frame[name].to_numpy(), again[name].to_numpy())
        assert numpy.shares_memory(column.to_numpy(), heap["a"].to_numpy())
        del heap["f"]
        heap["other"] = numpy.zeros(400_000)
        assert frame["a"].sum() == sum(range(100_000))  # keeps its memory
        with pytest.warns(ResourceWarning):
            heap.close()
        assert frame["b"][7] == 7
        with pytest.raises(holdfast.LockedError):
            holdfast.open(path)
        del frame, again, column
        gc.collect()
    holdfast.open(path).close()


def test_values_of_pyarrow_are_read_as_they_were_stored(open_heap):
    values = [
        pyarrow.table({"a": [1, None], "b": ["x", "y"]}), pyarrow.table({}), pyarrow.array([1, 2, None]),
        pyarrow.array([]), pyarrow.chunked_array([[1], [2, 3]]), pyarrow.array(["a", "b"]).dictionary_encode(),
        pyarrow.record_batch({"a": [1, 2]}), pyarrow.record_batch({"a": pyarrow.array([], pyarrow.int8())}),
        pyarrow.array([[1], [2, 3]]), pyarrow.array([1, 2, 3])[1:], pyarrow.array(["text", None])[1:],
        pyarrow.table({"t": pyarrow.array([0], pyarrow.timestamp("ns", "UTC"))}).replace_schema_metadata({"k": "v"}),
    ]  # fmt: skip
    with open_heap() as heap:
        heap["all"] = values
    with open_heap(mode="r") as heap:
        for number, value in enumerate(values):
            found = heap["all"][number]
            assert type(found) is type(value) and found.equals(value)
            if isinstance(value, pyarrow.Table):
                assert found.schema.equals(value.schema, check_metadata=True)
        del found


def test_frames_of_polars_are_read_as_they_were_stored(open_heap, polars):
    frames = [
        polars.DataFrame({"a": [1, None], "b": ["x", "y"], "c": [1.5, 2]}), polars.DataFrame(),
        polars.DataFrame({"c": polars.Series(["a", "b"], dtype=polars.Categorical)}),
        polars.DataFrame({"e": polars.Series(["a", "b"], dtype=polars.Enum(["a", "b"]))}),
        polars.DataFrame({"l": [[1], [2, 3]], "s": [{"x": 1}, None], "t": [datetime.datetime(2026, 1, 1)] * 2}),
    ]  # fmt: skip
    with open_heap() as heap:
        heap["frames"], heap["column"] = frames, polars.Series("q", [1, None])
        with pytest.raises(TypeError):
            heap["x"] = polars.DataFrame({"o": [object()]})
    with open_heap(mode="r") as heap:
        for number, frame in enumerate(frames):
            found = heap["frames"][number]
            assert found.schema == frame.schema and found.equals(frame)
        assert heap["column"].name == "q" and heap["column"].to_list() == [1, None]
        del found


def test_a_dict_of_arrays_is_a_table(heap, pandas, polars):
    heap["d"] = {"x": numpy.arange(3), "y": numpy.arange(3.0), "s": ["a", "b", "c"]}
    expected = {"x": [0, 1, 2], "y": [0.0, 1.0, 2.0], "s": ["a", "b", "c"]}
    assert pandas.DataFrame(heap["d"]).to_dict("list") == expected  # was: a column of the keys
    assert pyarrow.table(heap["d"]).to_pydict() == expected
    assert polars.DataFrame(heap["d"]).to_dict(as_series=False) == expected
    assert pandas.api.interchange.from_dataframe(heap["d"]).to_dict("list") == expected
    assert pyarrow.RecordBatchReader.from_stream(heap["d"]).read_all().to_pydict() == expected
    assert dict(heap["d"])["x"][1] == 1 and {**heap["d"]}["s"][0] == "a"
    column = pyarrow.table(heap["d"])["x"].chunk(0).to_numpy()
    assert numpy.shares_memory(column, heap["d"]["x"])


def test_a_frame_that_was_damaged_is_a_corrupt_heap():
    from holdfast._extended import restore

    for name in ("pyarrow.Table", "pyarrow.Array", "pyarrow.RecordBatch", "pandas.DataFrame", "polars.DataFrame"):
        for content in (b"", b"x" * 100, 5, "text", numpy.zeros(10, "u1"), (1, 2), None):
            with pytest.raises((holdfast.CorruptError, ModuleNotFoundError)):
                restore(name, content)


def test_a_column_whose_lengths_are_wrong_is_a_corrupt_heap():
    from holdfast._extended import restore
    from holdfast._frames import _to_bytes

    content = _to_bytes(pyarrow.table({"s": ["some", "text"] * 5})).copy()
    place = content.tobytes().index(numpy.arange(0, 44, 4, dtype="i4").tobytes())
    assert restore("pyarrow.Table", content).num_rows == 10
    content[place + 8 : place + 12] = numpy.frombuffer(numpy.int32(1 << 30).tobytes(), "u1")  # out of the text
    with pytest.raises(holdfast.CorruptError):
        restore("pyarrow.Table", content)

"""Tables and columns of pandas, pyarrow and polars: kept as a stream of Arrow (IPC) in one array, and read where they
lie. Imported where such a value is stored or read; all of it needs pyarrow.
"""

from __future__ import annotations

import importlib
from typing import Any, Callable

import numpy

from . import _core

_COLUMN = "values"


def _package(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ModuleNotFoundError(f"{what}: `pip install {name}`", name=name) from None


def _arrow(what: str) -> Any:
    arrow = _package("pyarrow", f"a heap keeps {what} by pyarrow")
    importlib.import_module("pyarrow.ipc")
    return arrow


def _to_bytes(table: Any) -> numpy.ndarray[Any, Any]:
    arrow = _arrow("a table")
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    made: numpy.ndarray[Any, Any] = numpy.frombuffer(sink.getvalue(), numpy.uint8)
    return made


def _to_table(content: Any) -> Any:
    """The table over the memory of the heap: no column is copied."""
    arrow = _arrow("a table")
    try:
        with arrow.ipc.open_stream(arrow.py_buffer(content)) as reader:
            table = reader.read_all()
        types = arrow.types
        is_fixed = all(types.is_primitive(each) or types.is_decimal(each) for each in table.schema.types)
        table.validate(full=not is_fixed)  # what texts and lists say of their lengths would be believed
    except (arrow.ArrowException, OSError) as failure:
        raise ValueError(str(failure)) from None
    return table


def _column_of(content: Any) -> Any:
    return _to_table(content).column(0)


def _from_column(chunks: Any) -> numpy.ndarray[Any, Any]:
    arrow = _arrow("a column")
    return _to_bytes(arrow.table({_COLUMN: chunks}))


def _to_array(content: Any) -> Any:
    column = _column_of(content)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _to_batch(content: Any) -> Any:
    batches = _to_table(content).combine_chunks().to_batches()
    return batches[0] if batches else _arrow("a batch").RecordBatch.from_pylist([], _to_table(content).schema)


def _to_pandas(table: Any) -> Any:
    return table.to_pandas(split_blocks=True)


def _is_same(stored: Any, read: Any) -> bool:
    """Whether a nested value of a column is read as it was stored, but that lists are read as arrays."""
    if isinstance(stored, dict):
        has_keys = isinstance(read, dict) and stored.keys() == read.keys()
        return has_keys and all(_is_same(each, read[key]) for key, each in stored.items())
    if isinstance(stored, numpy.ndarray) and isinstance(read, numpy.ndarray) and stored.dtype == read.dtype != object:
        return numpy.array_equal(stored, read, equal_nan=stored.dtype.kind in "fcmM")
    if isinstance(stored, (list, tuple, numpy.ndarray)):
        return isinstance(read, (list, numpy.ndarray)) and len(stored) == len(read) and all(map(_is_same, stored, read))
    if isinstance(read, (list, dict, numpy.ndarray)):
        return False  # of a set, say
    return bool(stored is read or stored == read or (stored != stored and read != read))


def _name_of(column: Any, type_read: str) -> str:
    """The type of pandas that a column without a type of its own can be stored by."""
    if not column.null_count:
        return type_read
    of_gaps = {"bool": "boolean"}
    return of_gaps.get(type_read, type_read.replace("uint", "UInt").replace("int", "Int"))


def _expect_nested(frame: Any, table: Any) -> None:
    """Raises TypeError where a column of lists or dicts would be read with other values."""
    arrow = _arrow("a DataFrame")
    for place, name in enumerate(frame.columns):
        if not arrow.types.is_nested(table.schema.types[place]) or str(frame.dtypes.iloc[place]) != "object":
            continue
        if not all(map(_is_same, frame.iloc[:, place], table.column(place).to_pandas())):
            raise TypeError(
                f"a heap keeps a DataFrame as Arrow has it, where values of column {name!r} are others (sets, gaps in "
                "lists, dicts that have not all the same keys): holdfast.pickled(frame) stores it"
            )


def _from_pandas(frame: Any) -> numpy.ndarray[Any, Any]:
    arrow = _arrow("a DataFrame")
    try:
        table = arrow.Table.from_pandas(frame)
    except (arrow.ArrowException, ValueError, TypeError) as failure:
        raise TypeError(f"a heap keeps a DataFrame as Arrow has it, which refuses this one: {failure}") from None
    read = _to_pandas(table.slice(0, 0) if table.num_rows else table)
    expected = [str(each) for each in frame.dtypes]
    found = [str(each) for each in read.dtypes]
    for place, (column, wanted, got) in enumerate(zip(frame.columns, expected, found)):
        if wanted != got:
            raise TypeError(
                f"a heap keeps a DataFrame as Arrow has it, where column {column!r} is {got}, and not {wanted}: store "
                f"frame.astype({{{column!r}: {_name_of(table.column(place), got)!r}}})"
            )
    if not read.columns.equals(frame.columns):
        raise TypeError("a heap keeps a DataFrame as Arrow has it, where the names of these columns are others")
    _expect_nested(frame, table)
    return _to_bytes(table)


def _from_series(series: Any) -> Any:
    return (series.name, _from_pandas(series.to_frame(_COLUMN)))


def _to_series(content: Any) -> Any:
    name, bytes_ = content
    return _to_pandas(_to_table(bytes_))[_COLUMN].rename(name)


def _polars() -> Any:
    return _package("polars", "the heap has a frame of polars")


def _pandas_reader(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(content: Any) -> Any:
        _package("pandas", "the heap has a frame of pandas")  # which pyarrow needs
        return read(content)

    return checked


def _from_polars(frame: Any) -> numpy.ndarray[Any, Any]:
    arrow = _arrow("a frame of polars")
    try:
        table = frame.to_arrow()
        read = _polars().from_arrow(table.slice(0, 0))
    except (arrow.ArrowException, ValueError, TypeError) as failure:
        raise TypeError(f"a heap keeps a frame as Arrow has it, which refuses this one: {failure}") from None
    if read.schema != frame.schema:
        raise TypeError(f"a heap keeps a frame as Arrow has it, which has not all types of {frame.schema}")
    return _to_bytes(table)


def _from_polars_series(series: Any) -> Any:
    return (series.name, _from_polars(_polars().DataFrame({_COLUMN: series})))


def _to_polars_series(content: Any) -> Any:
    name, bytes_ = content
    return _polars().from_arrow(_to_table(bytes_)).to_series(0).alias(name)


# By the name of the class, and of the value in the heap.
_WRITERS: dict[str, Callable[[Any], Any]] = {
    "pandas.DataFrame": _from_pandas,
    "pandas.Series": _from_series,
    "pyarrow.Table": _to_bytes,
    "pyarrow.RecordBatch": lambda batch: _to_bytes(_arrow("a batch").Table.from_batches([batch])),
    "pyarrow.ChunkedArray": _from_column,
    "pyarrow.Array": _from_column,
    "polars.DataFrame": _from_polars,
    "polars.Series": _from_polars_series,
}
READERS: dict[str, Callable[[Any], Any]] = {
    "pandas.DataFrame": _pandas_reader(lambda content: _to_pandas(_to_table(content))),
    "pandas.Series": _pandas_reader(_to_series),
    "pyarrow.Table": _to_table,
    "pyarrow.RecordBatch": _to_batch,
    "pyarrow.ChunkedArray": _column_of,
    "pyarrow.Array": _to_array,
    "polars.DataFrame": lambda content: _polars().from_arrow(_to_table(content)),
    "polars.Series": _to_polars_series,
}


def table_of(columns: Any) -> Any:
    """A dict of columns as a table, without a copy of arrays without gaps."""
    arrow = _arrow("a table")
    plain = {name: each.to_python() if hasattr(each, "_held") else each for name, each in columns.items()}
    return arrow.table({str(name): each for name, each in plain.items()})


def extend(value: Any, root: str) -> Any:
    """An ExtendedValue for a table or a column; None for other values of the package."""
    for kind in type(value).__mro__:
        name = f"{root}.{kind.__name__}"
        if kind.__module__.partition(".")[0] == root and name in _WRITERS:
            if kind is not type(value) and name != "pyarrow.Array":
                raise TypeError(f"a heap keeps a {name}, and would lose what a {type(value).__qualname__} has more")
            return _core.ExtendedValue(name, _WRITERS[name](value), False)
    return None

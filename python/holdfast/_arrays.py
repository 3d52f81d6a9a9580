"""Arrays that become longer or shorter along their first axis."""

from __future__ import annotations

import operator
from typing import Any

import numpy

from . import _core
from ._dtypes import type_from

_MOST_BYTES = 1 << 62


def _array_at(held: _core.Held, key: Any) -> tuple[tuple[int, ...], numpy.dtype[Any]]:
    found = held.describe_array(key)
    if found is None:
        raise TypeError(f"{key!r} is no array")
    text, shape, order = found
    if not shape:
        raise TypeError(f"{key!r} is an array without dimensions, which has no first axis")
    if order and len(shape) > 1:
        raise TypeError(
            f"{key!r} is in Fortran order, in which a longer first axis moves every element: "
            "store numpy.ascontiguousarray() of it"
        )
    return shape, type_from(text)


def _bytes_of_row(shape: tuple[int, ...], dtype: numpy.dtype[Any]) -> int:
    size = dtype.itemsize
    for length in shape[1:]:
        size *= length
    return size


def _rows_of(rows: Any, dtype: numpy.dtype[Any]) -> numpy.ndarray[Any, Any]:
    """Rows as the array has them. Lists follow the rule of arrays: 1.5 is no row of whole numbers; no text is cut."""
    ranks = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
    given = numpy.asarray(rows) if isinstance(rows, numpy.ndarray) else numpy.asarray(rows, dtype)
    if not isinstance(rows, numpy.ndarray) and dtype.kind in ranks and given.size:
        plain = numpy.asarray(rows)
        if ranks.get(plain.dtype.kind, 0) > ranks[dtype.kind]:
            raise TypeError(f"rows of type {plain.dtype} are not stored as {dtype}: numpy.asarray(rows, {dtype.str!r})")
    added = given.astype(dtype, casting="same_kind", copy=False)
    if dtype.kind in "SU" and (longer := numpy.asarray(rows)).dtype.kind == dtype.kind and (longer != added).any():
        raise ValueError(f"a text of these rows is longer than {dtype} has room for")
    return numpy.ascontiguousarray(added) if added.ndim else added


def append(held: _core.Held, key: Any, rows: Any) -> None:
    """Dict.append()."""
    shape, dtype = _array_at(held, key)
    given = _rows_of(rows, dtype)
    if given.ndim == len(shape) - 1:
        given = given[None]
    if given.ndim != len(shape) or given.shape[1:] != shape[1:]:
        raise ValueError(f"{key!r} has rows of shape {shape[1:]}, and these rows are an array of shape {given.shape}")
    held.resize_array(key, given, _bytes_of_row(shape, dtype), None)


def resize(held: _core.Held, key: Any, length: int) -> None:
    """Dict.resize()."""
    shape, dtype = _array_at(held, key)
    wanted = operator.index(length)
    size = _bytes_of_row(shape, dtype)
    if wanted < 0:
        raise ValueError("negative dimensions are not allowed")
    if wanted * size >= _MOST_BYTES:
        raise ValueError(f"an array of {wanted * size} bytes is too large for any heap")
    held.resize_array(key, numpy.empty((0, *shape[1:]), dtype), size, wanted)

"""Arrays that become longer or shorter along their first axis."""

from __future__ import annotations

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


def append(held: _core.Held, key: Any, rows: Any) -> None:
    """Dict.append()."""
    shape, dtype = _array_at(held, key)
    given = numpy.asarray(rows) if isinstance(rows, numpy.ndarray) else numpy.asarray(rows, dtype)
    if given.ndim == len(shape) - 1:
        given = given[None]
    if given.ndim != len(shape) or given.shape[1:] != shape[1:]:
        raise ValueError(f"{key!r} has rows of shape {shape[1:]}, and these rows are an array of shape {given.shape}")
    added = numpy.ascontiguousarray(given.astype(dtype, casting="same_kind", copy=False))
    held.resize_array(key, added, _bytes_of_row(shape, dtype), None)


def resize(held: _core.Held, key: Any, length: int) -> None:
    """Dict.resize()."""
    shape, dtype = _array_at(held, key)
    wanted: int = length.__index__()
    size = _bytes_of_row(shape, dtype)
    if wanted < 0:
        raise ValueError("negative dimensions are not allowed")
    if wanted * size >= _MOST_BYTES:
        raise ValueError(f"an array of {wanted * size} bytes is too large for any heap")
    held.resize_array(key, numpy.empty((0, *shape[1:]), dtype), size, wanted)

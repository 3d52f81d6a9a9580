"""What the extension module asks of Python: arrays of numpy, pickled objects, and values of other types."""

from __future__ import annotations

import ast
import pickle
from typing import Any

import numpy
from numpy.lib import format as npy_format

from . import _core
from ._containers import Dict, List


class pickled:
    """Stores an object as Python's module pickle writes it: `heap["x"] = holdfast.pickled(obj)`.

    It is read as a PickledValue, whose load() unpickles it.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class PickledValue:
    """A pickled value that was read: `load()` unpickles it, and so runs code that its bytes name."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def load(self) -> Any:
        """The object."""
        return pickle.loads(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PickledValue) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"<holdfast.PickledValue of {len(self.data)} bytes; load() unpickles it>"


def type_text(dtype: numpy.dtype[Any]) -> str:
    """The type as a heap keeps it. TypeError for types whose elements are objects of Python."""
    if dtype.hasobject:
        raise TypeError(f"an array of type {dtype} holds objects of Python, which a heap cannot keep")
    return repr(npy_format.dtype_to_descr(dtype))


def describe(value: Any) -> Any:
    """For a value that is none of Python's plain types."""
    if isinstance(value, (Dict, List)):
        return value._held
    if isinstance(value, numpy.ma.MaskedArray):
        raise TypeError("a heap cannot keep the mask of an array: store value.data and value.mask")
    if isinstance(value, numpy.ndarray):
        return describe_array(value)
    if isinstance(value, numpy.generic) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        return value.item()
    if isinstance(value, pickled):
        return _core.PickledBytes(pickle.dumps(value.value, protocol=5))
    if isinstance(value, PickledValue):
        return _core.PickledBytes(value.data)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise TypeError(
        f"a heap cannot keep a value of type {type(value).__module__}.{type(value).__qualname__}: it keeps None, bool, "
        "int, float, str, bytes, tuple, list, dict and arrays of numpy; holdfast.pickled(value) stores any object"
    )


def describe_array(value: numpy.ndarray[Any, Any]) -> _core.ArrayDescription:
    """Type, shape and C-contiguous bytes."""
    text = type_text(value.dtype)
    flat = numpy.ascontiguousarray(value).reshape(-1)
    buffer: Any = flat.view(numpy.uint8) if flat.dtype.itemsize and flat.size else b""
    return _core.ArrayDescription(text, list(value.shape), buffer)


def view(buffer: _core.ArrayBuffer, text: str, shape: tuple[int, ...]) -> numpy.ndarray[Any, Any]:
    """The array in the heap: no element is copied. It keeps the memory for as long as it or a view of it lives."""
    dtype = numpy.dtype(npy_format.descr_to_dtype(ast.literal_eval(text)))
    if dtype.hasobject:
        raise TypeError(f"the heap names an array of type {dtype}, which holds objects of Python")
    count = 1
    for length in shape:
        count *= length
    if count == 0 or dtype.itemsize == 0:
        return numpy.zeros(shape, dtype)
    exporter: Any = buffer
    memory: numpy.ndarray[Any, Any] = numpy.frombuffer(exporter, dtype=numpy.uint8)
    if memory.nbytes != count * dtype.itemsize:
        raise ValueError(f"the heap has {memory.nbytes} bytes for an array of {count * dtype.itemsize}")
    made: numpy.ndarray[Any, Any] = memory.view(dtype).reshape(shape)
    return made


def copy_of_array(value: Any) -> Any:
    """A copy of an array; any other value is itself."""
    return value.copy() if isinstance(value, numpy.ndarray) else value

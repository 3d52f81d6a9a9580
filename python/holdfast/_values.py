"""What the extension module asks of Python: arrays of numpy, pickled objects, and values of other types."""

from __future__ import annotations

import pickle
import weakref
from typing import Any

import numpy

from . import _core
from ._containers import Dict, List
from ._dtypes import type_from, type_text
from ._errors import make
from ._extended import extend


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


def describe(value: Any) -> Any:
    """For a value that is none of Python's plain types."""
    if isinstance(value, (Dict, List)):
        return value._held
    if isinstance(value, numpy.ndarray):
        return describe_array(value)
    if isinstance(value, numpy.generic):
        return _describe_scalar(value)
    if isinstance(value, pickled):
        return _core.PickledBytes(pickle.dumps(value.value, protocol=5))
    if isinstance(value, PickledValue):
        return _core.PickledBytes(value.data)
    if isinstance(value, memoryview) and (value.ndim != 1 or value.format not in ("B", "b", "c")):
        raise TypeError("a heap keeps a memoryview as bytes, and would lose its type: store numpy.asarray(value)")
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if (told := extend(value)) is not None:
        return told
    raise TypeError(
        f"a heap cannot keep a value of type {type(value).__module__}.{type(value).__qualname__}: it keeps the types "
        "that docs/python.md lists; holdfast.pickled(value) stores any object"
    )


def _describe_scalar(value: numpy.generic) -> Any:
    """A number of Python where that loses nothing; else an array without dimensions."""
    if value.dtype.kind in "biuf" and value.dtype.itemsize <= 8 and value.dtype.isbuiltin == 1:
        return value.item()
    if value.dtype.kind in "US":
        return value.item()
    return _core.ExtendedValue("numpy.generic", numpy.array(value), False)


_PLAIN = (numpy.ndarray, numpy.memmap, numpy.recarray)


def describe_array(value: numpy.ndarray[Any, Any]) -> _core.ArrayDescription:
    """Type, shape, order, and contiguous bytes."""
    if isinstance(value, numpy.ma.MaskedArray):
        raise TypeError("a heap cannot keep the mask of an array: store value.data and value.mask")
    if type(value) not in _PLAIN:
        raise TypeError(
            f"a heap keeps arrays of numpy, and of a {type(value).__module__}.{type(value).__qualname__} would lose "
            "what it has more: numpy.asarray(value) stores its elements alone"
        )
    text = type_text(value.dtype)
    is_fortran = value.flags.f_contiguous and not value.flags.c_contiguous
    flat = (value.T if is_fortran else numpy.ascontiguousarray(value)).reshape(-1).view(numpy.ndarray)
    buffer: Any = flat.view(numpy.uint8) if flat.dtype.itemsize and flat.size else b""
    return _core.ArrayDescription(text, list(value.shape), int(is_fortran), buffer)


def _refuse(field: str, found: str, expected: str) -> Exception:
    message = f"{field}: found {found}, expected {expected}"
    return make("corrupt", message, "", field, found, expected, "restore the heap from a snapshot", 0)


def view(buffer: _core.ArrayBuffer, text: str, shape: tuple[int, ...], order: int) -> numpy.ndarray[Any, Any]:
    """The array in the heap: no element is copied. It keeps the memory for as long as it or a view of it lives."""
    dtype = type_from(text)
    count = 1
    for length in shape:
        count *= length
    exporter: Any = buffer
    memory: numpy.ndarray[Any, Any] = numpy.frombuffer(exporter, dtype=numpy.uint8)
    if memory.nbytes != count * dtype.itemsize:
        raise _refuse("data of an array", f"{memory.nbytes} bytes", f"{count * dtype.itemsize}")
    try:
        if memory.nbytes == 0:
            return numpy.zeros(shape, dtype)
        made: numpy.ndarray[Any, Any] = memory.view(dtype).reshape(shape, order="F" if order else "C")
    except (ValueError, TypeError) as failure:
        raise _refuse("shape of an array", f"{shape}", f"one of numpy ({failure})") from None
    if buffer.turn:
        _note_turn(buffer.turn, made)
    return made


_arrays_of_turns: dict[int, list[weakref.ref[numpy.ndarray[Any, Any]]]] = {}


def _note_turn(number: int, array: numpy.ndarray[Any, Any]) -> None:
    arrays = _arrays_of_turns.setdefault(number, [])
    arrays.append(weakref.ref(array))
    if len(arrays) % 1024 == 0:  # of a long transaction, those that live
        arrays[:] = [each for each in arrays if each() is not None]


def freeze_arrays_of(number: int) -> None:
    """A transaction of a heap that processes share has ended: what is stored to its arrays now would be lost."""
    for each in _arrays_of_turns.pop(number, ()):
        if (array := each()) is not None:
            array.flags.writeable = False


def copy_of_array(value: Any) -> Any:
    """A copy of an array; any other value is itself."""
    return value.copy(order="K") if isinstance(value, numpy.ndarray) else value

"""The types of arrays as a heap names them: as numpy.lib.format.dtype_to_descr() does, and the types of ml_dtypes."""

from __future__ import annotations

import ast
import importlib
import sys
from functools import lru_cache
from typing import Any

import numpy

from ._errors import make

_PACKAGE = "ml_dtypes"
_OTHER_TYPES = f"'{_PACKAGE}."


@lru_cache(256)
def type_text(dtype: numpy.dtype[Any]) -> str:
    """The type as a heap keeps it. TypeError for a type whose arrays would be read as others."""
    if dtype.hasobject:
        if type(dtype).__name__ == "StringDType":
            raise TypeError(
                "an array of type StringDType keeps its texts outside of its elements, where a heap cannot keep them: "
                "store value.astype('U'), or a list"
            )
        raise TypeError(f"an array of type {dtype} holds objects of Python, which a heap cannot keep")
    literal = _literal_of(dtype)
    try:
        is_same = _type_of(literal) == dtype
    except (TypeError, ValueError):
        is_same = False
    if not is_same:
        raise TypeError(f"a heap has no name for the type {dtype!r} of an array: store value.view('u1')")
    return repr(literal)


def _literal_of(dtype: numpy.dtype[Any]) -> Any:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return (_literal_of(base), shape)
    if dtype.names is None or dtype.fields is None:
        if dtype.type.__module__.split(".")[0] == _PACKAGE:
            return f"{_PACKAGE}.{dtype.name}"
        return dtype.str
    parts: list[Any] = []
    end = 0
    for name in sorted(dtype.names, key=lambda name: dtype.fields[name][1]):  # type: ignore[index]
        kind, begin, *title = dtype.fields[name]
        if begin < end:
            raise TypeError(f"the fields of the type {dtype} overlap, which a heap cannot keep")
        if begin > end:
            parts.append(("", f"|V{begin - end}"))
        literal = _literal_of(kind)
        shaped = literal if kind.subdtype is not None else (literal,)
        parts.append(((title[0], name) if title else name, *shaped))
        end = begin + kind.itemsize
    if dtype.itemsize > end:
        parts.append(("", f"|V{dtype.itemsize - end}"))
    return parts


def _type_of(literal: Any) -> numpy.dtype[Any]:
    if isinstance(literal, str):
        return _other_type(literal) if literal.startswith(_PACKAGE + ".") else numpy.dtype(literal)
    if isinstance(literal, tuple):
        base, shape = literal
        return numpy.dtype((_type_of(base), shape))
    names: list[str] = []
    titles: list[Any] = []
    formats: list[Any] = []
    offsets: list[int] = []
    end = 0
    for field in literal:
        name, base, *shape = field
        kind = numpy.dtype((_type_of(base), shape[0])) if shape else _type_of(base)
        title, name = name if isinstance(name, tuple) else (None, name)
        if not (name == "" and kind.type is numpy.void and kind.names is None):
            names.append(name)
            titles.append(title)
            formats.append(kind)
            offsets.append(end)
        end += kind.itemsize
    described: Any = {"names": names, "formats": formats, "titles": titles, "offsets": offsets, "itemsize": end}
    made: numpy.dtype[Any] = numpy.dtype(described)
    return made


def _other_type(name: str) -> numpy.dtype[Any]:
    """A type of ml_dtypes. Nothing else is imported, whatever a heap says."""
    try:
        ml_dtypes = importlib.import_module(_PACKAGE)
    except ImportError:
        raise ModuleNotFoundError(
            f"the heap has an array of type {name}: `pip install {_PACKAGE}` to read it", name=_PACKAGE
        ) from None
    found = getattr(ml_dtypes, name.partition(".")[2], None)
    if not (isinstance(found, type) and issubclass(found, numpy.generic)):
        raise TypeError(f"{_PACKAGE} {ml_dtypes.__version__} has no type {name}")
    return numpy.dtype(found)


def type_from(text: str) -> numpy.dtype[Any]:
    """The type that a heap names. CorruptError where it is none."""
    if _OTHER_TYPES in text and _PACKAGE not in sys.modules:
        return _read(text)  # it may be installed later
    return _read_once(text)


def _read(text: str) -> numpy.dtype[Any]:
    try:
        found = _type_of(ast.literal_eval(text))
    except ModuleNotFoundError:
        raise
    except (ValueError, TypeError, SyntaxError, KeyError, OverflowError, RecursionError, MemoryError) as failure:
        reason = str(failure)
        found = None
    if found is None or found.hasobject:
        told = repr(text if len(text) < 200 else text[:200] + "...")
        expected = f"a type of numpy ({reason})" if found is None else "a type without objects of Python"
        message = f"type of an array: found {told}, expected {expected}"
        raise make("corrupt", message, "", "type of an array", told, expected, "restore the heap from a snapshot", 0)
    return found


_read_once = lru_cache(256)(_read)

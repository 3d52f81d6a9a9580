"""Values of types that have no kind of their own in a heap: the name of the type, and a value that says the rest.

Reading runs no code that a heap names: classes are looked up among those of modules that the program has imported, and
dataclasses are made without their __init__.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import sys
from typing import TYPE_CHECKING, Any, Callable

from . import _core
from ._errors import make

if TYPE_CHECKING:
    import decimal
    import fractions
    import uuid

_MICROSECOND = datetime.timedelta(microseconds=1)
_FIRST = datetime.datetime.min


class UnknownTypeError(TypeError):
    """The program has not what a value of the heap is made with: a class, or a package that is new enough."""


def _from_datetime(value: datetime.datetime) -> Any:
    """Microseconds; fold; then the name of a zone, or an offset in microseconds and its name."""
    count = (value.replace(tzinfo=None, fold=0) - _FIRST) // _MICROSECOND
    zone = value.tzinfo
    if zone is None:
        return count if value.fold == 0 else (count, value.fold)
    if type(zone) is datetime.timezone:
        name = zone.tzname(None)
        offset = zone.utcoffset(None)
        named = () if name == datetime.timezone(offset).tzname(None) else (name,)
        return (count, value.fold, offset // _MICROSECOND, *named)
    key = getattr(zone, "key", None)
    if type(zone).__module__.startswith("zoneinfo") and isinstance(key, str):
        return (count, value.fold, key)
    raise TypeError(
        f"a heap keeps a datetime with a timezone of datetime or a ZoneInfo with a key, and not with {zone!r}: store "
        "value.astimezone(datetime.timezone.utc)"
    )


def _to_datetime(content: Any) -> datetime.datetime:
    if isinstance(content, int):
        return _FIRST + content * _MICROSECOND
    count, fold, *rest = content
    zone: Any = None
    if rest and isinstance(rest[0], str):
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

        try:
            zone = ZoneInfo(rest[0])
        except ZoneInfoNotFoundError:
            raise UnknownTypeError(f"the heap has a datetime of the timezone {rest[0]}, which is not here") from None
    elif rest:
        zone = datetime.timezone(rest[0] * _MICROSECOND, *rest[1:])
    made: datetime.datetime = (_FIRST + count * _MICROSECOND).replace(tzinfo=zone, fold=fold)
    return made


def _from_time(value: datetime.time) -> Any:
    if value.tzinfo is not None:
        raise TypeError("a heap keeps a datetime.time without a timezone")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond, value.fold)


def _to_time(content: Any) -> datetime.time:
    count, fold = content
    made: datetime.time = (_FIRST + count * _MICROSECOND).time().replace(fold=fold)
    return made


def _to_complex(content: Any) -> complex:
    real, imaginary = content
    return complex(real, imaginary)


def _to_uuid(content: bytes) -> uuid.UUID:
    import uuid

    return uuid.UUID(bytes=content)


def _to_decimal(content: str) -> decimal.Decimal:
    import decimal

    return decimal.Decimal(content)


def _to_fraction(content: Any) -> fractions.Fraction:
    import fractions

    return fractions.Fraction(*content)


def _to_generic(content: Any) -> Any:
    return content.copy()[()]


def _class_of(value: Any) -> tuple[str, str]:
    """Module and name of a class by which it is found again."""
    kind = type(value)
    if _find_class(kind.__module__, kind.__qualname__) is not kind:
        raise TypeError(
            f"a heap keeps values of classes that their module has by name, and {kind.__module__} has no "
            f"{kind.__qualname__} that is this class: define it at the level of the module"
        )
    return kind.__module__, kind.__qualname__


def _find_class(module: str, name: str) -> Any:
    """The class, or None. Imports nothing."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) else None


def _known_class(module: str, name: str) -> type:
    found: Any = _find_class(module, name)
    if found is None:
        if module in sys.modules:
            raise UnknownTypeError(f"the heap has a {module}.{name}, a class that the module has no more")
        raise ModuleNotFoundError(
            f"the heap has a value of {module}.{name}: import {module} before it is read", name=module
        )
    return found  # type: ignore[no-any-return]


def _from_dataclass(value: Any) -> Any:
    names = [field.name for field in dataclasses.fields(value)]
    missing = [name for name in names if not hasattr(value, name)]
    if missing:
        raise TypeError(f"{type(value).__qualname__}.{missing[0]} has no value, which a heap could keep")
    return (*_class_of(value), {name: getattr(value, name) for name in names})


def _to_dataclass(content: Any) -> Any:
    module, name, values = content
    found = _known_class(module, name)
    if not dataclasses.is_dataclass(found):
        raise UnknownTypeError(f"the heap has a dataclass {module}.{name}, and the class is none any more")
    made = object.__new__(found)
    left = dict(values)
    for field in dataclasses.fields(found):
        if field.name in left:
            value = left.pop(field.name)
        elif field.default is not dataclasses.MISSING:
            value = field.default
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        else:
            raise UnknownTypeError(f"the heap has no {field.name!r} of a {module}.{name}, and the class no default")
        object.__setattr__(made, field.name, value)
    if left:
        names = ", ".join(map(repr, left))
        raise UnknownTypeError(f"the heap has a {module}.{name} with {names}, which the class has not")
    return made


def _from_enum(value: enum.Enum) -> Any:
    kind = _class_of(value)
    return (*kind, value.value) if isinstance(value, enum.Flag) else (*kind, value.name)


def _to_enum(content: Any) -> Any:
    module, name, member = content
    found: Any = _known_class(module, name)
    if not issubclass(found, enum.Enum):
        raise UnknownTypeError(f"the heap has a member of {module}.{name}, which is no Enum any more")
    if issubclass(found, enum.Flag):
        return found(member)
    if member not in found.__members__:
        raise UnknownTypeError(f"the heap has {module}.{name}.{member}, which the class has no more")
    return found.__members__[member]


# By the name of the type: what a value is made of, and whether equal values have equal contents.
_WRITERS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "datetime.date": (lambda value: value.toordinal(), True),
    "datetime.datetime": (_from_datetime, False),
    "datetime.time": (_from_time, False),
    "datetime.timedelta": (lambda value: value // _MICROSECOND, True),
    "builtins.complex": (lambda value: (value.real, value.imag), False),
    "builtins.set": (tuple, False),
    "builtins.frozenset": (tuple, False),
    "uuid.UUID": (lambda value: value.bytes, True),
    "decimal.Decimal": (str, False),
    "fractions.Fraction": (lambda value: (value.numerator, value.denominator), False),
}
_READERS: dict[str, Callable[[Any], Any]] = {
    "datetime.date": datetime.date.fromordinal,
    "datetime.datetime": _to_datetime,
    "datetime.time": _to_time,
    "datetime.timedelta": lambda content: content * _MICROSECOND,
    "builtins.complex": _to_complex,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "uuid.UUID": _to_uuid,
    "decimal.Decimal": _to_decimal,
    "fractions.Fraction": _to_fraction,
    "numpy.generic": _to_generic,
    "dataclass": _to_dataclass,
    "enum": _to_enum,
}


def extend(value: Any) -> Any:
    """An ExtendedValue, or None for a type that no heap keeps."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, enum.Enum):
        return _core.ExtendedValue("enum", _from_enum(value), False)
    if name in _WRITERS:
        write, can_be_key = _WRITERS[name]
        is_key = can_be_key or (kind is datetime.datetime and value.tzinfo is None)
        return _core.ExtendedValue(name, write(value), is_key)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _core.ExtendedValue("dataclass", _from_dataclass(value), False)
    root = kind.__module__.partition(".")[0]
    if root in ("pandas", "pyarrow", "polars"):
        from . import _frames

        return _frames.extend(value, root)
    return None


def restore(name: str, content: Any) -> Any:
    """The value that extend() was given."""
    read = _READERS.get(name)
    if read is None and name.partition(".")[0] in ("pandas", "pyarrow", "polars"):
        from . import _frames

        read = _frames.READERS.get(name)
    if read is None:
        raise UnknownTypeError(f"the heap has a value of type {name!r}, which this version does not read")
    try:
        return read(content)
    except (UnknownTypeError, ModuleNotFoundError):
        raise
    except (ValueError, TypeError, AttributeError, ArithmeticError, LookupError, ImportError) as failure:
        told = repr(content)
        told = told if len(told) < 200 else told[:200] + "..."
        message = f"a value of type {name}: found {told}, expected one that makes sense ({failure})"
        raise make(
            "corrupt", message, "", f"value of type {name}", told, "one that makes sense",
            "restore the heap from a snapshot", 0,
        ) from failure  # fmt: skip

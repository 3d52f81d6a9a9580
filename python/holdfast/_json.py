"""What json makes of values of a heap."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any


def jsonable(value: Any) -> Any:
    """What json.dumps() and json.dump() ask for with default=holdfast.jsonable.

    Dicts and lists of a heap, arrays, sets, dataclasses, members of an Enum (their values), dates (ISO 8601), UUIDs,
    decimals and fractions (texts).
    """
    from ._containers import Dict, List

    if isinstance(value, (Dict, List)):
        return value.to_python()
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (set, frozenset)):
        return list(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()
    if type(value).__name__ in ("UUID", "Decimal", "Fraction"):
        return str(value)
    raise TypeError(f"json has no text for a value of type {type(value).__name__}")

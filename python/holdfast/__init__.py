"""A persistent heap: dicts, lists and arrays in memory-mapped files that outlive the process and the crash.

    import holdfast
    with holdfast.open("words.hf") as heap:
        counts = heap.setdefault("counts", {})
        counts["hello"] = counts.get("hello", 0) + 1
        heap.commit()

docs/python.md has the whole picture.
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import _core  # before numpy, which starts threads: what the kernel is asked for at loading is quick before that
from ._containers import Dict, List, to_python
from ._errors import (
    AccessError,
    ClosedError,
    CorruptError,
    Error,
    ExistsError,
    LockedError,
    NoSpaceError,
    NotFoundError,
    ReadOnlyError,
    make,
)
from ._extended import restore
from ._heap import Heap, open
from ._transactions import Transaction, entered, is_of_running_task
from ._values import PickledValue, describe, pickled, view

if TYPE_CHECKING:
    from ._cache import Cache
    from ._json import jsonable
    from ._store import Store, StoreTransaction, StoreView
    from ._vectors import Match, VectorIndex

_core.configure(
    Dict._wrap, List._wrap, view, describe, PickledValue, restore, make, entered.get, is_of_running_task
)

__version__: str = _core.version
__all__ = [
    "AccessError",
    "Cache",
    "ClosedError",
    "CorruptError",
    "Dict",
    "Error",
    "ExistsError",
    "Heap",
    "List",
    "LockedError",
    "Match",
    "NoSpaceError",
    "NotFoundError",
    "PickledValue",
    "ReadOnlyError",
    "Store",
    "StoreTransaction",
    "StoreView",
    "Transaction",
    "VectorIndex",
    "jsonable",
    "open",
    "pickled",
    "to_python",
]

# Imported when it is asked for: with what it imports itself, it would take as long as all the rest.
_LATER = {
    "Cache": "_cache",
    "Match": "_vectors",
    "Store": "_store",
    "StoreTransaction": "_store",
    "StoreView": "_store",
    "VectorIndex": "_vectors",
    "jsonable": "_json",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

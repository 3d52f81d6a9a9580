"""Dict and List: containers that lie in a heap."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import ItemsView, Iterable, Iterator, KeysView, MutableMapping, MutableSequence, ValuesView
from typing import Any

from . import _core

_MISSING = object()
_END = 1 << 62  # beyond every list


def _one_step(held: _core.Held) -> Any:
    """For what takes several calls, while no other process may come between them."""
    session = held.shared_session
    if session is None or session.owns_transaction:
        return contextlib.nullcontext()
    from ._transactions import Transaction

    return Transaction(None, session, True)


class Keys(KeysView[Any]):
    """The keys of a Dict, in the order of their insertion."""

    _mapping: Dict

    def __iter__(self) -> Iterator[Any]:
        return self._mapping._held.keys(False)

    def __reversed__(self) -> Iterator[Any]:
        return self._mapping._held.keys(True)


class Values(ValuesView[Any]):
    """The values of a Dict, in the order in which their keys were inserted."""

    _mapping: Dict

    def __iter__(self) -> Iterator[Any]:
        return self._mapping._held.values(False)

    def __reversed__(self) -> Iterator[Any]:
        return self._mapping._held.values(True)


class Items(ItemsView[Any, Any]):
    """The pairs of a Dict, in the order in which their keys were inserted."""

    _mapping: Dict

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._mapping._held.items(False)

    def __reversed__(self) -> Iterator[tuple[Any, Any]]:
        return self._mapping._held.items(True)


class Dict(MutableMapping[Any, Any]):
    """A dict in a heap. It keeps the order of insertion.

    A value is copied into the heap when it is stored, with all that is in it. What is read of it is a number, a str, a
    bytes or a tuple of Python, or a Dict, a List or an array that is the one in the heap.

    Keys are None, bool, int, float, str, bytes, and tuples of these. A key that equals an int is that int when it is
    read: True is 1.
    """

    __slots__ = ("_held", "__weakref__")
    _held: _core.Held
    _seen_as = dict  # not that of classes of the program's

    @classmethod
    def _wrap(cls, held: _core.Held) -> Dict:
        made = cls.__new__(cls)
        made._held = held
        return made

    def __init__(self) -> None:
        raise TypeError("a Dict lies in a heap: store a dict there, and read it")

    def __getitem__(self, key: Any) -> Any:
        found = self._held.get(key, _MISSING)
        if found is _MISSING:
            raise KeyError(key)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        self._held.set(key, value)

    def __delitem__(self, key: Any) -> None:
        self._held.delete(key)

    def __contains__(self, key: object) -> bool:
        return self._held.contains(key)

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Any]:
        return self._held.keys(False)

    def __reversed__(self) -> Iterator[Any]:
        return self._held.keys(True)

    def get(self, key: Any, default: Any = None) -> Any:
        """The value under the key, or the default."""
        return self._held.get(key, default)

    def keys(self) -> Keys:
        """A view of the keys."""
        return Keys(self)

    def values(self) -> Values:
        """A view of the values."""
        return Values(self)

    def items(self) -> Items:
        """A view of the pairs."""
        return Items(self)

    def clear(self) -> None:
        """Removes all entries."""
        self._held.clear()

    def popitem(self) -> tuple[Any, Any]:
        """Removes the entry that was inserted last, and returns it as to_python() copies it."""
        return self._held.pop_last()

    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Removes an entry, and returns its value as to_python() copies it."""
        found = self._held.pop(key, default)
        if found is _MISSING:
            raise KeyError(key)
        return found

    def update(self, *others: Any, **named: Any) -> None:
        """As of a dict. In a heap that processes share it is one transaction."""
        with _one_step(self._held):
            super().update(*others, **named)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value under the key; stores the default there first, where there is none."""
        found = self._held.get(key, _MISSING)
        return self._held.set_default(key, default) if found is _MISSING else found

    @classmethod
    def fromkeys(cls, keys: Iterable[Any], value: Any = None) -> Any:
        """For subclasses whose constructor needs no argument."""
        made = cls()
        for key in keys:
            made[key] = value
        return made

    def append(self, key: Any, rows: Any) -> None:
        """Appends rows to the array under a key, along its first axis: an array of them, or one row.

        The rows are converted to the type of the array, where numpy calls that "same_kind". It takes time in proportion
        to the rows; now and then the array moves to a larger block. An array that was read before keeps its elements.
        Raises KeyError where nothing is there, TypeError where something else is.
        """
        from ._arrays import append

        append(self._held, key, rows)

    def resize(self, key: Any, length: int) -> None:
        """Gives the array under a key another first length: the rows beyond are removed, or zeros appended.

        As append() otherwise.
        """
        from ._arrays import resize

        resize(self._held, key, length)

    def to_python(self) -> dict[Any, Any]:
        """A deep copy, of dict, list and arrays of Python's memory."""
        return dict(self._held.to_plain())

    def copy(self) -> dict[Any, Any]:
        """to_python()."""
        return self.to_python()

    @property
    def __class__(self) -> Any:
        """isinstance(self, dict) is true, so that pandas and others that ask take the values for columns."""
        return vars(type(self)).get("_seen_as", type(self))

    @__class__.setter
    def __class__(self, other: Any) -> None:
        raise TypeError("the class of a Dict does not change")

    def __dir__(self) -> list[str]:
        """What completion in a shell or a notebook shows: not that of __class__."""
        return dir(type(self))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The dict as a table of Arrow: its values are arrays of one length, in the heap, or lists."""
        from ._frames import table_of

        return table_of(self).__arrow_c_stream__(requested_schema)

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        """The dict as a table, by the interchange protocol of data frames."""
        from ._frames import table_of

        return table_of(self).__dataframe__(nan_as_null, allow_copy)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dict):
            return self is other or self._held.is_same(other._held) or self.to_python() == other.to_python()
        if isinstance(other, dict):
            return bool(self.to_python() == other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __or__(self, other: Any) -> dict[Any, Any]:
        return self.to_python() | dict(other)

    def __ror__(self, other: Any) -> dict[Any, Any]:
        return dict(other) | self.to_python()

    def __ior__(self, other: Any) -> Dict:
        self.update(other)
        return self

    def __copy__(self) -> dict[Any, Any]:
        return self.to_python()

    def __deepcopy__(self, memo: Any) -> dict[Any, Any]:
        return self.to_python()

    def __reduce__(self) -> Any:
        raise TypeError("a Dict lies in a heap and is not pickled: pickle its to_python(), or the heap")

    def __repr__(self) -> str:
        from ._show import show  # few programs ask for it

        return show(self)

    def _repr_html_(self) -> str:
        from ._show import show_html

        return show_html(self)


class List(MutableSequence[Any]):
    """A list in a heap. Values are stored and read as those of a Dict are."""

    __slots__ = ("_held", "__weakref__")
    _held: _core.Held

    @classmethod
    def _wrap(cls, held: _core.Held) -> List:
        made = cls.__new__(cls)
        made._held = held
        return made

    def __init__(self) -> None:
        raise TypeError("a List lies in a heap: store a list there, and read it")

    def __len__(self) -> int:
        return len(self._held)

    def _index(self, index: Any) -> int:
        found = operator.index(index)
        found = found + len(self._held) if found < 0 else found
        if found < 0:
            raise IndexError("list index out of range")
        return found

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._held.list_get(i) for i in range(*index.indices(len(self)))]
        return self._held.list_get(self._index(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, slice):
            self._held.list_set(self._index(index), value)
            return
        values = list(value)
        with _one_step(self._held):
            begin, end, step = index.indices(len(self))
            if step == 1:
                self._held.list_splice(begin, max(begin, end), values)
                return
            places = range(begin, end, step)
            if len(places) != len(values):
                raise ValueError(f"cannot assign {len(values)} values to a slice of {len(places)}")
            for place, each in zip(places, values):
                self._held.list_set(place, each)

    def __delitem__(self, index: Any) -> None:
        with _one_step(self._held):
            if isinstance(index, slice):
                begin, end, step = index.indices(len(self))
                if step == 1:
                    self._held.list_splice(begin, max(begin, end), [])
                else:
                    for place in sorted(range(begin, end, step), reverse=True):
                        self._held.list_splice(place, place + 1, [])
                return
            place = self._index(index)
            if place >= len(self):
                raise IndexError("list index out of range")
            self._held.list_splice(place, place + 1, [])

    def insert(self, index: int, value: Any) -> None:
        """Inserts the value before the index."""
        with _one_step(self._held):
            size = len(self)
            place = min(max(index + size if index < 0 else index, 0), size)
            self._held.list_splice(place, place, [value])

    def append(self, value: Any) -> None:
        """Appends the value."""
        self._held.list_splice(_END, _END, [value])

    def extend(self, values: Iterable[Any]) -> None:
        """Appends all values, or none."""
        self._held.list_splice(_END, _END, list(values))

    def pop(self, index: int = -1) -> Any:
        """Removes an element, and returns it as to_python() copies it."""
        return self._held.list_pop(index)

    def clear(self) -> None:
        """Removes all elements."""
        self._held.clear()

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        """Sorts, stably."""
        with _one_step(self._held):
            self._held.list_splice(0, len(self), sorted(self.to_python(), key=key, reverse=reverse))

    def to_python(self) -> list[Any]:
        """A deep copy, of dict, list and arrays of Python's memory."""
        return list(self._held.to_plain())

    def copy(self) -> list[Any]:
        """to_python()."""
        return self.to_python()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, List):
            return self._held.is_same(other._held) or self.to_python() == other.to_python()
        if isinstance(other, list):
            return self.to_python() == other
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> list[Any]:
        return self.to_python() + _list_of(other)

    def __radd__(self, other: Any) -> list[Any]:
        return _list_of(other) + self.to_python()

    def __mul__(self, times: int) -> list[Any]:
        return self.to_python() * times

    __rmul__ = __mul__

    def __copy__(self) -> list[Any]:
        return self.to_python()

    def __deepcopy__(self, memo: Any) -> list[Any]:
        return self.to_python()

    def __reduce__(self) -> Any:
        raise TypeError("a List lies in a heap and is not pickled: pickle its to_python(), or the heap")

    def __repr__(self) -> str:
        from ._show import show  # few programs ask for it

        return show(self)

    def _repr_html_(self) -> str:
        from ._show import show_html

        return show_html(self)


def to_python(value: Any) -> Any:
    """A copy of a value that is not in the heap: of a Dict, a List or an array; other values are themselves."""
    from ._values import copy_of_array

    if isinstance(value, (Dict, List)):
        return value.to_python()
    return copy_of_array(value)


def _list_of(other: Any) -> list[Any]:
    if not isinstance(other, (List, list)):
        raise TypeError(f"can only concatenate a list, not {type(other).__name__}")
    return other.to_python() if isinstance(other, List) else other

"""Store: an ordered mapping of bytes in a file, for several processes."""

from __future__ import annotations

import os
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from typing import Any, Literal, Union, overload

from . import _core
from ._errors import Error, ExistsError, NotFoundError, ReadOnlyError
from ._hints import add_hint, what_is_at
from ._modes import PathLike, mode_of, path_of

Bytes = Union[bytes, bytearray, memoryview]
_MISSING: Any = object()


class _Keys(KeysView[bytes]):
    _mapping: _Entries

    def __iter__(self) -> Iterator[bytes]:
        return self._mapping._iterate("k")

    def __reversed__(self) -> Iterator[bytes]:
        return self._mapping._iterate("k", backwards=True)


class _Values(ValuesView[bytes]):
    _mapping: _Entries

    def __iter__(self) -> Iterator[bytes]:
        return self._mapping._iterate("v")

    def __reversed__(self) -> Iterator[bytes]:
        return self._mapping._iterate("v", backwards=True)


class _Items(ItemsView[bytes, bytes]):
    _mapping: _Entries

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self._mapping._iterate("i")

    def __reversed__(self) -> Iterator[tuple[bytes, bytes]]:
        return self._mapping._iterate("i", backwards=True)


class _Entries(Mapping[bytes, bytes]):
    """What a store, a view of it and a transaction have in common: reading, in the order of the keys."""

    __slots__ = ("__weakref__",)

    def _version(self) -> _core.StoreVersion:
        """The version that is read."""
        raise NotImplementedError

    @overload
    def _iterate(
        self, part: Literal["k", "v"], begin: Any = ..., end: Any = ..., backwards: bool = ...
    ) -> Iterator[bytes]: ...
    @overload
    def _iterate(
        self, part: Literal["i"], begin: Any = ..., end: Any = ..., backwards: bool = ...
    ) -> Iterator[tuple[bytes, bytes]]: ...
    def _iterate(self, part: str, begin: Any = None, end: Any = None, backwards: bool = False) -> Iterator[Any]:
        return self._version().entries(part, begin, end, backwards)

    def __getitem__(self, key: Bytes) -> bytes:
        found = self._version().get(key, _MISSING)
        if found is _MISSING:
            raise KeyError(key)
        return found  # type: ignore[no-any-return]

    def __contains__(self, key: object) -> bool:
        return self._version().contains(key)

    def __len__(self) -> int:
        return len(self._version())

    def __iter__(self) -> Iterator[bytes]:
        return self._iterate("k")

    def __reversed__(self) -> Iterator[bytes]:
        return self._iterate("k", backwards=True)

    def get(self, key: Bytes, default: Any = None) -> Any:
        """The value under the key, or the default."""
        return self._version().get(key, default)

    def keys(self) -> KeysView[bytes]:
        """A view of the keys, in order."""
        return _Keys(self)

    def values(self) -> ValuesView[bytes]:
        """A view of the values, in the order of their keys."""
        return _Values(self)

    def items(self) -> ItemsView[bytes, bytes]:
        """A view of the entries, in the order of their keys."""
        return _Items(self)

    def range(
        self, begin: Union[Bytes, None] = None, end: Union[Bytes, None] = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The entries whose keys are not below `begin` and below `end`, in order; None: no bound."""
        return self._iterate("i", begin, end, reverse)

    def prefix(self, prefix: Bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The entries whose keys begin with these bytes, in order."""
        begin = bytes(memoryview(prefix))
        head = begin.rstrip(b"\xff")  # behind its last byte that can grow, all keys are beyond the prefix
        end = head[:-1] + bytes([head[-1] + 1]) if head else None
        return self._iterate("i", begin, end, reverse)


class StoreView(_Entries):
    """One version of a store, which does not change. Ends with its block, or with close().

    Thread safety: any number of threads.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _core.StoreVersion) -> None:
        self._native = native

    def _version(self) -> _core.StoreVersion:
        return self._native

    def close(self) -> None:
        """Lets go of the version. While it is open, its pages are kept in the file. A second call does nothing."""
        self._native.end(False)

    def __enter__(self) -> StoreView:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()


class _Writable(_Entries, MutableMapping[bytes, bytes]):
    """Changes. Those of MutableMapping that are made of several calls are single steps here."""

    __slots__ = ()

    def __setitem__(self, key: Bytes, value: Bytes) -> None:
        raise NotImplementedError

    def __delitem__(self, key: Bytes) -> None:
        raise NotImplementedError


class StoreTransaction(_Writable):
    """Changes of a store that become visible, and durable, together: at the end of the block, or with commit().

    An exception takes all of them back. Other writers, of this process and others, wait until it has ended; readers go
    on. Thread safety: for the thread that has begun it. Reads see its own changes. An iteration goes on behind the key
    that it has returned last, whatever was changed meanwhile.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _core.StoreVersion) -> None:
        self._native = native

    def _version(self) -> _core.StoreVersion:
        return self._native

    def __setitem__(self, key: Bytes, value: Bytes) -> None:
        self._native.put(key, value)

    def __delitem__(self, key: Bytes) -> None:
        if not self._native.erase(key):
            raise KeyError(key)

    def pop(self, key: Bytes, default: Any = _MISSING) -> Any:
        """Removes the key, and returns its value; where it is not there, the default."""
        found = self._native.get(key, default)
        if found is _MISSING:
            raise KeyError(key)
        self._native.erase(key)
        return found

    def setdefault(self, key: Bytes, default: Bytes) -> bytes:
        """The value under the key, which is the default where the key was not there."""
        if not self._native.contains(key):
            self._native.put(key, default)
        return self[key]

    def popitem(self, last: bool = True) -> tuple[bytes, bytes]:
        """Removes the entry with the last key, or the first one, and returns it."""
        for key, value in self._iterate("i", backwards=last):
            self._native.erase(key)
            return key, value
        raise KeyError("the store is empty")

    def clear(self) -> None:
        """Removes all entries."""
        self._native.clear()

    def nested(self) -> StoreTransaction:
        """A transaction in this one: its changes become part of this one at its end. This one waits meanwhile."""
        return StoreTransaction(self._native.nested())

    def commit(self) -> None:
        """Ends the transaction: its changes are visible, and durable where the store is. The interpreter's lock is
        free meanwhile. Where it fails, nothing of the transaction is there."""
        self._native.end(True)

    def abort(self) -> None:
        """Ends the transaction, and takes its changes back. A second end does nothing."""
        self._native.end(False)

    def __enter__(self) -> StoreTransaction:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """commit(), where the block has not ended the transaction; after an exception, abort()."""
        self._native.end(kind is None)


class Store(_Writable):
    """A mapping of bytes to bytes in a file, in the order of the keys, for any number of threads and processes.

    Each call is a step of its own: a read sees the last commit, and a change is durable when the call returns. Several
    changes cost one commit in `with store.write() as change:`, and several reads see one version in
    `with store.read() as view:`. An iteration sees one version.

    A key has 1 to 511 bytes, or as many as `longest_key` says, a value less than 4 GiB. Both may be any object that has
    the interface of buffers.
    """

    __slots__ = ("_absolute", "_native", "_path", "_reopen")

    def __init__(
        self,
        path: PathLike,
        mode: str = "a",
        *,
        durable: bool = True,
        limit: int = 0,
        longest_key: int = 511,
    ) -> None:
        """Opens the store in the file `path`; a file with "-lock" at the end of its name lies beside it.

        mode: "a" ("c") opens it or creates it, "w" ("r+") opens it, "x" ("w-") creates it, "r" opens it for reading;
        all of them in any number of processes at once. durable=False: a commit survives the process, and a loss of
        power only after sync(). limit: bytes that the file may take; 0: the last limit that it was given, else as the
        file system has.
        longest_key: bytes that a key which is set may have, from 511 to 65,536; keys of more than 1,978 bytes make the
        store one that versions of Holdfast before them refuse. Raises holdfast.Error.
        """
        mode = mode_of(mode)
        self._path = path_of(path)
        self._absolute = os.path.abspath(self._path)  # the process may go to another directory
        if mode in ("w", "r") and not os.path.exists(self._path):
            raise _told(NotFoundError(2, f"{self._path}: there is no store"), "not_found", self._path)
        if mode == "x":
            try:
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o664))
            except FileExistsError:
                error = ExistsError(17, f"{self._path}: something is there")
                raise _told(error, "already_exists", self._path) from None
        try:
            self._native = _core.OpenStore(self._path, mode == "r", durable, limit, longest_key)
        except Error as failure:
            if failure.code in ("not_a_heap", "invalid_argument"):
                add_hint(failure, what_is_at(self._path))
            raise
        self._reopen = ("r" if mode == "r" else "w", durable, limit, longest_key)

    @property
    def path(self) -> str:
        """The path that the store was opened by."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._native.closed

    @property
    def read_only(self) -> bool:
        """Whether the store was opened with mode "r"."""
        return self._reopen[0] == "r"

    def _version(self) -> _core.StoreVersion:
        return self._native.begin(False)

    def read(self) -> StoreView:
        """The last commit, as it is now: `with store.read() as view:`."""
        return StoreView(self._native.begin(False))

    def write(self) -> StoreTransaction:
        """Begins a transaction, when that of another thread or process has ended: `with store.write() as change:`."""
        if self.read_only and not self.closed:
            raise _told(ReadOnlyError(30, f"{self._path}: the store is open for reading"), "read_only", self._path)
        return StoreTransaction(self._native.begin(True))

    def get(self, key: Bytes, default: Any = None) -> Any:
        """The value under the key, or the default."""
        return self._native.get(key, default)

    def __getitem__(self, key: Bytes) -> bytes:
        found = self._native.get(key, _MISSING)
        if found is _MISSING:
            raise KeyError(key)
        return found  # type: ignore[no-any-return]

    def __setitem__(self, key: Bytes, value: Bytes) -> None:
        with self.write() as change:
            change[key] = value

    def __delitem__(self, key: Bytes) -> None:
        with self.write() as change:
            del change[key]

    def pop(self, key: Bytes, default: Any = _MISSING) -> Any:
        """Removes the key, and returns its value; where it is not there, the default."""
        with self.write() as change:
            return change.pop(key, default)

    def popitem(self, last: bool = True) -> tuple[bytes, bytes]:
        """Removes the entry with the last key, or the first one, and returns it."""
        with self.write() as change:
            return change.popitem(last)

    def setdefault(self, key: Bytes, default: Bytes) -> bytes:
        """The value under the key, which is the default where the key was not there."""
        with self.write() as change:
            return change.setdefault(key, default)

    def update(  # type: ignore[override]
        self, *others: Union[Mapping[Any, Any], Iterable[tuple[Any, Any]]], **keywords: Any
    ) -> None:
        """Stores all entries in one transaction."""
        with self.write() as change:
            change.update(*others, **keywords)

    def clear(self) -> None:
        """Removes all entries."""
        with self.write() as change:
            change.clear()

    def sync(self) -> None:
        """Makes durable what was committed with durable=False."""
        self._native.sync()

    def copy(self, destination: PathLike) -> None:
        """Copies the last commit to a new file, compactly, while writers go on."""
        self._native.copy(path_of(destination))

    def check(self) -> int:
        """Reads every page, and returns how many there are. Raises CorruptError where one is damaged."""
        return self._native.check()

    def close(self) -> None:
        """Closes the store, once its views, transactions and iterators have ended. A second call does nothing."""
        self._native.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        """A store is pickled as its path, and opened where it is unpickled."""
        return (_open_again, (self._absolute, *self._reopen))

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self.read_only else "open"
        return f"<holdfast.Store {self._path!r}, {state}>"


def _told(error: Any, code: str, path: str) -> Any:
    error.code, error.path, error.field = code, path, "store"
    return error


class _NotOpened:
    """What a store has that could not be opened where it was unpickled, as a heap has (_heap.py)."""

    closed = True

    def __init__(self, failure: Error) -> None:
        self._failure = failure

    def close(self) -> None:
        """Nothing is open."""

    def __getattr__(self, name: str) -> Any:
        raise self._failure


def _open_again(path: str, mode: str, durable: bool, limit: int, longest_key: int = 511) -> Store:
    """What unpickles a store."""
    try:
        return Store(path, mode, durable=durable, limit=limit, longest_key=longest_key)
    except Error as failure:
        made = Store.__new__(Store)
        made._path = made._absolute = path
        made._reopen = (mode, durable, limit, longest_key)
        native: Any = _NotOpened(failure)
        made._native = native
        return made

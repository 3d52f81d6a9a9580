"""Cache: results that outlive the process, shared by processes, in a holdfast.Store."""

from __future__ import annotations

import functools
import inspect
import math
import os
import pickle
import struct
import threading
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Callable, NamedTuple, Union

from ._cache_keys import decode_key, encode, identity_of
from ._modes import PathLike, path_of
from ._store import Store, StoreTransaction
from ._transactions import enter, is_inside, leave

_MISSING: Any = object()
_HEADER = struct.Struct(">dHI")  # expiry (time.time()), bytes of the tag, bytes of the key; then these, then the value
_PLACE = struct.Struct(">QQ")  # place in the order of use, bytes
_TOTALS = struct.Struct(">QQQ")  # bytes, entries, next place
_LEASE = struct.Struct(">dI16s")  # until when, process, token
_EXPIRY = struct.Struct(">d")
_NUMBER = struct.Struct(">Q")
_TOTALS_KEY = b"m"
_MOST_HITS = 256  # uses that wait for the next change of this process to be noted
_OVERHEAD = 48  # of the two places of an entry

# Of the keys: "d" + identity: an entry; "s" + identity: its place; "q" + place: the identity; "x" + expiry + place: the
# identity; "l" + identity: who computes the value now.


def _value_of(stored: memoryview) -> Any:
    kind, content = bytes(stored[:1]), stored[1:]
    if kind == b"b":
        return bytes(content)
    if kind == b"s":
        return str(content, "utf-8")
    return pickle.loads(content)


def _bytes_of(value: Any) -> bytes:
    if type(value) is bytes:
        return b"b" + value
    if type(value) is str:
        return b"s" + value.encode()
    return b"p" + pickle.dumps(value, protocol=5)


class CacheInfo(NamedTuple):
    """What cache_info() of a function tells, as that of functools.lru_cache(): calls in this process."""

    hits: int
    misses: int
    maxsize: None  # Cache.size_limit bounds all functions
    currsize: int  # entries of all


class Cache(MutableMapping[Any, Any]):
    """A cache in a file, for any number of threads and processes. The interface is that of diskcache.Cache.

    Keys are None, numbers, str, bytes, tuples of these, and what pickle writes alike for equal keys. Values are what
    pickle can store: open no cache that others may have written, for unpickling runs code that they name.

    An entry is gone when it has expired; and, where all take more than `size_limit` bytes, when it was used ("lru") or
    stored ("fifo") longest ago. A process notes uses with its next change, or with the 256th of them.
    """

    def __init__(
        self,
        path: PathLike,
        size_limit: int = 1 << 30,
        *,
        eviction: str = "lru",
        durable: bool = False,
    ) -> None:
        """Opens the cache in the file `path`, or makes it. durable=False: a loss of power may lose the last changes,
        and leaves a whole cache. eviction: "lru", "fifo", or "none", which keeps all that has not expired.
        """
        if eviction not in ("lru", "fifo", "none"):
            raise ValueError(f"eviction is {eviction!r}, and not one of 'lru', 'fifo' and 'none'")
        self._path = os.path.abspath(path_of(path))
        self.size_limit = size_limit
        self._eviction = eviction
        self._durable = durable
        self._local = threading.local()
        self._lock = threading.Lock()
        self._used: dict[bytes, None] = {}
        self._counts = [0, 0]
        self._open()

    def _open(self) -> None:
        self._process = os.getpid()
        self._native = Store(self._path, durable=self._durable)

    @property
    def _store(self) -> Store:
        if self._process != os.getpid():  # a child of fork(): its parent's store is none of it
            self._used, self._counts, self._local, self._lock = {}, [0, 0], threading.local(), threading.Lock()
            self._open()
        elif self._native.closed:
            self._open()
        return self._native

    @property
    def directory(self) -> str:
        """The path of the cache."""
        return self._path

    # Changes.

    @contextmanager
    def transact(self) -> Iterator[None]:
        """All changes in the block, of this thread, are one; others wait. An exception takes them back."""
        if self._open_change() is not None:
            yield
            return
        with self._store.write() as change:  # an error where another task of this thread has a transaction
            number = enter()
            self._local.change = (number, change)
            try:
                self._note_uses(change)
                yield
            finally:
                self._local.change = None
                leave(number)

    def _open_change(self) -> Union[StoreTransaction, None]:
        """The transaction that this task has begun."""
        number, change = getattr(self._local, "change", None) or (0, None)
        return change if change is not None and is_inside(number) else None

    @contextmanager
    def _change(self) -> Iterator[StoreTransaction]:
        with self.transact():
            change = self._open_change()
            assert change is not None
            yield change

    def _read(self, key: bytes) -> Any:
        change = self._open_change()
        return (self._store if change is None else change).get(key)

    def _note_uses(self, change: StoreTransaction) -> None:
        with self._lock:
            used, self._used = self._used, {}
        for name in used:
            if (place := change.get(b"s" + name)) is not None:
                before, size = _PLACE.unpack(place)
                self._put_place(change, name, size, self._take_place(change, before))

    def _take_place(self, change: StoreTransaction, before: Union[int, None] = None) -> int:
        """A place behind all others, for an entry that is there already at `before`."""
        total, count, place = self._totals(change)
        change[_TOTALS_KEY] = _TOTALS.pack(total, count, place + 1)
        if before is not None:
            change.pop(b"q" + _NUMBER.pack(before), None)
        return place

    @staticmethod
    def _put_place(change: StoreTransaction, name: bytes, size: int, place: int) -> None:
        change[b"s" + name] = _PLACE.pack(place, size)
        change[b"q" + _NUMBER.pack(place)] = name

    @staticmethod
    def _totals(source: Any) -> tuple[int, int, int]:
        stored = source.get(_TOTALS_KEY)
        return _TOTALS.unpack(stored) if stored is not None else (0, 0, 0)

    def _add_to_totals(self, change: StoreTransaction, size: int, count: int) -> None:
        total, entries, place = self._totals(change)
        change[_TOTALS_KEY] = _TOTALS.pack(total + size, entries + count, place)

    def _remove(self, change: StoreTransaction, name: bytes) -> Union[bytes, None]:
        stored = change.pop(b"d" + name, None)
        if stored is None:
            return None
        place, size = _PLACE.unpack(change.pop(b"s" + name))
        change.pop(b"q" + _NUMBER.pack(place), None)
        expiry = _HEADER.unpack_from(stored)[0]
        if expiry != math.inf:
            change.pop(b"x" + _EXPIRY.pack(expiry) + name, None)
        self._add_to_totals(change, -size, -1)
        return bytes(stored)

    def _put(self, change: StoreTransaction, key: Any, stored: bytes, expire: Any, tag: Any) -> None:
        name, encoded = identity_of(key)
        self._remove(change, name)
        expiry = math.inf if expire is None else time.time() + expire
        marked = b"" if tag is None else encode(tag)
        entry = _HEADER.pack(expiry, len(marked), len(encoded)) + marked + encoded + stored
        size = len(entry) + 2 * len(name) + _OVERHEAD
        if self._eviction != "none" and size > self.size_limit:
            return  # it would have no room when all others were gone
        change[b"d" + name] = entry
        if expiry != math.inf:
            change[b"x" + _EXPIRY.pack(expiry) + name] = b"1"
        self._put_place(change, name, size, self._take_place(change))
        self._add_to_totals(change, size, 1)
        self._cull(change, most_expired=8)

    def _cull(self, change: StoreTransaction, most_expired: int) -> int:
        """Removes expired entries, some of them, and those that the limit has no room for."""
        removed = 0
        now = b"x" + _EXPIRY.pack(time.time())
        expired: list[bytes] = []
        for key, _ in change.range(b"x", now):
            if len(expired) == most_expired:
                break
            expired.append(key[1 + _EXPIRY.size :])
        for name in expired:
            removed += self._remove(change, name) is not None
        while self._eviction != "none" and self._totals(change)[0] > self.size_limit:
            oldest = next(change.prefix(b"q"), None)
            if oldest is None:
                break
            removed += self._remove(change, oldest[1]) is not None
        return removed

    # Entries.

    def _find(self, key: Any) -> Union[tuple[float, Any, memoryview], None]:
        """Expiry, tag and value of an entry that has not expired. Counts, and notes the use."""
        name, encoded = identity_of(key)
        stored = self._read(b"d" + name)
        found = None
        if stored is not None:
            expiry, tag_size, key_size = _HEADER.unpack_from(stored)
            begin = _HEADER.size + tag_size
            whole = memoryview(stored)
            if expiry > time.time() and whole[begin : begin + key_size] == encoded:
                tag = decode_key(bytes(whole[_HEADER.size : begin])) if tag_size else None
                found = (expiry, tag, whole[begin + key_size :])
        self._counts[found is None] += 1
        if found is not None and self._eviction == "lru":
            with self._lock:
                self._used[name] = None
                is_full = len(self._used) >= _MOST_HITS
            if is_full:
                with self._change():
                    pass
        return found

    def get(self, key: Any, default: Any = None, *, expire_time: bool = False, tag: bool = False) -> Any:
        """The value under the key, or the default; with `expire_time` and `tag` also these, in a tuple."""
        found = self._find(key)
        value = default if found is None else _value_of(found[2])
        if not expire_time and not tag:
            return value
        expiry = None if found is None or found[0] == math.inf else found[0]
        more = ([expiry] if expire_time else []) + ([found[1] if found else None] if tag else [])
        return (value, *more)

    def set(self, key: Any, value: Any, expire: Union[float, None] = None, *, tag: Any = None) -> bool:
        """Stores the value, for `expire` seconds where that is said."""
        stored = _bytes_of(value)
        with self._change() as change:
            self._put(change, key, stored, expire, tag)
        return True

    def add(self, key: Any, value: Any, expire: Union[float, None] = None, *, tag: Any = None) -> bool:
        """As set(), where nothing is there; whether it stored the value."""
        stored = _bytes_of(value)
        with self._change() as change:
            if self._find(key) is not None:
                return False
            self._put(change, key, stored, expire, tag)
        return True

    def incr(self, key: Any, delta: int = 1, default: Union[int, None] = 0) -> int:
        """Adds to a number, in one step among processes. KeyError where nothing is there and the default is None."""
        with self._change() as change:
            found = self._find(key)
            if found is None and default is None:
                raise KeyError(key)
            before: int = (default or 0) if found is None else _value_of(found[2])
            number = before + delta
            left = None if found is None or found[0] == math.inf else found[0] - time.time()
            self._put(change, key, _bytes_of(number), left, found[1] if found else None)
        return number

    def decr(self, key: Any, delta: int = 1, default: Union[int, None] = 0) -> int:
        """incr(key, -delta)."""
        return self.incr(key, -delta, default)

    def touch(self, key: Any, expire: Union[float, None] = None) -> bool:
        """Gives an entry another time to expire; whether it is there."""
        with self._change() as change:
            found = self._find(key)
            if found is not None:
                self._put(change, key, bytes(found[2]), expire, found[1])
        return found is not None

    def pop(self, key: Any, default: Any = None) -> Any:
        """Removes an entry, and returns its value, or the default."""
        with self._change() as change:
            found = self._find(key)
            self._remove(change, identity_of(key)[0])
        return default if found is None else _value_of(found[2])

    def delete(self, key: Any) -> bool:
        """Removes an entry; whether it was there."""
        with self._change() as change:
            return self._find(key) is not None and self._remove(change, identity_of(key)[0]) is not None

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key, _MISSING)
        if found is _MISSING:
            raise KeyError(key)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        self.set(key, value)

    def __delitem__(self, key: Any) -> None:
        if not self.delete(key):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None

    def __len__(self) -> int:
        """Entries that are there, expired ones that no change has removed yet among them."""
        return self._totals(self._store)[1]

    def __iter__(self) -> Iterator[Any]:
        """The keys, those first that will be removed first; of one moment."""
        with self._store.read() as view:
            now = time.time()
            for _, name in view.prefix(b"q"):
                stored = view[b"d" + name]
                expiry, tag_size, key_size = _HEADER.unpack_from(stored)
                if expiry > now:
                    begin = _HEADER.size + tag_size
                    yield decode_key(stored[begin : begin + key_size])

    # All of it.

    def expire(self) -> int:
        """Removes all that has expired; how many entries."""
        with self._change() as change:
            return self._cull(change, most_expired=1 << 62)

    cull = expire

    def evict(self, tag: Any) -> int:
        """Removes all entries with the tag; how many."""
        marked = encode(tag)
        removed = 0
        with self._change() as change:
            wanted = []
            for key, stored in change.prefix(b"d"):
                size = _HEADER.unpack_from(stored)[1]
                if stored[_HEADER.size : _HEADER.size + size] == marked:
                    wanted.append(key[1:])
            for name in wanted:
                removed += self._remove(change, name) is not None
        return removed

    def clear(self) -> int:  # type: ignore[override]
        """Removes all entries; how many."""
        with self._change() as change:
            count = self._totals(change)[1]
            change.clear()
        return count

    def volume(self) -> int:
        """The bytes that size_limit bounds. The file is larger, by what its pages leave free."""
        return self._totals(self._store)[0]

    def stats(self, reset: bool = False) -> tuple[int, int]:
        """Hits and misses of this process."""
        told = (self._counts[0], self._counts[1])
        if reset:
            self._counts = [0, 0]
        return told

    # Values that are computed.

    def _take_lease(self, name: bytes, seconds: float) -> Union[bytes, None]:
        with self._change() as change:
            stored = change.get(b"l" + name)
            if stored is not None:
                until, process, _ = _LEASE.unpack(stored)
                if time.time() < until and _is_alive(process):
                    return None
            token = os.urandom(16)
            change[b"l" + name] = _LEASE.pack(time.time() + seconds, os.getpid(), token)
        return token

    def _end_lease(self, name: bytes, token: bytes) -> None:
        with self._change() as change:
            stored = change.get(b"l" + name)
            if stored is not None and _LEASE.unpack(stored)[2] == token:
                del change[b"l" + name]

    def get_or_set(
        self, key: Any, make: Callable[[], Any], expire: Union[float, None] = None, *, tag: Any = None,
        lease: float = 60.0,
    ) -> Any:  # fmt: skip
        """The value under the key; where there is none, what make() returns, which one thread of all processes calls.

        The others wait for it: until it is there, its process has ended, or `lease` seconds have passed.
        """
        name, _ = identity_of(key)
        making = self._local.__dict__.setdefault("making", set())
        pause = 0.001
        while (found := self.get(key, _MISSING)) is _MISSING:
            if name in making:  # make() asks for what it makes
                return make()
            token = self._take_lease(name, lease)
            if token is None:
                time.sleep(pause)
                pause = min(2 * pause, 0.05)
                continue
            making.add(name)
            try:
                if (found := self.get(key, _MISSING)) is _MISSING:
                    found = make()
                    self.set(key, found, expire, tag=tag)
                return found
            finally:
                making.discard(name)
                self._end_lease(name, token)
        return found

    def memoize(
        self, name: Union[str, None] = None, typed: bool = False, expire: Union[float, None] = None, tag: Any = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorates a function, as functools.lru_cache() does: one process at a time computes the result of the same
        arguments. `typed`: 1 and 1.0 are others. The function gets cache_key(), cache_clear() and cache_info().

        TypeError of a function that is async or a generator: what its call returns cannot be kept.
        """
        if callable(name):
            raise TypeError("write @cache.memoize(), with parentheses")

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
            if any(is_kind(function) for is_kind in kinds):
                raise TypeError(
                    f"{function.__qualname__}() is async or a generator, whose results cannot be kept: cache a "
                    "function that returns the value, and `await asyncio.to_thread()` it"
                )
            counts = [0, 0]  # calls, and those that have computed
            prefix = name if name is not None else f"{function.__module__}.{function.__qualname__}"

            def cache_key(*arguments: Any, **keywords: Any) -> Any:
                named = tuple(sorted(keywords.items()))
                types = tuple(type(each).__qualname__ for each in (*arguments, *keywords.values())) if typed else ()
                return ("memoize", prefix, arguments, named, types)

            @functools.wraps(function)
            def call(*arguments: Any, **keywords: Any) -> Any:
                def compute() -> Any:
                    counts[1] += 1
                    return function(*arguments, **keywords)

                counts[0] += 1
                return self.get_or_set(cache_key(*arguments, **keywords), compute, expire, tag=tag)

            def cache_clear() -> None:
                for key in list(self):
                    if isinstance(key, tuple) and key[:2] == ("memoize", prefix):
                        self.delete(key)

            def cache_info() -> CacheInfo:
                return CacheInfo(counts[0] - counts[1], counts[1], None, len(self))

            call.__dict__.update(cache_key=cache_key, cache_clear=cache_clear, cache_info=cache_info)
            return call

        return decorate

    def close(self) -> None:
        """Notes the uses of this process, and closes the file. The next call opens it again."""
        if not self._native.closed and self._process == os.getpid():
            if self._used:
                with self._change():
                    pass
            self._native.close()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        """A cache is pickled as its path, and opened where it is unpickled."""
        return (_open_again, (self._path, self.size_limit, self._eviction, self._durable))

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<holdfast.Cache {self._path!r}, {self.size_limit:,} bytes, {self._eviction}>"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # another user's
    return True


def _open_again(path: str, size_limit: int, eviction: str, durable: bool) -> Cache:
    """What unpickles a cache."""
    return Cache(path, size_limit, eviction=eviction, durable=durable)

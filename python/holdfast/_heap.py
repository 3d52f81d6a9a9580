"""Heap: a heap that is open, and the dict that it is."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Union

import numpy

from . import _core
from ._containers import Dict
from ._values import type_text

PathLike = Union[str, "os.PathLike[str]"]


def _memory_of(array: numpy.ndarray[Any, Any]) -> tuple[int, int]:
    if not array.flags.c_contiguous:
        raise ValueError("only an array whose elements lie one behind the other can be pinned")
    return array.__array_interface__["data"][0], array.nbytes


class Heap(Dict):
    """A heap that is open: a dict with names as keys, by convention. Use open() to make one.

    Thread safety: any number of threads. Each operation holds the heap's lock; a transaction holds it until it ends.
    Arrays are plain memory: what several threads do with the elements of one is their affair, and none may write to
    one while another thread is in commit(), close() or snapshot().
    """

    __slots__ = ("_session", "_entries", "_reopen", "_pinned")
    _session: _core.Session

    def __init__(self, session: _core.Session) -> None:
        self._session = session
        self._entries: Union[_core.Held, None] = None
        self._pinned: list[numpy.ndarray[Any, Any]] = []  # an array that is deleted keeps its memory while it is here
        self._reopen: str = os.path.abspath(session.path)  # the process may go to another directory

    @property
    def _held(self) -> _core.Held:  # type: ignore[override]
        if self._entries is None or self._session.closed:
            self._entries = self._session.entries()
        return self._entries

    @property
    def path(self) -> str:
        """The path that the heap was opened by."""
        return self._session.path

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._session.closed

    @property
    def read_only(self) -> bool:
        """Whether the heap was opened with mode "r"."""
        return self._session.read_only

    @property
    def durability(self) -> str:
        """What the heap was opened in; "commit" for a heap that is open read-only."""
        return self._session.durability

    def array(self, name: Any, shape: Any, dtype: Any = float) -> numpy.ndarray[Any, Any]:
        """The array under a name; makes one of zeros, where nothing is there.

        Raises TypeError where an array of another type or shape, or something else, is there. Not in a transaction.
        """
        wanted = numpy.dtype(dtype)
        lengths = tuple(int(n) for n in shape) if hasattr(shape, "__iter__") else (int(shape),)
        if any(n < 0 for n in lengths):
            raise ValueError("negative dimensions are not allowed")
        if self._session.in_transaction:
            raise RuntimeError("array() makes its array at once, and not within a transaction")
        found = self.get(name)
        if found is None and name not in self:
            count = wanted.itemsize
            for length in lengths:
                count *= length
            if count >= 1 << 63:
                raise ValueError(f"an array of {count} bytes is too large for any heap")
            if numpy.broadcast_to(numpy.zeros((), wanted), lengths).dtype != wanted:  # ValueError: no such shape
                raise TypeError(f"no array has the type {wanted}")
            self._session.make_array(name, type_text(wanted), list(lengths), count)
            found = self[name]
        if not isinstance(found, numpy.ndarray) or found.dtype != wanted or found.shape != lengths:
            there = f"{found.dtype}{found.shape}" if isinstance(found, numpy.ndarray) else type(found).__name__
            raise TypeError(f"{name!r} is {there}, and not an array {wanted}{lengths}")
        return found

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[Heap]:
        """What the block changes is changed as a whole; an exception takes all of it back.

        It covers every change of dicts and lists of this heap, arrays that are stored or removed among them. It does
        not cover what is written to the elements of an array. Other threads wait with the heap until the block ends.
        Transactions do not nest.

        Durability "atomic": a crash leaves all of it, if the block has ended, or nothing. "commit": the heap is
        committed at the end, unless `durable` is false: then it is part of the next commit(). "collect": a crash may
        leave a part of it.
        """
        is_nested = self._session.owns_transaction  # then begin() refuses, and the outer transaction goes on
        has_begun = False
        try:
            self._session.begin()  # in the block: a KeyboardInterrupt of its wait is raised when it has begun
            has_begun = True
            yield self
        except BaseException:
            if has_begun or (self._session.owns_transaction and not is_nested):
                self._session.end(False, False)
            raise
        self._session.end(True, durable)

    def pin(self, array: numpy.ndarray[Any, Any]) -> None:
        """Keeps the memory of an array of the heap in place, for a device that stores to it by its physical pages.

        Call it before the array is registered with io_uring, RDMA or CUDA: in durability "commit" the next commit takes
        the pages away from the device otherwise, and what it stores is lost. Until unpin(), commits find what the
        device has stored. Error where the array does not lie in the heap.
        """
        begin, size = _memory_of(array)
        self._session.pin(begin, size)
        self._pinned.append(array)

    def unpin(self, array: numpy.ndarray[Any, Any]) -> None:
        """Ends pin(), after the device has let the memory go."""
        place = _memory_of(array)
        self._session.unpin(*place)
        held = next(i for i, each in enumerate(self._pinned) if _memory_of(each) == place)
        del self._pinned[held]

    def commit(self) -> None:
        """Makes the present state durable, elements of arrays included.

        Durability "commit": a crash leads back to this state. "atomic", "collect": syncs the files. The interpreter's
        lock is free meanwhile; no other thread may write to arrays of the heap.
        """
        self._session.commit()

    def snapshot(self, destination: PathLike) -> None:
        """Commits, and copies the heap to a new directory; durable when it returns."""
        self._session.snapshot(os.fspath(destination))

    def check(self, pages: bool = False) -> list[str]:
        """Every broken invariant of the heap, a line each. With `pages`, pages are compared with their checksums."""
        return self._session.check(pages)

    def statistics(self) -> dict[str, int]:
        """size: bytes of user space; allocated: bytes of it that are in use."""
        return self._session.statistics()

    def close(self, *, commit: bool = True) -> None:
        """Commits (unless told otherwise), and closes the heap. A second call does nothing.

        While arrays of the heap are in use, it stays mapped and locked until the last of them is gone; what is written
        to them after the close is lost.
        """
        self._session.close(commit)
        self._pinned.clear()

    def __enter__(self) -> Heap:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """close(); after an exception, without a commit."""
        self.close(commit=kind is None)

    def __reduce__(self) -> Any:
        """A heap is pickled as its path, and opened read-only where it is unpickled."""
        return (open_read_only, (self._reopen,))

    def __eq__(self, other: object) -> bool:
        return self is other if isinstance(other, Heap) else super().__eq__(other)

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-only" if self.read_only else self.durability
        return f"<holdfast.Heap {self.path!r}, {state}>"


_open_heaps: weakref.WeakSet[Heap] = weakref.WeakSet()


def open(  # noqa: A001 - as dbm.open() and shelve.open()
    path: PathLike,
    durability: str = "commit",
    mode: str = "a",
    *,
    accept_process_crash_only: bool = False,
    accept_machine_restart: bool = False,
    maximum_size: int = 0,
    reservation: int = 0,
    segment_size: int = 0,
    hardened: bool = False,
    verify: bool = False,
) -> Heap:
    """Opens the heap at the path, a directory.

    mode: "a" opens it or creates it, "w" opens it for writing, "x" creates it, "r" opens it read-only, in any number
    of processes at once.

    durability: "commit": a crash, of the process or the power, leads back to the last commit(). "atomic": every change
    of a dict or a list that has returned survives, and is whole. "collect": no call is logged; a crash may leave a part
    of the last change, which is noticed when it is read; it survives a loss of power on persistent memory alone.

    accept_process_crash_only: changes of "atomic" survive the process, and not a loss of power, for nanoseconds instead
    of a write to the disk. "collect" needs it on storage that is no persistent memory.

    The other options are those of holdfast::open_options; 0 means the default. Raises Error.
    """
    options = {
        "accept_process_crash_only": accept_process_crash_only,
        "accept_machine_restart": accept_machine_restart,
        "maximum_size": maximum_size,
        "reservation": reservation,
        "segment_size": segment_size,
        "hardened": hardened,
        "verify": verify,
    }
    heap = Heap(_core.open(os.fspath(path), mode, durability, options))
    _open_heaps.add(heap)
    return heap


def open_read_only(path: str) -> Heap:
    """What unpickles a heap."""
    return open(path, mode="r")


@atexit.register
def _close_all() -> None:
    first: Union[Exception, None] = None
    for heap in list(_open_heaps):
        try:
            heap.close()
        except Exception as failure:  # the other heaps are committed all the same
            first = first or failure
    if first is not None:
        raise first


os.register_at_fork(
    before=_core.before_fork, after_in_parent=_core.after_fork_in_parent, after_in_child=_core.after_fork_in_child
)

"""Heap: a heap that is open, and the dict that it is."""

from __future__ import annotations

import atexit
import os
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Callable, Union

import numpy

from . import _core
from ._containers import Dict
from ._dtypes import type_text
from ._errors import CorruptError, Error, LockedError, make
from ._hints import add_hint, what_is_at
from ._modes import PathLike, mode_of, path_of, refuse_positions
from ._transactions import Transaction

if TYPE_CHECKING:
    import asyncio


def _memory_of(array: numpy.ndarray[Any, Any]) -> tuple[int, int]:
    if not array.flags.c_contiguous:
        raise ValueError("only an array whose elements lie one behind the other can be pinned")
    return array.__array_interface__["data"][0], array.nbytes


_EXTENT = ("offset", "bytes", "kind", "block_size", "blocks", "live_blocks", "backed_bytes")
_KINDS = numpy.array(["", "free", "block", "slab", "roots", "reserved"])


class Heap(Dict):
    """A heap that is open: a dict with names as keys, by convention. Use open() to make one.

    Thread safety: any number of threads. Each operation holds the heap's lock; a transaction holds it until it ends.
    Arrays are plain memory: what several threads do with the elements of one is their affair, and none may write to
    one while another thread is in commit(), close() or snapshot().
    """

    __slots__ = ("_session", "_entries", "_reopen", "_pinned", "_queues", "_views", "_again")
    _session: _core.Session
    _seen_as = dict

    def __init__(self, session: _core.Session, again: Callable[[], _core.Session]) -> None:
        self._session = session
        self._again = again  # opens the heap as this one was
        self._entries: Union[_core.Held, None] = None
        self._pinned: list[numpy.ndarray[Any, Any]] = []  # an array that is deleted keeps its memory while it is here
        self._queues: weakref.WeakKeyDictionary[Any, asyncio.Lock] = weakref.WeakKeyDictionary()
        self._views: weakref.WeakSet[Any] = weakref.WeakSet()  # that keep memory of the heap until it closes
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
    def shared(self) -> bool:
        """Whether processes change the heap by turns: it was opened with shared=True."""
        return self._session.shared

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
        if self._session.owns_transaction:
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

    def transaction(self, *, durable: bool = True) -> Transaction:
        """What the block changes is changed as a whole; an exception takes all of it back.

        Within another transaction of its task it is a part of that one: an exception that is caught between the two
        takes back the inner one alone; durable is what the outermost has kept.

        It covers every change of dicts and lists of this heap, arrays that are stored or removed among them; and in
        durability "commit" what is written to the elements of arrays. Other threads wait with the heap until the block
        ends; what they write to elements of arrays meanwhile is a part of it.

        A transaction belongs to the task of asyncio, or the greenlet, that has begun it. Others of the same thread read
        what was there before, and their changes raise ClosedError: `async with heap.transaction():` waits for its turn.

        Durability "atomic": a crash leaves all of it, if the block has ended, or nothing. "commit": so, too, with all
        that was stored before it; unless `durable` is false: then it is durable with the next commit() or transaction,
        or when `ticket.wait()` of what this call returns has returned.
        "collect": a crash may leave a part of it.

        In a heap that processes share the block has the turn: it begins with what the others have left, and the next
        one goes on when it is durable, `durable` or not.
        """
        return Transaction(self, self._session, durable)

    def _queue_of(self, loop: Any) -> asyncio.Lock:
        """Where the tasks of a loop wait for the transactions of each other."""
        found = self._queues.get(loop)
        if found is None:
            import asyncio

            found = self._queues[loop] = asyncio.Lock()
        return found

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

    def commit_later(self) -> _core.Ticket:
        """As commit(), but returns when it has a copy of what is to be written: `wait()` of what it returns writes it.

        So threads stop for the copy alone, and may store to arrays while another one waits, as in
        `await asyncio.to_thread(heap.commit_later().wait)`. Whoever begins a transaction or commits before that writes
        it first. Durabilities "atomic" and "collect", and heaps that processes share, commit at once.
        """
        return self._session.commit_later()

    def rollback(self) -> None:
        """Goes back to the last commit: what was changed since is gone, elements of arrays included.

        It opens the heap anew, as it was opened. What was found in it before raises ClosedError: look it up again. No
        array of it may be in use (LockedError). Durability "commit" alone, and no heap that processes share: in the
        others each change is durable when it has returned, and with heap.transaction() takes changes back.
        """
        found = "read-only" if self.read_only else "shared" if self.shared else self.durability
        if found != "commit":
            raise _refused(self.path, "invalid_argument", "rollback", f"a heap that is {found}", "durability commit")
        for view in list(self._views):
            view._let_go()
        if held := self._session.statistics()["arrays_held"]:
            raise _refused(self.path, "locked", "rollback", f"{held} arrays of the heap in use", "none", _LET_GO)
        self._session.close(False)
        self._session, self._entries = self._again(), None

    @property
    def version(self) -> int:
        """The number of the commit that the heap shows."""
        return self._session.version()

    def refresh(self) -> int:
        """A heap of mode "r", or one that processes share, goes to the newest commit, as a whole; returns its version.

        A dict or a list that was found before goes on where the same one is at its place (the keys and indexes by which
        it was found), else it raises NotFoundError: look it up again. An array that is held shows what its memory has
        now: the elements of the newest commit, or something else where the array was removed. No other thread may look
        at arrays meanwhile.
        """
        return self._session.refresh()

    def wait_for_change(self, timeout: Union[float, None] = None) -> bool:
        """Waits until refresh() would find a newer commit: true, or false after `timeout` seconds.

        The interpreter's lock is free meanwhile. In asyncio: `await asyncio.to_thread(heap.wait_for_change, 1)`.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:  # in parts, so that signals are handled and close() need not wait long
            left = 0.1 if end is None else min(0.1, end - time.monotonic())
            if self._session.wait_for_change(max(0, int(left * 1000))):
                return True
            if end is not None and time.monotonic() >= end:
                return False

    def snapshot(self, destination: PathLike) -> None:
        """Commits, and copies the heap to a new directory; durable when it returns."""
        self._session.snapshot(path_of(destination))

    def check(self, pages: bool = False) -> list[str]:
        """Every broken invariant of the heap, a line each. With `pages`, pages are compared with their checksums."""
        return self._session.check(pages)

    def shrink(self, target: int = 0) -> dict[str, int]:
        """Gives unused space back to the file system, until it charges no more than `target` bytes. No block moves.

        In durability "commit" it commits. Returns charged_before, charged_after, given_back and shortened, in bytes.
        """
        return self._session.shrink(target)

    defrag = shrink  # as the command is called

    def statistics(self) -> dict[str, Any]:
        """Numbers about the heap, sizes in bytes, times in nanoseconds since 1970.

        size: user space; allocated: what of it is in use, in allocated_blocks; free_bytes, largest_free_block;
        charged_bytes and apparent_bytes: of the files; private_bytes: memory that waits for the next commit; commits,
        last_commit_ns, created_ns, recoveries; arrays_held: arrays in use. writer: the process that writes, in
        "commit", or 0; readers: a list of dicts with process, version (None while it opens the heap), since_ns and
        refreshed_ns, this one included. Of a writer in "atomic", atomic: records, fences, media_bytes, checkpoints,
        checkpoint_ns, waits.
        """
        return self._session.statistics()

    def map(self) -> numpy.ndarray[Any, Any]:
        """What the heap's space is used for: an array with a row for each run of pages, in the order of the offsets.

        offset and bytes: they follow one another without gaps. kind: "free", "block" (one of whole pages), "slab" (of
        small blocks), "roots" or "reserved". block_size, blocks and live_blocks: of a slab. backed_bytes: those that
        have space in the file system; on tmpfs at least so many. pandas.DataFrame(heap.map()) shows it as a table, and
        `holdfast map` draws it.
        """
        found = numpy.frombuffer(self._session.extents(), [(name, "u8") for name in _EXTENT])
        made = numpy.empty(len(found), [(name, "U8" if name == "kind" else "u8") for name in _EXTENT])
        for name in _EXTENT:
            made[name] = _KINDS[found[name]] if name == "kind" else found[name]
        return made

    def close(self, *, commit: bool = True) -> None:
        """Commits (unless told otherwise), and closes the heap. A second call does nothing.

        While arrays of the heap are in use, it stays mapped and locked until the last of them is gone; what is written
        to them after the close is lost. A ResourceWarning names them, and so does the error of the next open().
        """
        was_closed = self._session.closed
        for view in list(self._views):
            view._let_go()
        self._session.close(commit)
        self._pinned.clear()
        if not was_closed and (in_use := self._session.arrays_in_use):
            warnings.warn(f"{self.path}: closed, and locked until these arrays are gone: {_listed(in_use)}",
                          ResourceWarning, stacklevel=2)

    def __enter__(self) -> Heap:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """close(); after an exception, without a commit."""
        self.close(commit=kind is None)

    def __reduce__(self) -> Any:
        """A heap that is open for reading, or shared, is pickled as its path, and opened so where it is unpickled."""
        if not self.read_only and not self.shared and not self.closed:
            raise TypeError(
                f"{self.path}: open for writing, which one process has at a time, so that another one cannot open it: "
                "pickle a heap of mode='r' or of shared=True, or close this one and pass its path"
            )
        if in_use := self._session.arrays_in_use:
            raise TypeError(f"{self.path}: closed, and locked until these arrays are gone: {_listed(in_use)}")
        return (open_shared if self.shared else open_read_only, (self._reopen,))

    def __copy__(self) -> Any:
        return self.to_python()

    def __eq__(self, other: object) -> bool:
        return self is other if isinstance(other, Heap) else super().__eq__(other)

    __hash__ = object.__hash__  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        if not self.closed:
            return super()._repr_html_()
        import html

        return f"<code>{html.escape(repr(self))}</code>"

    def __repr__(self) -> str:
        if self.closed:
            state = "closed"
        else:
            state = "read-only" if self.read_only else "shared" if self.shared else self.durability
        return f"<holdfast.Heap {self.path!r}, {state}>"


_open_heaps: weakref.WeakSet[Heap] = weakref.WeakSet()


def open(  # noqa: A001 - as dbm.open() and shelve.open()
    path: PathLike,
    mode: str = "a",
    *refused: Any,
    durability: str = "commit",
    shared: bool = False,
    accept_process_crash_only: bool = False,
    accept_machine_restart: bool = False,
    maximum_size: int = 0,
    maximum_uncommitted: int = 0,
    reservation: int = 0,
    segment_size: int = 0,
    hardened: bool = False,
    verify: bool = False,
) -> Heap:
    """Opens the heap at the path, a directory.

    mode: "a" (or "c") opens it or creates it, "w" ("r+") opens it for writing, "x" ("w-") creates it, "r" opens it
    read-only, in any number of processes at once. No mode empties what is there.

    durability: "commit": a crash, of the process or the power, leads back to the last commit(). "atomic": every change
    of a dict or a list that has returned survives, and is whole. "collect": no call is logged; a crash may leave a part
    of the last change, which is noticed when it is read; it survives a loss of power on persistent memory alone.

    shared: several processes have the heap open for writing, all of them with shared=True, and change it by turns, in
    durability "commit": see docs/python-processes.md.

    accept_process_crash_only: changes of "atomic" survive the process, and not a loss of power, for nanoseconds instead
    of a write to the disk. "collect" needs it on storage that is no persistent memory.

    The other options are those of holdfast::open_options; 0 means the default. Raises Error.
    """
    options = {
        "accept_process_crash_only": accept_process_crash_only,
        "accept_machine_restart": accept_machine_restart,
        "maximum_size": maximum_size,
        "maximum_uncommitted": maximum_uncommitted,
        "reservation": reservation,
        "segment_size": segment_size,
        "hardened": hardened,
        "shared": shared,
        "verify": verify,
    }
    refuse_positions(refused)
    mode, place = mode_of(mode), path_of(path)
    again = os.path.abspath(place)  # the process may go to another directory
    heap = Heap(_session_of(place, mode, durability, options), lambda: _session_of(again, "w", durability, options))
    _open_heaps.add(heap)
    return heap


def _session_of(place: str, mode: str, durability: str, options: dict[str, Any]) -> _core.Session:
    try:
        return _core.open(place, mode, durability, options)
    except LockedError as failure:
        _name_holders(failure, place)
        raise
    except CorruptError as failure:
        if failure.code == "not_a_heap":
            add_hint(failure, what_is_at(place))
        raise


_LET_GO = "let them and all views of them go (del, or holdfast.to_python() for a copy)"


def _refused(path: str, code: str, field: str, found: str, expected: str, hint: str = "") -> Error:
    said = f"{path}: {field}: found {found}, expected {expected}" + (f"; {hint}" if hint else "")
    return make(code, said, path, field, found, expected, hint, 0)


def _listed(names: list[str]) -> str:
    most = 5
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _name_holders(failure: LockedError, path: str) -> None:
    """Adds to the error what of this process keeps the heap open."""
    try:
        found = os.stat(path)
    except OSError:
        return
    for session in _core.sessions():
        if session.identity != (found.st_dev, found.st_ino):
            continue
        if not session.closed:
            hint = "this process has the heap open: use that one, or close it"
        elif in_use := session.arrays_in_use:
            hint = (
                f"this process has closed the heap, and still uses these arrays of it: {_listed(in_use)}; it stays "
                "locked until they and all views of them are gone (del, or holdfast.to_python() for a copy)"
            )
        else:
            continue
        add_hint(failure, hint)


class _NotOpened:
    """The session of a heap that could not be opened where it was unpickled. What uses the heap gets the error.

    Raised while a worker of multiprocessing unpickles its arguments, it would end the worker, and the pool would wait
    for its answer for ever.
    """

    closed = read_only = True
    shared = False
    transaction = 0
    arrays_in_use: tuple[str, ...] = ()

    def __init__(self, path: str, failure: Error) -> None:
        self.path = path
        self._failure = failure

    def close(self, commit: bool) -> None:
        """Nothing is open."""

    def __getattr__(self, name: str) -> Any:
        raise self._failure


def _open_unpickled(path: str, mode: str, shared: bool) -> Heap:
    try:
        return open(path, mode, shared=shared)
    except Error as failure:
        session: Any = _NotOpened(path, failure)
        return Heap(session, lambda: session)


def open_read_only(path: str) -> Heap:
    """What unpickles a heap."""
    return _open_unpickled(path, "r", False)


def open_shared(path: str) -> Heap:
    """What unpickles a heap that processes share."""
    return _open_unpickled(path, "w", True)


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

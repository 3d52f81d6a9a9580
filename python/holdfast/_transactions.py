"""Transactions of a heap: whose they are, and how tasks of asyncio wait for them.

A transaction belongs to the thread, the context (contextvars) and the task of asyncio that has begun it. The heap's
lock keeps other threads out. The native module asks has_entered() and is_of_running_task() before each call of the
thread that has the lock, so that another task of that thread neither joins the transaction nor loses with it what it
has stored.
"""

from __future__ import annotations

import itertools
import sys
from contextlib import ContextDecorator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Callable, Union

from . import _core
from ._errors import Error
from ._values import freeze_arrays_of

if TYPE_CHECKING:
    import asyncio

    from ._heap import Heap

    Task = asyncio.Task[Any]

entered: ContextVar[tuple[int, ...]] = ContextVar("holdfast_transactions", default=())
_numbers = itertools.count(1)
_tasks: dict[int, Task] = {}  # of the transactions that tasks have begun


def _running_task() -> Union[Task, None]:
    """The task of asyncio that this thread runs. Imports nothing: without asyncio there is none."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or not hasattr(asyncio, "current_task") or asyncio._get_running_loop() is None:
        return None
    found: Union[Task, None] = asyncio.current_task()
    return found


def is_of_running_task(number: int) -> bool:
    """Whether this task has begun the transaction. Tasks that it has started have its context, and have not."""
    return _tasks.get(number) is _running_task()


def enter() -> int:
    """The number of a transaction that this context and this task begin."""
    number, task = next(_numbers), _running_task()
    entered.set((*entered.get(), number))
    if task is not None:
        _tasks[number] = task
    return number


def leave(number: int) -> None:
    """Ends what enter() has begun."""
    _tasks.pop(number, None)
    numbers = entered.get()
    if number in numbers:
        entered.set(tuple(each for each in numbers if each != number))


def is_inside(number: int) -> bool:
    """Whether this context and this task have begun it."""
    return number in entered.get() and (number not in _tasks or is_of_running_task(number))


class Transaction(ContextDecorator):
    """`with heap.transaction():` or, where a task of asyncio has to wait, `async with heap.transaction():`.

    ticket: behind the end of one that is not `durable` by itself, what says when it is; None before.
    """

    ticket: Union[_core.Ticket, None] = None

    def __init__(self, heap: Union[Heap, None], session: _core.Session, durable: bool) -> None:
        self._heap: Heap = heap  # type: ignore[assignment]  # without one nobody asks for it
        self._session = session
        self._durable = durable
        self._number = 0
        self._queue: Union[asyncio.Lock, None] = None

    def _recreate_cm(self) -> Transaction:
        return Transaction(self._heap, self._session, self._durable)

    def _begin(self, waits: bool) -> bool:
        """False where others have the lock, and the call does not wait."""
        if self._number:
            raise RuntimeError("this transaction was begun before: heap.transaction() makes another one")
        has_begun = False
        number = enter()
        try:
            # In the block: a KeyboardInterrupt of its wait is raised when it has begun.
            has_begun = self._session.begin(number, number in _tasks, waits)
            self._number = number if has_begun else 0
        except BaseException:
            if self._session.transaction == number:
                self._session.end(number, False, False)
            raise
        finally:
            if self._session.transaction != number:
                leave(number)
        return has_begun

    def _end(self, commit: bool) -> None:
        try:
            done = self._session.end(self._number, commit, self._durable)
            self.ticket = done if commit else None
        finally:
            if self._session.transaction != self._number:
                leave(self._number)
            if not self._session.transaction:
                freeze_arrays_of(self._number)

    def __enter__(self) -> Heap:
        self._begin(True)
        return self._heap

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._end(kind is None)

    async def __aenter__(self) -> Heap:
        """Waits for other tasks and threads, while the loop goes on."""
        import asyncio

        queue = self._heap._queue_of(asyncio.get_running_loop())
        if self._session.transaction in entered.get():
            self._begin(True)  # within its own; or raises: this task would wait for one that may await it
            return self._heap
        await queue.acquire()
        try:
            while not self._begin(False):
                await _wait(self._session)
        except BaseException:
            queue.release()
            raise
        self._queue = queue
        return self._heap

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        """As __exit__(): the commit of durability "commit" holds the loop up, so that no task stores to an array."""
        try:
            self._end(kind is None)
        finally:
            if self._queue is not None:  # not within another one
                self._queue.release()

    def __del__(self) -> None:
        """A generator or a coroutine that is dropped within its block: the transaction is taken back."""
        if self._number and self._session.transaction == self._number:
            try:
                self._end(False)
            except (ValueError, Error):
                pass  # another thread's: it stays open


async def _wait(session: _core.Session) -> None:
    """Until nobody has the heap's lock. In a thread of its own: those of the loop may all wait for the same."""
    import asyncio
    import threading

    loop = asyncio.get_running_loop()
    is_free = asyncio.Event()

    def run() -> None:
        session.wait()
        try:
            loop.call_soon_threadsafe(is_free.set)
        except RuntimeError:
            pass  # the loop was closed, and nobody waits

    threading.Thread(target=run, daemon=True, name="holdfast-wait").start()
    await is_free.wait()

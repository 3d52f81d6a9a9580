"""The exceptions of this package."""

from __future__ import annotations

import errno


class Error(Exception):
    """A failure of a heap. The attributes say what was wrong; each may be empty.

    code: the name of the code, as `holdfast.h` has it: "corrupt", "locked", "no_space", ...
    path, field: where; found, expected: what; hint: what to do; os_error: errno of the system call that failed, or 0.
    """

    code: str = ""
    path: str = ""
    field: str = ""
    found: str = ""
    expected: str = ""
    hint: str = ""
    os_error: int = 0

    def __reduce__(self) -> tuple[object, ...]:
        fields = (self.path, self.field, self.found, self.expected, self.hint, self.os_error)
        return (make, (self.code, str(self), *fields))

    def __str__(self) -> str:
        return str(self.args[-1]) if self.args else ""


class CorruptError(Error):
    """A heap is damaged, or what is at the path is none: codes corrupt, missing, not_a_heap, version_unsupported."""


class NotFoundError(Error, FileNotFoundError):
    """Nothing is at the path."""


class ExistsError(Error, FileExistsError):
    """Something is at the path, and the heap was to be created there."""


class LockedError(Error, BlockingIOError):
    """A writer has the heap open, or readers have, and it was to be opened for writing."""


class ReadOnlyError(Error, PermissionError):
    """A change was asked of a heap that is open read-only."""


class AccessError(Error, PermissionError):
    """The file system has refused access."""


class NoSpaceError(Error, MemoryError):
    """The disk, the quota, the heap's limit or the memory of the process has no room. The heap stays usable."""


class ClosedError(Error, ValueError):
    """The call has no meaning: the heap is closed, a transaction is open, an option is wrong."""


_CLASSES: dict[str, type[Error]] = {
    "corrupt": CorruptError,
    "missing": CorruptError,
    "not_a_heap": CorruptError,
    "version_unsupported": CorruptError,
    "not_found": NotFoundError,
    "already_exists": ExistsError,
    "locked": LockedError,
    "read_only": ReadOnlyError,
    "permission": AccessError,
    "no_space": NoSpaceError,
    "out_of_memory": NoSpaceError,
    "invalid_argument": ClosedError,
}
_ERRNO: dict[str, int] = {
    "not_found": errno.ENOENT,
    "already_exists": errno.EEXIST,
    "locked": errno.EAGAIN,
    "read_only": errno.EROFS,
    "permission": errno.EACCES,
}


def make(
    code: str, message: str, path: str, field: str, found: str, expected: str, hint: str, os_error: int
) -> Error:
    """The exception for an error of the library."""
    kind = _CLASSES.get(code, Error)
    made = kind(_ERRNO[code], message) if issubclass(kind, OSError) else kind(message)
    made.code, made.path, made.field = code, path, field
    made.found, made.expected, made.hint, made.os_error = found, expected, hint, os_error
    return made

"""What is at a path that is not what a call expected, and what opens it."""

from __future__ import annotations

import os

from ._errors import Error


def what_is_at(path: str) -> str:
    """A sentence; empty where nothing is known."""
    if os.path.isdir(path):
        if os.path.exists(os.path.join(path, "superblock")):
            return f"it is a heap: holdfast.open({path!r})"
        if _is_of_lmdb(os.path.join(path, "data.mdb")):
            return f"it is a directory of LMDB: `holdfast import {path} STORE` makes a store of it"
        return ""
    if _begins_with(path, b"HFSTORE\n"):
        return f"it is a store: holdfast.Store({path!r})"
    if _is_of_lmdb(path):
        return f"it is a file of LMDB: `holdfast import --no-subdir {path} STORE` makes a store of it"
    return ""


def _is_of_lmdb(path: str) -> bool:
    return _begins_with(path, b"\xde\xc0\xef\xbe", 16)


def _begins_with(path: str, mark: bytes, at: int = 0) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(at + len(mark))[at:] == mark
    except OSError:
        return False


def add_hint(failure: Error, hint: str) -> None:
    """Puts the sentence behind what the error says, unless it says that already."""
    if hint and hint not in str(failure):
        failure.hint = hint
        failure.args = (*failure.args[:-1], f"{failure.args[-1]}; {hint}")

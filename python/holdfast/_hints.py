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
    if _is_of_lmdb(path):
        return f"it is a file of LMDB: `holdfast import --no-subdir {path} STORE` makes a store of it"
    return ""


def _is_of_lmdb(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(20)[16:] == b"\xde\xc0\xef\xbe"
    except OSError:
        return False


def add_hint(failure: Error, hint: str) -> None:
    """Puts the sentence behind what the error says, unless it says that already."""
    if hint and hint not in str(failure):
        failure.hint = hint
        failure.args = (*failure.args[:-1], f"{failure.args[-1]}; {hint}")

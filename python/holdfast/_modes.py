"""Paths, and the modes in which heaps and stores are opened, by the names that dbm, shelve and h5py have for them."""

from __future__ import annotations

import os
from typing import Any, Union

PathLike = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

# What is there is never emptied: "w" is dbm's, which opens it, and not h5py's, which would lose it.
_MODES = {"r": "r", "w": "w", "r+": "w", "a": "a", "c": "a", "x": "x", "w-": "x"}
_DURABILITIES = ("commit", "atomic", "collect")


def path_of(given: PathLike) -> str:
    """A path as text. ValueError for one that system calls would take for a shorter one."""
    found = os.fsdecode(given)
    if "\0" in found:
        raise ValueError("embedded null byte")
    return found


def mode_of(given: Any) -> str:
    """One of "r", "w", "a" and "x". ValueError that says what to write instead."""
    found = _MODES.get(given) if isinstance(given, str) else None
    if found is not None:
        return found
    if given in _DURABILITIES:
        raise ValueError(f"{given!r} is a durability, and no mode: write holdfast.open(path, durability={given!r})")
    if given == "n":
        raise ValueError("mode 'n' would empty what is there: remove it, and open with mode='x'")
    raise ValueError(f"mode is {given!r}, and not one of 'r', 'w', 'a' and 'x'")


def refuse_positions(given: tuple[Any, ...]) -> None:
    """TypeError for arguments behind the mode."""
    if given:
        raise TypeError(
            "behind the mode, holdfast.open() takes keywords alone: holdfast.open(path, mode='r', durability='commit')"
        )

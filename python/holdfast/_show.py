"""How dicts and lists of a heap are shown: a bounded part of them, however large they are."""

from __future__ import annotations

import html
from typing import Any

_MOST_PARTS = 20
_MOST_LEVELS = 4
_MOST_TEXT = 200
_MOST_IN_ALL = 4000
_MOST_ROWS = (20, 8, 3)  # of a tree, at each level


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 3] + "..."


def _brackets(value: Any) -> tuple[str, str]:
    name = type(value).__name__
    if isinstance(value, tuple):
        return "(", ",)" if len(value) == 1 else ")"
    return (f"{name}({{", "})") if hasattr(value, "keys") else (f"{name}([", "])")


def _is_container(value: Any) -> bool:
    return hasattr(value, "_held") or type(value) is tuple


def _parts(value: Any) -> Any:
    """Pairs of a key or None, and a value."""
    return value.items() if hasattr(value, "keys") else ((None, each) for each in value)


def show(value: Any) -> str:
    """The repr() of a value."""
    return _show(value, 0, [_MOST_IN_ALL])


def _show(value: Any, level: int, room: list[int]) -> str:
    """`room`: characters that may still be shown, over all levels."""
    if not _is_container(value):
        if isinstance(value, (str, bytes)) and len(value) > _MOST_TEXT:
            return repr(value[: _MOST_TEXT // 2]) + f"... of {len(value)}"
        return _cut(repr(value)) if not hasattr(value, "dtype") else repr(value)[:_MOST_IN_ALL]
    begin, end = _brackets(value)
    if level == _MOST_LEVELS and len(value):
        return f"{begin}...{end}"
    shown: list[str] = []
    for key, part in _parts(value):
        if len(shown) == _MOST_PARTS or room[0] <= 0:
            shown.append("...")
            break
        before = room[0]
        text = ("" if key is None and not hasattr(value, "keys") else f"{_cut(repr(key))}: ") + _show(
            part, level + 1, room
        )
        room[0] = min(room[0], before - len(text))
        shown.append(text)
    return begin + ", ".join(shown) + end


def _size_of(value: Any) -> str:
    """What stands beside a value in the tree."""
    if hasattr(value, "_held"):
        return f"{type(value).__name__} of {len(value):,}"
    if hasattr(value, "dtype") and hasattr(value, "nbytes"):
        return f"{value.dtype}{list(getattr(value, 'shape', []))}, {value.nbytes:,} bytes"
    if isinstance(value, (str, bytes)):
        return f"{type(value).__name__} of {len(value):,}"
    return type(value).__name__


def show_html(value: Any) -> str:
    """A tree for notebooks, with types and sizes; what is deeper or further behind is counted."""
    name = "heap" if hasattr(value, "_session") else type(value).__name__
    return f"<div>{_tree(value, name, 0)}</div>"


def _tree(value: Any, name: str, level: int) -> str:
    head = f"<b>{html.escape(name)}</b> <span style='opacity:.6'>{html.escape(_size_of(value))}</span>"
    if not hasattr(value, "_held"):
        text = repr(value.shape) if hasattr(value, "dtype") else _show(value, _MOST_LEVELS, [_MOST_TEXT])
        return f"{head} <code>{html.escape(_cut(text))}</code>"
    if level == len(_MOST_ROWS) or not len(value):
        return head
    rows: list[str] = []
    for index, (key, part) in enumerate(_parts(value)):
        if index == _MOST_ROWS[level]:
            rows.append(f"<li>and {len(value) - index:,} more</li>")
            break
        label = _cut(repr(key if hasattr(value, "keys") else index))
        rows.append(f"<li>{_tree(part, label, level + 1)}</li>")
    opened = " open" if level < 1 else ""
    return f"<details{opened}><summary>{head}</summary><ul>{''.join(rows)}</ul></details>"

"""The reference of the Python package, as a page: signatures and docstrings of what holdfast.__all__ names.

The sources are read and not imported, so that the site is built without the extension module.
"""

import ast
import re
import textwrap
from pathlib import Path

SPECIAL = {"__getitem__", "__setitem__", "__delitem__", "__call__", "__array__", "__arrow_c_stream__"}
INTRODUCTION = """# Reference: Python

Classes and functions of the package `holdfast`, in the order of the alphabet. The guides are [Python](python.md),
[several processes](python-processes.md), [asyncio](python-asyncio.md), [tables](python-frames.md),
[devices](python-devices.md), [a cache](python-cache.md) and [vectors](python-vectors.md).
"""


def exported(package):
    """Each public name, and the definition that it has."""
    root = ast.parse((package / "__init__.py").read_text())
    places, names = {}, []
    for node in ast.walk(root):
        if isinstance(node, ast.ImportFrom) and node.level and node.module:
            places.update({each.name: node.module for each in node.names})
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            names = ast.literal_eval(node.value)
    modules = {module: ast.parse((package / f"{module}.py").read_text()) for module in set(places.values())}
    for name in names:
        found = [each for each in modules[places[name]].body if getattr(each, "name", None) == name]
        yield name, found[0]


def plain(docstring):
    """Paragraphs, without what Markdown would take for its own outside of code."""
    lines = []
    for line in docstring.split("\n"):
        if not line.startswith("    "):
            parts = re.split(r"(`[^`]*`)", line)
            line = "".join(part if part.startswith("`") else re.sub(r"([<>*_\[\]#])", r"\\\1", part) for part in parts)
        lines.append(line)
    return "\n".join(lines)


def signature(node):
    """As one writes the call."""
    shown = ast.unparse(node.args)
    shown = re.sub(r"^self(, )?|^cls(, )?", "", shown)
    gives = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"({shown}){gives}"


def decorated(node, name):
    """Whether the function has the decorator."""
    return any(getattr(each, "id", getattr(each, "attr", "")) == name for each in node.decorator_list)


def function(title, node):
    """The lines of one function, method or property; none for what says nothing of itself."""
    text = ast.get_docstring(node)
    if not text:
        return []
    of_value = decorated(node, "property")
    shown = f"{title}{signature(node)}"
    if of_value:
        shown = f"{title}: {ast.unparse(node.returns)}" if node.returns is not None else title
    code = "\n".join(textwrap.wrap(shown, 100, subsequent_indent="        ", break_long_words=False))
    return [f"### {plain(title)}{'' if of_value else '()'}", "", "```python", code, "```", "", plain(text), ""]


def class_of(name, node):
    """The lines of a class."""
    bases = [ast.unparse(each) for each in node.bases]
    known = [each for each in bases if each.split("[")[0] not in ("NamedTuple", "object")]
    lines = [f"## {name}", ""]
    if known:
        lines += ["Also a " + " and a ".join(f"`{each}`" for each in known) + ".", ""]
    if text := ast.get_docstring(node):
        lines += [plain(text), ""]
    for each in node.body:
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) or decorated(each, "overload"):
            continue
        if each.name == "__init__":
            lines += function(name, each)
        elif not each.name.startswith("_") or each.name in SPECIAL:
            lines += function(f"{name}.{each.name}", each)
    return lines


def page(package: Path) -> str:
    """The page, in Markdown."""
    lines = [INTRODUCTION]
    for name, node in exported(package):
        lines += class_of(name, node) if isinstance(node, ast.ClassDef) else ["## " + name, "", *function(name, node)]
    return "\n".join(lines)

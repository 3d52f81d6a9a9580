"""What the lint reads: the files of a tree, their comments and literals, and the scopes of C++."""

import bisect
import functools
import os
import re
import subprocess
from pathlib import Path
from typing import Iterator, NamedTuple

CPP = (".cpp", ".hpp", ".h", ".c")
CODE = CPP + (".py", ".sh", ".cmake")
TEXT = CODE + (".md", ".txt", ".json", ".in", ".yml", ".patch")
TEXT_NAMES = {"Makefile", ".clang-format", ".clang-tidy", ".gitignore", ".editorconfig", "run"}


class Finding(NamedTuple):
    path: str
    line: int
    rule: str
    message: str


class Scope(NamedTuple):
    """A class, struct, union, enum or namespace with a body: `begin` and `end` are the positions of its braces."""

    kind: str
    name: str
    head: int
    begin: int
    end: int
    bases: str


class Source:
    """One file: its text, its lines, and for C++ the text with comments and literals blanked out (same positions)."""

    def __init__(self, root: Path, path: str) -> None:
        self.path = path
        self.text = (root / path).read_bytes().decode("utf-8", errors="replace")
        self.lines = self.text.split("\n")
        self.is_cpp = path.endswith(CPP)
        self.is_markdown = path.endswith(".md")
        self.is_test = path.endswith("_test.cpp") or path.startswith("tests/")
        self.comments: list[tuple[int, str]] = []  # of C++: position and text
        self.literals: list[str] = []  # of C++
        self.code = self.blank_comments_and_literals() if self.is_cpp else self.text
        self.starts = [0] + [match.end() for match in re.finditer("\n", self.text)]

    def blank_comments_and_literals(self) -> str:
        def blanked(match: re.Match[str]) -> str:
            text = match.group()
            if text[0] == "/":
                self.comments.append((match.start(), text))
            else:
                self.literals.append(text)
            return blank(text)

        return LITERAL_OR_COMMENT.sub(blanked, self.text)

    def line_of(self, position: int) -> int:
        return bisect.bisect_right(self.starts, position)

    def finding(self, position: int, rule: str, message: str) -> Finding:
        return Finding(self.path, self.line_of(position), rule, message)

    @functools.cached_property
    def scopes(self) -> list[Scope]:
        """Of C++, by position; without those whose braces do not match."""
        closing: dict[int, int] = {}
        unclosed: list[int] = []
        for match in re.finditer(r"[{}]", self.code):
            if match.group() == "{":
                unclosed.append(match.start())
            elif unclosed:
                closing[unclosed.pop()] = match.start()
        found = []
        for match in SCOPE_HEAD.finditer(self.code):
            begin = match.end() - 1
            if begin in closing:
                kind = match.group("kind").split()[0]
                bases = match.group("bases") or ""
                found.append(Scope(kind, match.group("name"), match.start(), begin, closing[begin], bases))
        return found


LITERAL_OR_COMMENT = re.compile(
    r"""//[^\n]*
      | /\*.*?\*/
      | R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])*'
    """,
    re.VERBOSE | re.DOTALL,
)

SCOPE_HEAD = re.compile(
    r"""\b(?P<kind>enum\s+class|enum\s+struct|enum|class|struct|union|namespace)\b\s*
        (?: (?:alignas|__attribute__|HF_\w+)\s*\((?:[^()]|\([^()]*\))*\)\s* | \[\[[^\]]*\]\]\s* | HF_\w+\s+ )*
        (?P<name>[\w:]*)\s*
        (?:<[^;{}]*>\s*)?  # of a specialization
        (?:final\b\s*)?
        (?P<bases>:[^;{}]*)?
        \{""",
    re.VERBOSE,
)

DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)


def blank(text: str) -> str:
    """Spaces in place of all but the ends of lines."""
    return re.sub(r"[^\n]", " ", text) if "\n" in text else " " * len(text)


def blank_matches(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: blank(match.group()), text)


def comment_beginnings(source: Source) -> Iterator[tuple[int, str]]:
    """Position and text of the first line of each comment; `//` on consecutive lines of their own is one comment."""
    if not source.is_cpp:
        for match in re.finditer(r'(?:(?:^|(?<=\s))#+|""")[ \t]*([^\s#][^\n]*)', source.text):
            before = source.text.rfind("\n", 0, match.start()) + 1
            previous = source.text[source.text.rfind("\n", 0, max(before - 1, 0)) + 1 : before].lstrip()
            own_line = not source.text[before : match.start()].strip()
            if not (own_line and match.group()[0] == "#" and previous.startswith("#")):
                yield match.start(), match.group(1)
        return
    last_line = -1
    for position, text in source.comments:
        line = source.line_of(position)
        own_line = not source.text[source.starts[line - 1] : position].strip()
        if not (text.startswith("//") and own_line and line == last_line + 1):
            yield position, text.lstrip("/*! \n").split("\n")[0]
        last_line = line if text.startswith("//") else -1


def list_files(root: Path) -> list[str]:
    """What git knows or would add; without git, everything but build trees."""
    if (root / ".git").exists():
        names = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, capture_output=True, text=True,
        ).stdout.split("\0")
        return sorted({name for name in names if name and (root / name).is_file()})
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(("build", "__pycache__"))]
        found += [str((Path(folder) / name).relative_to(root)) for name in names]
    return sorted(found)


def is_text(path: str) -> bool:
    return path.endswith(TEXT) or Path(path).name in TEXT_NAMES

#!/usr/bin/env python3
"""Doxygen's input filter: comments become documentation, as they stand.

Doxygen reads `///` and `/**` alone. The headers of C++ begin with `//`, those of C have `/*` throughout: the comment
that a header begins with becomes the documentation of the file, and one of C that of what it stands before or behind.
What Doxygen would take for a command is escaped, for these comments are plain text with code in backquotes.
"""

import re
import sys


def plain(text: str) -> str:
    """The text of a comment without commands; lines of code, and code in backquotes, are left as they are."""
    lines = []
    for line in text.split("\n"):
        if not re.match(r"( \*)?     ", line):
            line = re.sub(r"(?<!`)(?<!\S)[^\s`]+\]\([^\s`)]*\)", r"`\g<0>`", line)  # a call, and no link
            parts = re.split(r"(`[^`]*`)", line)
            line = "".join(part if part.startswith("`") else re.sub(r"([<>@\\#%$])", r"\\\1", part) for part in parts)
        lines.append(line)
    return "\n".join(lines)


OF_DETAIL = re.compile(
    r"^(?:template <[^\n]*>\n)?(?! )[\w:<>&* ]*\bdetail::\w+(?:<\w+>)?::\w+\([^{;]*\{\n.*?^\}\n",
    re.MULTILINE | re.DOTALL,
)


def filter_cpp(text: str) -> str:
    """A header of C++: the comment at its beginning, and `///`.

    Members of classes of `detail` are left out, as those classes are: Doxygen would look for them.
    """
    text = OF_DETAIL.sub("", text)
    lines = text.split("\n")
    at = 0
    while at < len(lines) and lines[at].startswith("//"):
        lines[at] = "///" + plain(lines[at][2:])
        at += 1
    if at > 0:
        lines[0] = "/// @file\n" + lines[0]
    for place in range(at, len(lines)):
        if found := re.match(r"(.*?///<? ?)(.*)", lines[place]):
            lines[place] = found.group(1) + plain(found.group(2))
    return "\n".join(lines)


def filter_c(text: str) -> str:
    """A header of C: all comments but headings and those for tools."""

    def document(found: re.Match[str]) -> str:
        before, body = found.group(1), found.group(2)
        if body.startswith((" ---", " NOLINT", " C programs")):
            return found.group(0)
        start = "/** @file\n *" if found.start() == 0 else "/**<" if before.strip() else "/**"
        return f"{before}{start}{plain(body)}*/"

    return re.sub(r"^([^\n/]*)/\*(.*?)\*/", document, text, flags=re.DOTALL | re.MULTILINE)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        header = file.read()
    sys.stdout.write(filter_c(header) if header.startswith("/*") else filter_cpp(header))

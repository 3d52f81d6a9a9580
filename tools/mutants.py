#!/usr/bin/env python3
"""The mutants of the code: deliberate mistakes in tests/mutants/*.patch, which a test switches on and must notice.

    mutants.py --into FOLDER    writes a copy of each file that has mutants, with them, under FOLDER; prints nothing
    mutants.py --take FOLDER    makes the patches anew: what the copies under FOLDER have and the files of src/ have not
    mutants.py --check          says which hunks do not fit (as tools/lint.py does)

Where the build has mutants (preset `crash`), the copies are compiled in the place of the files of src/. The mutants
are all in one program: `HF_MUTANT("name")` (src/persist/mutant.hpp) is true where that mutant is selected.

A patch is a unified diff without numbers of lines. `--- src/log/log.cpp` begins a file; `@@ names of mutants` begins a
hunk: lines that stay (' '), that are taken out ('-') and that are put in ('+'). What a hunk finds, lines that stay and
lines that are taken out, is exactly one place of the file. So a change of the code elsewhere needs no change here, and
a change of these lines does not go unnoticed.
"""

import difflib
import re
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

FOLDER = "tests/mutants"
INCLUDE = '#include "persist/mutant.hpp"'
MARKS = {" ", "-", "+"}


class Hunk(NamedTuple):
    patch: str
    line: int
    path: str
    found: tuple[str, ...]
    put: tuple[str, ...]


class Misfit(NamedTuple):
    patch: str
    line: int
    message: str


def hunks_of(name: str, text: str) -> Iterator[Hunk | Misfit]:
    """The hunks of one patch; what stands before the first file is a comment."""
    path, begun = "", 0
    found: list[str] = []
    put: list[str] = []
    for number, line in enumerate([*text.rstrip("\n").split("\n"), "@@"], 1):
        if line.startswith(("--- ", "@@")):
            if begun:
                while found and put and not found[-1] and not put[-1]:  # an empty line before the next file
                    found.pop()
                    put.pop()
                yield Hunk(name, begun, path, tuple(found), tuple(put))
            begun = number if line.startswith("@@") else 0
            path = line[4:] if line.startswith("--- ") else path
            found, put = [], []
        elif begun:
            mark, rest = line[:1] or " ", line[1:]
            if mark not in MARKS:
                yield Misfit(name, number, f"a line of a hunk begins with {mark!r}")
            if mark != "+":
                found.append(rest)
            if mark != "-":
                put.append(rest)


def places_of(lines: list[str], found: tuple[str, ...]) -> list[int]:
    if not found:
        return []
    last = len(lines) - len(found) + 1
    return [at for at in range(last) if lines[at] == found[0] and tuple(lines[at : at + len(found)]) == found]


def weave(text: str, hunks: list[Hunk]) -> tuple[str, list[Misfit]]:
    """The text with the mutants, and the hunks that do not fit. Hunks find what the file has, not what others put."""
    lines = text.split("\n")
    misfits = []
    changes = []
    for hunk in hunks:
        places = places_of(lines, hunk.found)
        if len(places) == 1:
            changes.append((places[0], hunk))
        else:
            count = f"{len(places)} places" if places else "no place"
            misfits.append(Misfit(hunk.patch, hunk.line, f"the hunk fits {count} of {hunk.path}, not one"))
    changes.sort(key=lambda change: change[0], reverse=True)
    behind = len(lines)
    for at, hunk in changes:
        if at + len(hunk.found) > behind:
            misfits.append(Misfit(hunk.patch, hunk.line, "the hunk overlaps the next one"))
        lines[at : at + len(hunk.found)] = hunk.put
        behind = at
    return "\n".join([*([] if INCLUDE in lines else [INCLUDE]), *lines]), misfits


def woven_files(root: Path) -> tuple[dict[str, str], list[Misfit]]:
    files: dict[str, list[Hunk]] = {}
    misfits: list[Misfit] = []
    for patch in sorted((root / FOLDER).glob("*.patch")):
        for item in hunks_of(f"{FOLDER}/{patch.name}", patch.read_text()):
            if isinstance(item, Misfit):
                misfits.append(item)
            elif not (root / item.path).is_file():
                misfits.append(Misfit(item.patch, item.line, f"there is no file {item.path}"))
            else:
                files.setdefault(item.path, []).append(item)
    woven = {}
    for path, hunks in files.items():
        woven[path], found = weave((root / path).read_text(), hunks)
        misfits += found
    return woven, misfits


def write(folder: Path, woven: dict[str, str]) -> None:
    """Only what differs, so that the build compiles no more than what was changed."""
    for path, text in woven.items():
        target = folder / path.removeprefix("src/")
        if not target.is_file() or target.read_text() != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)


def taken(clean: list[str], mutated: list[str]) -> Iterator[list[str]]:
    """Hunks that make the one of the other: each change with a line before and behind it, and more if it fits twice."""
    groups: list[tuple[int, int, list[tuple[int, int, int, int]]]] = []
    for tag, begin, end, put_begin, put_end in difflib.SequenceMatcher(None, clean, mutated, False).get_opcodes():
        if tag == "equal":
            continue
        first, last = max(0, begin - 1), min(len(clean), end + 1)
        while len(places_of(clean, tuple(clean[first:last]))) != 1:
            first, last = max(0, first - 1), min(len(clean), last + 1)
        change = (begin, end, put_begin, put_end)
        if groups and first <= groups[-1][1]:
            groups[-1] = (groups[-1][0], max(last, groups[-1][1]), [*groups[-1][2], change])
        else:
            groups.append((first, last, [change]))
    for first, last, changes in groups:
        lines, names = [], []
        for begin, end, put_begin, put_end in changes:
            lines += [f" {line}".rstrip() for line in clean[first:begin]]
            lines += [f"-{line}" for line in clean[begin:end]]
            lines += [f"+{line}" for line in mutated[put_begin:put_end]]
            names += re.findall(r'HF_MUTANT\("([^"]*)"\)', "\n".join(mutated[put_begin:put_end]))
            first = end
        lines += [f" {line}".rstrip() for line in clean[first:last]]
        yield [f"@@ {', '.join(dict.fromkeys(names))}".rstrip(), *lines]


def changes_code(hunk: list[str]) -> bool:
    """More than empty lines."""
    found = [line[1:] for line in hunk[1:] if line[1:] and line[0] != "+"]
    return found != [line[1:] for line in hunk[1:] if line[1:] and line[0] != "-"]


def take(root: Path, folder: Path) -> None:
    """A patch for each layer."""
    patches: dict[str, list[str]] = {}
    for copy in sorted(path for path in folder.rglob("*") if path.suffix in (".cpp", ".hpp")):
        name = str(copy.relative_to(folder))
        clean = (root / "src" / name).read_text().split("\n")
        mutated = [line for line in copy.read_text().split("\n") if line != INCLUDE or line in clean]
        lines = [line for hunk in taken(clean, mutated) if changes_code(hunk) for line in hunk]
        if lines:
            patches.setdefault(name.split("/")[0], []).extend(["", f"--- src/{name}", *lines])
    for layer, lines in patches.items():
        head = f"Mutants of {layer}: deliberate mistakes, of which a test switches one on, and must notice it.\n"
        head += "tools/mutants.py says how to read and change this.\n"
        (root / FOLDER / f"{layer}.patch").write_text(head + "\n".join(lines) + "\n")


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in ("--check", "--into", "--take"):
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "--take":
        take(root, Path(sys.argv[2]))
    woven, misfits = woven_files(root)
    for patch, line, message in misfits:
        print(f"{patch}:{line}: {message}", file=sys.stderr)
    if misfits:
        return 1
    if sys.argv[1] == "--into":
        write(Path(sys.argv[2]), woven)
    return 0


if __name__ == "__main__":
    sys.exit(main())

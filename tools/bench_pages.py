#!/usr/bin/env python3
"""Compares the commit that each page of figures names with the code that the page measures.

    bench_pages.py [ROOT]      the tree at ROOT (default: the tree that holds this file), with its history in Git

A page says where its figures come from in one paragraph, once or for each of its parts:

    Measured at 0123abc by `scripts/bench.sh commit_bench`; code: `src/segment`, `bench/commit_bench.cpp`.

For each such sentence a row is printed: how many commits lie between that commit and the tree, and how many lines they
and what is not yet committed have added and removed, in these files and folders without their tests. Where that is more
than LIMIT of the lines that are there, the figures are those of another program. Then the exit status is 1, unless the
same paragraph says so:

    These figures are older than the code, of 0123abc.

All pages of docs/benchmarks/ need such a sentence, but for those in WITHOUT_FIGURES.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

LIMIT = 0.1  # of the lines: below it, differences were within those of two runs
PAGES = "docs/benchmarks"
WITHOUT_FIGURES = ("docs/benchmarks/holdfast-bench.md", "docs/benchmarks/papers.md")
DOCUMENTS = ("README.md", "docs/**/*.md", "examples/*.md")  # any of them may have figures

COMMIT = r"([0-9a-f]{7,40})"
SPANS = r"`[^`]+`(?:(?:, | and )`[^`]+`)*"
MEASURED = re.compile(rf"Measured at {COMMIT} by ({SPANS}); code: ({SPANS})\.")
OLDER = re.compile(rf"These figures are older than the code, of {COMMIT}\.")
TESTS = (":(exclude,glob)**/*_test.*", ":(exclude,glob)**/*_fuzz.*", ":(exclude,glob)**/*_test_support.hpp")


class Statement(NamedTuple):
    page: str
    commit: str
    code: tuple[str, ...]
    older: str | None  # the commit that the paragraph calls older than the code


class Age(NamedTuple):
    commits: int
    changed: int  # lines added and removed
    lines: int  # that are there

    @property
    def share(self) -> float:
        return self.changed / self.lines if self.lines else 1.0


class Fault(Exception):
    """What is wrong with a page."""


class History:
    """What Git knows of a tree."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def ask(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.root), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def has(self, commit: str) -> bool:
        """Whether it is an ancestor of the tree."""
        command = ["git", "-C", str(self.root), "merge-base", "--is-ancestor", commit, "HEAD"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def fault(self) -> str | None:
        """Why it answers nothing."""
        command = ["git", "-C", str(self.root), "rev-parse", "--is-shallow-repository"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            return f"no history: {answer.stderr.strip()}"
        return "the history is cut off: git fetch --unshallow" if answer.stdout.strip() == "true" else None

    def age(self, commit: str, code: tuple[str, ...]) -> Age:
        paths = ("--", *code, *TESTS)
        commits = int(self.ask("rev-list", "--count", f"{commit}..HEAD", *paths))
        changed = 0
        for line in self.ask("diff", "--numstat", "--find-renames", commit, *paths).splitlines():
            added, removed, _ = line.split("\t", 2)
            changed += int(added) + int(removed) if added != "-" else 0  # "-": not text
        files = self.ask("ls-files", "-z", *paths).split("\0")
        there = (self.root / name for name in files if name)
        return Age(commits, changed, sum(path.read_bytes().count(b"\n") for path in there if path.is_file()))


def paths_of(spans: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", spans))


def statements_of(page: str, text: str) -> Iterator[Statement]:
    for paragraph in re.split(r"\n[ \t]*\n", text):
        if paragraph.startswith("    "):
            continue  # an example
        joined = " ".join(paragraph.split())
        older = OLDER.search(joined)
        found = list(MEASURED.finditer(joined))
        if len(found) > 1:
            raise Fault(f"{page}: two sentences 'Measured at ...' in one paragraph")
        if older and not found:
            raise Fault(f"{page}: 'These figures are older ...' stands in no paragraph with 'Measured at ...'")
        for match in found:
            yield Statement(page, match.group(1), paths_of(match.group(3)), older.group(1) if older else None)


def read_statements(root: Path) -> tuple[list[Statement], list[str]]:
    """With what is wrong with the pages themselves."""
    statements: list[Statement] = []
    faults: list[str] = []
    for path in sorted(path for pattern in DOCUMENTS for path in root.glob(pattern)):
        page = path.relative_to(root).as_posix()
        try:
            of_page = list(statements_of(page, path.read_text(encoding="utf-8")))
        except Fault as fault:
            faults.append(str(fault))
            continue
        if not of_page and page.startswith(PAGES + "/") and page not in WITHOUT_FIGURES:
            faults.append(f"{page}: no sentence 'Measured at COMMIT by `COMMAND`; code: `FOLDER`, ...'")
        statements += of_page
    return statements, faults


def fault_of(statement: Statement, age: Age) -> str | None:
    page, commit, _, older = statement
    if older is not None and older != commit:
        return f"{page}: measured at {commit}, and called older than the code as of {older}"
    if older is not None and age.changed == 0:
        return f"{page}: the code has not changed since {commit}, and the page calls its figures older"
    if older is None and age.share > LIMIT:
        return (f"{page}: {100 * age.share:.0f} % of the code has changed since {commit}: measure again, or say 'These "
                f"figures are older than the code, of {commit}.'")
    return None


def examine(root: Path, statement: Statement, history: History) -> Age:
    for path in statement.code:
        if not (root / path).exists():
            raise Fault(f"{statement.page}: there is no {path}")
    if not history.has(statement.commit):
        raise Fault(f"{statement.page}: {statement.commit} is no commit before this one")
    return history.age(statement.commit, statement.code)


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    history = History(root)
    statements, faults = read_statements(root)
    if fault := history.fault():
        print(f"bench_pages: {fault}", file=sys.stderr)
        return 1
    width = max((len(one.page) for one in statements), default=0)
    print(f"{'page':{width}}  commit   commits  changed    lines  share  says")
    for one in statements:
        try:
            age = examine(root, one, history)
        except Fault as fault:
            faults.append(str(fault))
            continue
        says = "older" if one.older else ""
        print(f"{one.page:{width}}  {one.commit[:7]}  {age.commits:7}  {age.changed:7}  {age.lines:7}  "
              f"{100 * age.share:3.0f} %  {says}".rstrip())
        if fault := fault_of(one, age):
            faults.append(fault)
    print(f"\n{len(statements)} sets of figures; more than {100 * LIMIT:.0f} % changed lines must be said")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Compiles programs that must be refused and reads the compiler's message.

A file NAME.cases holds cases:

    //# name: the sentence that must appear    (or: "compiles" for a control that must compile)
    ... statements of a function, up to the next //# line

What stands before the first case is compiled once, as a header that is put before each.
Usage: compile_fail.py COMPILER INCLUDE_DIRECTORY FILE...
"""

import concurrent.futures
import itertools
import os
import re
import subprocess
import sys
import tempfile

CONTROL = "compiles"


def read_cases(path):
    """Yields what stands before the first case, then (name, expected sentence, function) of each."""
    with open(path, encoding="utf-8") as file:
        head, *blocks = re.split(r"^//# ", file.read(), flags=re.MULTILINE)
    yield head
    for block in blocks:
        title, _, body = block.partition("\n")
        name, _, expected = title.partition(": ")
        program = f"void body(holdfast::manager& heap) {{\n    static_cast<void>(heap);\n{body}}}\n"
        yield name, expected.strip(), program


def write(path, text):
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)


class Header:
    """What stands before the cases of one file, precompiled where `stem` says."""

    def __init__(self, compiler, include, stem, text):
        clang = "clang" in os.path.basename(compiler)
        self.stem = stem
        self.command = [compiler, "-std=c++20", f"-I{include}"]
        write(f"{stem}.hpp", text)
        compiled = f"{stem}.hpp.{'pch' if clang else 'gch'}"
        subprocess.run([*self.command, "-x", "c++-header", f"{stem}.hpp", "-o", compiled], check=True)
        # GCC finds the compiled header by its name, and is told to say so where it cannot use it.
        self.command += ["-include-pch", compiled] if clang else ["-Werror=invalid-pch", "-include", f"{stem}.hpp"]

    def check(self, number, case):
        """Returns a complaint, or None."""
        name, expected, program = case
        source = f"{self.stem}-{number}.cpp"
        write(source, program)
        done = subprocess.run(
            [*self.command, "-fsyntax-only", source],
            capture_output=True,
            text=True,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
        where = f"{os.path.basename(self.stem)}: {name}"
        if expected == CONTROL:
            return None if done.returncode == 0 else f"{where}: does not compile:\n{done.stderr[:4000]}"
        if done.returncode == 0:
            return f"{where}: compiles, and must be refused"
        if expected not in done.stderr:
            return f"{where}: refused without the sentence\n  {expected}\nbut with\n{done.stderr[:4000]}"
        return None


def main():
    compiler, include, *paths = sys.argv[1:]
    refused = controls = 0
    complaints = []
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path in paths:
            head, *cases = read_cases(path)
            header = Header(compiler, include, os.path.join(directory, os.path.basename(path)), head)
            complaints += filter(None, pool.map(header.check, itertools.count(), cases))
            controls += sum(case[1] == CONTROL for case in cases)
            refused += sum(case[1] != CONTROL for case in cases)
    if not refused or not controls:
        print("there must be cases to refuse and controls that compile")
        return 1
    print("\n".join(complaints))
    print(f"{refused} programs to refuse, {controls} controls, {len(complaints)} wrong")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compiles programs that must be refused and reads the compiler's message.

A file NAME.cases holds cases:

    //# name: the sentence that must appear    (or: "compiles" for a control that must compile)
    ... statements of a function, up to the next //# line

What stands before the first case is put before each. Usage: compile_fail.py COMPILER INCLUDE_DIRECTORY FILE...
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

CONTROL = "compiles"


def read_cases(path):
    """Yields (file, name, expected sentence, program)."""
    with open(path, encoding="utf-8") as file:
        head, *blocks = re.split(r"^//# ", file.read(), flags=re.MULTILINE)
    for block in blocks:
        title, _, body = block.partition("\n")
        name, _, expected = title.partition(": ")
        program = f"{head}\nvoid body(holdfast::manager& heap) {{\n    static_cast<void>(heap);\n{body}}}\n"
        yield os.path.basename(path), name, expected.strip(), program


def check(compiler, include, case):
    """Returns a complaint, or None."""
    file, name, expected, program = case
    with tempfile.TemporaryDirectory() as directory:
        source = os.path.join(directory, "case.cpp")
        with open(source, "w", encoding="utf-8") as out:
            out.write(program)
        command = [compiler, "-std=c++20", "-fsyntax-only", f"-I{include}", source]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    if expected == CONTROL:
        return None if done.returncode == 0 else f"{file}: {name}: does not compile:\n{done.stderr[:4000]}"
    if done.returncode == 0:
        return f"{file}: {name}: compiles, and must be refused"
    if expected not in done.stderr:
        return f"{file}: {name}: refused without the sentence\n  {expected}\nbut with\n{done.stderr[:4000]}"
    return None


def main():
    compiler, include, *paths = sys.argv[1:]
    cases = [case for path in paths for case in read_cases(path)]
    controls = sum(case[2] == CONTROL for case in cases)
    if not cases or not controls or controls == len(cases):
        print("there must be cases to refuse and controls that compile")
        return 1
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [text for text in pool.map(lambda case: check(compiler, include, case), cases) if text]
    print("\n".join(complaints))
    print(f"{len(cases) - controls} programs to refuse, {controls} controls, {len(complaints)} wrong")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

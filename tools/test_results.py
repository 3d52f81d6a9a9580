#!/usr/bin/env python3
"""Says which tests of CTest runs were skipped, and why, from the files that `ctest --output-junit` writes.

    test_results.py JUNIT...
"""

import re
import sys
import xml.etree.ElementTree as xml
from typing import Iterator, NamedTuple

REASON = re.compile(r"NOT TESTED(?: HERE)?:?\s*(.*)")


class Result(NamedTuple):
    name: str
    seconds: float
    skipped: bool
    reason: str


def read_results(paths: list[str]) -> Iterator[Result]:
    for path in paths:
        for case in xml.parse(path).getroot().iter("testcase"):
            skipped = case.find("skipped")
            said = dict.fromkeys(REASON.findall(case.findtext("system-out") or ""))  # each once, in their order
            reason = "; ".join(said) if said else "" if skipped is None else skipped.get("message", "")
            yield Result(case.get("name", ""), float(case.get("time", 0)), skipped is not None, reason)


def print_not_tested(results: list[Result]) -> None:
    skipped = [one for one in results if one.skipped or one.reason]  # a part of a program may be skipped, too
    if skipped:
        print("\nNOT TESTED:")
    for one in skipped:
        print(f"  {one.name}: {one.reason}")


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    print_not_tested(list(read_results(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

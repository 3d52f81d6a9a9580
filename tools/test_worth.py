#!/usr/bin/env python3
"""What each test program costs, and which mutants it notices: the table of docs/hacking.md.

    test_worth.py [--sites N] BUILD JUNIT...

BUILD is the build directory of the preset `crash` (build/crash), after `make test`; JUNIT are the files that
`make test` and `make verify` wrote (build/quick/junit.xml, build/suite/junit.xml). A program is named after its tests:
kill_test has kill_test and kill_test_quick. Seconds of compiling are those of its own objects; the libraries that it
links are there for all.

Each program of the tier `quick` that is no simulator runs once to say which mutants' sites it passes, then once with
each of these left out. What fails, or takes three times as long and more than a minute, has noticed. That
takes about half an hour on two cores. With `--sites N`, N sites are left out, at equal distances in the sorted list of
all: a sample, in a tenth of the time for N = 12. Simulators notice every mutant of their subject: mutants_test and its
kin prove that.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from test_results import read_results

TIER = re.compile(r"_(quick|soak)$")
SIMULATORS = re.compile(r"crash_test|mutants_test|protocol_model|simulator_test")
NOT_ASKED = re.compile(r"lint|format|compile_fail|kill_test|powerloss|full_disk")  # slow, or without our code
LONGEST_FIRST_RUN = 300
LONGEST_RUN = 60  # or three times the first run


def program_of(test: str) -> str:
    return TIER.sub("", test.split(".", 1)[-1])


def compile_seconds(build: str) -> dict[str, float]:
    """Seconds of compiling the objects of each target, the last time that each was compiled."""
    last = {}
    for line in (Path(build) / ".ninja_log").read_text().splitlines()[1:]:
        begin, end, _, output, _ = line.split("\t")
        last[output] = (int(end) - int(begin)) / 1000
    seconds: dict[str, float] = defaultdict(float)
    for output, took in last.items():
        target = re.search(r"CMakeFiles/(\w+)\.dir/", output)
        if target and output.endswith(".o"):
            seconds[target.group(1)] += took
    return seconds


def run_seconds(junit: list[str]) -> dict[str, dict[str, float]]:
    """Seconds of each program by tier, in the preset in which it ran first."""
    seconds: dict[str, dict[str, float]] = defaultdict(dict)
    for path in junit:
        tier = Path(path).parent.name
        for one in read_results([path]):
            seconds[program_of(one.name)].setdefault(tier, one.seconds)
    return seconds


def quick_tests(build: str) -> dict[str, list[str]]:
    """The commands of the tier `quick`, by program, without the script that runs each for CTest."""
    listed = subprocess.run(["ctest", "--test-dir", build, "-L", "^quick$", "--show-only=json-v1"],
                            check=True, capture_output=True, text=True)
    tests = json.loads(listed.stdout)["tests"]
    return {program_of(one["name"]): one["command"][1:] for one in tests if "command" in one}


def is_built(command: list[str]) -> bool:
    """Says so on stderr where the program is not there."""
    there = shutil.which(command[0]) is not None
    if not there:
        print(f"test_worth: not built, so not asked: {command[0]}", file=sys.stderr)
    return there


def run(command: list[str], build: str, longest: float, **variables: str) -> bool:
    """Whether the program succeeds."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            environment = {**os.environ, "TMPDIR": scratch, **variables}
            done = subprocess.run(command, cwd=build, env=environment, timeout=longest, check=False,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return done.returncode == 0
        except subprocess.TimeoutExpired:
            return False


def sites_of(command: list[str], build: str) -> tuple[list[str], float]:
    """The sites of HF_MUTANT that the program passes, none where it cannot be asked, which stderr says; and how long a
    run may take."""
    begin = time.monotonic()
    with tempfile.NamedTemporaryFile() as seen:
        if not run(command, build, LONGEST_FIRST_RUN, HOLDFAST_SEEN_SITES=seen.name):
            print(f"test_worth: fails, or takes over {LONGEST_FIRST_RUN} s, with nothing left out, so not asked: "
                  f"{' '.join(command)}", file=sys.stderr)
            return [], 0
        names = {line.split(" ", 1)[1] for line in Path(seen.name).read_text().splitlines() if line.startswith("code ")}
    sites = sorted(name for name in names if not name.startswith(("test.", "mutant.")))
    return sites, max(LONGEST_RUN, 3 * (time.monotonic() - begin))


def sample(sites: set[str], number: int | None) -> set[str]:
    """So many of the sites, at equal distances; all of them for None."""
    ordered = sorted(sites)
    if number is None or number >= len(ordered):
        return sites
    return {ordered[i * len(ordered) // number] for i in range(number)}


def ask_all(build: str, number: int | None) -> dict[str, tuple[set[str], set[str]]]:
    """Of each program: the mutants that it passes and that were left out, and those of them that it notices."""
    asked = {program: command for program, command in quick_tests(build).items()
             if not SIMULATORS.search(program) and not NOT_ASKED.search(program) and is_built(command)}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        first = dict(zip(asked, pool.map(lambda command: sites_of(command, build), asked.values())))
        longest = {program: seconds for program, (_, seconds) in first.items()}
        passed = {program: sites for program, (sites, _) in first.items()}
        asked_sites = sample({site for sites in passed.values() for site in sites}, number)
        passed = {program: [site for site in sites if site in asked_sites]
                  for program, sites in passed.items() if sites}
        pairs = [(program, site) for program, sites in passed.items() for site in sites]
        succeeded = list(pool.map(lambda pair: run(asked[pair[0]], build, longest[pair[0]], HOLDFAST_MUTANT=pair[1]),
                                  pairs))
    noticed = {program: {site for (other, site), fine in zip(pairs, succeeded) if other == program and not fine}
               for program in passed}
    return {program: (set(passed[program]), noticed[program]) for program in passed}


def main(arguments: list[str]) -> int:
    number = None
    if len(arguments) > 1 and arguments[0] == "--sites" and arguments[1].isdigit():
        number, arguments = int(arguments[1]), arguments[2:]
    if len(arguments) < 2 or number == 0:
        print(__doc__, file=sys.stderr)
        return 2
    build, junit = arguments[0], arguments[1:]
    compiled, ran, mutants = compile_seconds(build), run_seconds(junit), ask_all(build, number)
    titles = ["program", "compiled, s", "`make test`, s", "`make verify`, s", "mutants passed", "noticed", "alone"]
    print(f"| {' | '.join(titles)} |")
    print("|---" * len(titles) + "|")
    for program, tiers in sorted(ran.items(), key=lambda item: -compiled.get(item[0], 0) - sum(item[1].values())):
        numbers = [compiled.get(program), tiers.get("quick"), tiers.get("suite")]
        cells = ["" if number is None else f"{number:.0f}" for number in numbers]
        if program in mutants:
            passed, noticed = mutants[program]
            others = set().union(*(each[1] for other, each in mutants.items() if other != program))
            cells += [str(len(passed)), str(len(noticed)), ", ".join(f"`{site}`" for site in sorted(noticed - others))]
        else:
            cells += ["", "", ""]
        print(f"| `{program}` | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

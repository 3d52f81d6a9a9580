#!/usr/bin/env python3
"""Searches the worlds of a Promela model with spin: each right world holds in every state, each mistake is refuted.

    promela.py MODEL.pml                  all worlds of MODEL.worlds
    promela.py MODEL.pml --tier TIER      those of a tier: quick, suite, large, larger, soak
    promela.py MODEL.pml --only NAME...   these
    promela.py MODEL.pml --path           shows the steps that refute each mistake, too

A line of MODEL.worlds is "TIER right|wrong NAME BOUND=VALUE..."; # begins a comment. The model is compiled once
and takes the bounds from its environment; two worlds are searched at a time. States are remembered by a hash of 8 bytes
(pan's HC4). Prints the states and the seconds of each. Exit status 1: a right world is refuted, a wrong one is not, or
a search was cut off; 77: spin is not installed.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

NOT_TESTED = 77
PAN = ["-DSAFETY", "-DNOREDUCE", "-DNOFAIR", "-DHC4", "-DVECTORSZ=2048", "-DMEMLIM=4000", "-w"]
LONG = ["-O2", "-DNOBOUNDCHECK"]  # what is searched for seconds only is not worth the compiler's


@dataclass
class World:
    name: str
    is_right: bool
    tier: str
    bounds: list[str]


def worlds_of(model: Path) -> list[World]:
    worlds = []
    for line in model.with_suffix(".worlds").read_text().splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        tier, kind, name, *bounds = words
        if kind not in ("right", "wrong"):
            sys.exit(f"{model.stem}.worlds: neither right nor wrong: {line}")
        worlds.append(World(name, kind == "right", tier, bounds))
    return worlds


def run(directory: str, *command: str, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, **environment}, capture_output=True, text=True, timeout=900
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def compile_pan(model: Path, directory: str, options: list[str]) -> None:
    begin = time.monotonic()
    shutil.copy(model, directory)  # pan names its trail after the model's path
    run(directory, "spin", "-a", model.name)
    run(directory, "gcc", *options, *PAN, "-o", "pan", "pan.c")
    print(f"compiled in {time.monotonic() - begin:.1f} s", flush=True)


def search(pan: str, world: World, mistakes: dict[str, str], shows_path: bool) -> tuple[bool, str]:
    """Whether the world is as it is to be, and a line that tells what was seen."""
    with tempfile.TemporaryDirectory() as directory:
        bounds = dict(each.split("=") for each in world.bounds)
        bounds["MISTAKE"] = mistakes[bounds.get("MISTAKE", "none")]
        begin = time.monotonic()
        told = run(directory, pan, "-m1000000", "-w20", "-n", "-E", **bounds)
        seconds = time.monotonic() - begin
        error = re.search(r"pan:\d+: (.*)", told)
        refuted = re.search(r"assertion violated .*\|\|\((\d+)==0\)\)", error.group(1)) if error else None
        states = re.search(r"(\d+) states, stored", told)
        if states is None or error and not refuted or "Search not completed" in told and not refuted:
            return False, f"{world.name}: the search was cut off\n{told}"
        text = f"{world.name}: {states.group(1)} states, {seconds:.1f} s"
        if refuted:
            text += f", refuted by invariant {refuted.group(1)}"
            if shows_path:
                text += "\n" + run(directory, pan, "-r", **bounds)
        return (refuted is None) == world.is_right, text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--tier", choices=("quick", "suite", "large", "larger", "soak"))
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--path", action="store_true")
    arguments = parser.parse_args()
    if not shutil.which("spin"):
        print("NOT TESTED HERE: spin is not installed")
        return NOT_TESTED
    chosen = [
        each
        for each in worlds_of(arguments.model)
        if arguments.tier in (None, each.tier) and (not arguments.only or each.name in arguments.only)
    ]
    mistakes = dict(re.findall(r"#define (\w+) (\d+)", arguments.model.read_text())) | {"none": "0"}
    failed = 0
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(2) as pool:
        compile_pan(arguments.model.resolve(), directory, ["-O1"] if arguments.tier == "quick" else LONG)
        searches = [pool.submit(search, f"{directory}/pan", each, mistakes, arguments.path) for each in chosen]
        for each in searches:
            is_right, text = each.result()
            print(("" if is_right else "FAILED: ") + text, flush=True)
            failed += not is_right
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())

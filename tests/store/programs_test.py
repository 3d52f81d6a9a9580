#!/usr/bin/env python3
"""Unchanged programs that use liblmdb, on our library.

    programs_test.py DIRECTORY_OF_OUR_LIBRARY DIRECTORY_OF_LMDB_H python|knot|postfix

Each program is run on Debian's liblmdb first, which shows that the test is right, and then, by LD_LIBRARY_PATH, on
ours: it starts, writes, reads, is killed, and starts again.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable

# The Python package's own tests that do not hold on our library, each with the reason.
DIFFERENT = {
    "crash_test.py::MapResizeTest::test_opendb_resize": "a map needs no mdb_env_set_mapsize() to grow",
    "env_test.py::OpenTest::test_tiny_size": "a map of 10 bytes is as large as the least store",
    "env_test.py::SetMapSizeTest::test_applied": "a map is no smaller than what is in use, which is more than 16 pages",
}
# What depends on the machine's page faults.
UNSTEADY = {"cursor_test.py::PreloadTest::test_preload"}
PACKAGE = "lmdb==1.4.1"


class Fault(Exception):
    pass


class Skipped(Exception):
    pass


class Program:
    """How the programs of a test are run: with which library, and where."""

    def __init__(self, library: Path | None, place: Path) -> None:
        self.library = library
        self.place = place
        self.environment = dict(os.environ)
        if library is not None:
            self.environment["LD_LIBRARY_PATH"] = str(library)

    def run(self, *words: object, text: str = "", status: int | None = 0) -> str:
        ended = subprocess.run(
            [str(word) for word in words], input=text, capture_output=True, text=True, env=self.environment,
            cwd=self.place, timeout=300, check=False,
        )  # fmt: skip
        if status is not None and ended.returncode != status:
            raise Fault(f"{' '.join(map(str, words))}: exit status {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return ended.stdout

    def start(self, *words: object) -> "subprocess.Popen[bytes]":
        log = open(self.place / "log", "ab")  # noqa: SIM115
        started = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log, env=self.environment)
        log.close()
        if self.library is not None:
            self.expect_our_library(started.pid)
        return started

    def expect_our_library(self, process: int) -> None:
        """Whether the process has our library, and no other of the name."""
        for _ in range(200):
            maps = Path(f"/proc/{process}/maps").read_text()
            loaded = set(re.findall(r"\S*/liblmdb\.so\S*", maps))
            if loaded:
                if any(Path(path).parent != self.library for path in loaded):
                    raise Fault(f"it runs on {loaded}")
                return
            time.sleep(0.02)  # lint-allow(sleep): the loader of another process tells nobody
        raise Fault("it loads no liblmdb")


def expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise Fault(f"{what}: {found!r}, expected {expected!r}")


def wait_for(what: str, question: Callable[[], object], expected: object) -> None:
    """Asks until the answer is that, for at most 20 s."""
    end = time.monotonic() + 20
    found = question()
    while found != expected and time.monotonic() < end:
        time.sleep(0.1)  # lint-allow(sleep): a server is asked again
        found = question()
    expect(what, found, expected)


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise Skipped(f"{program} is not installed")


# --- Knot DNS -------------------------------------------------------------------------------------------------------

KNOT_ZONE = """$ORIGIN example.test.
$TTL 60
@ SOA ns hostmaster 1 60 60 60 60
@ NS ns
ns A 127.0.0.1
"""
KNOT_CONFIGURATION = """server:
    rundir: {place}/run
    listen: 127.0.0.1@{port}
database:
    storage: {place}/store
template:
  - id: default
    storage: {place}
    file: zone.txt
    zonefile-sync: -1
    zonefile-load: difference
    journal-content: changes
zone:
  - domain: example.test
"""


def knot(program: Program, port: int) -> None:
    """Configuration, journal and timers lie in LMDB. A record that was added is there after SIGKILL."""
    need("knotd", "knotc", "kdig")
    place = program.place
    for folder in ("run", "store"):
        (place / folder).mkdir()
    (place / "zone.txt").write_text(KNOT_ZONE)
    (place / "knot.conf").write_text(KNOT_CONFIGURATION.format(place=place, port=port))
    configuration = place / "confdb"
    control = ("knotc", "-s", place / "run" / "knot.sock")
    program.run("knotc", "-C", configuration, "conf-init")
    program.run("knotc", "-C", configuration, "-f", "conf-import", place / "knot.conf")

    def ask(name: str, kind: str) -> str:
        return program.run("kdig", "@127.0.0.1", "-p", port, "+short", "+retry=0", "+timeout=2", name, kind,
                           status=None)  # fmt: skip

    def is_loaded() -> bool:
        return ask("example.test", "NS") == "ns.example.test.\n"

    server = program.start("knotd", "-C", configuration)
    try:
        wait_for("the server answers", is_loaded, True)
        for round_number in range(3):
            program.run(*control, "zone-begin", "example.test")
            for i in range(20):
                program.run(*control, "zone-set", "example.test", f"r{round_number}-{i}", "60", "TXT", f"kept{i}")
            program.run(*control, "zone-commit", "example.test")
            server.send_signal(signal.SIGKILL)
            server.wait()
            server = program.start("knotd", "-C", configuration)
            wait_for("the server answers again", is_loaded, True)
            for earlier in range(round_number + 1):
                for i in (0, 19):
                    expect("a record that was added", ask(f"r{earlier}-{i}.example.test", "TXT"), f'"kept{i}"\n')
        expect("the configuration", program.run("knotc", "-C", configuration, "conf-read", "zone.domain"),
               "zone.domain = example.test.\n")  # fmt: skip
    finally:
        server.kill()
        server.wait()


# --- Postfix --------------------------------------------------------------------------------------------------------


def postfix(program: Program, _port: int) -> None:
    """Maps in LMDB: made, read, changed; a writer that is killed leaves all items whole."""
    need("postmap")
    module = Path("/usr/lib/postfix/postfix-lmdb.so")
    if not module.exists():
        raise Skipped("postfix-lmdb is not installed")
    place = program.place
    (place / "etc").mkdir()
    (place / "etc" / "main.cf").write_text(f"compatibility_level = 3.6\nmeta_directory = {place}/etc\n")
    (place / "etc" / "master.cf").write_text("")
    (place / "etc" / "dynamicmaps.cf").write_text(f"lmdb {module} dict_lmdb_open mkmap_lmdb_open\n")
    (place / "map").write_text("".join(f"user{i} mailbox{i}\n" for i in range(20000)))
    postmap = ("postmap", "-c", place / "etc")
    table = f"lmdb:{place}/map"

    def ask(key: str) -> str:
        return program.run(*postmap, "-q", key, table, status=None)

    program.run(*postmap, table)
    expect("a user", ask("user19999"), "mailbox19999\n")
    expect("all users", len(program.run(*postmap, "-s", table).splitlines()), 20000)
    program.run(*postmap, "-i", table, text="extra one\n")
    expect("the user that was added", ask("extra"), "one\n")
    program.run(*postmap, "-d", "user5", table)
    expect("the user that was removed", ask("user5"), "")
    for i in range(10):
        writer = subprocess.Popen(
            [*map(str, postmap), "-i", table], stdin=subprocess.PIPE, env=program.environment, stderr=subprocess.DEVNULL
        )
        assert writer.stdin is not None
        try:
            writer.stdin.write("".join(f"added{i}-{j} value{j}\n" for j in range(3000)).encode())
            writer.stdin.flush()
            time.sleep(0.01 * i)  # lint-allow(sleep): it is killed at different moments
        except BrokenPipeError:
            pass
        writer.kill()
        writer.wait()
        found = program.run(*postmap, "-s", table).splitlines()
        if len([line for line in found if line.startswith("user")]) != 19999:
            raise Fault("users are missing after a writer was killed")
        added = [line for line in found if line.startswith("added")]
        wrong = [line for line in added if not re.fullmatch(r"added\d+-(\d+)\tvalue\1", line)]
        expect("items of a writer that was killed", wrong, [])


# --- the Python package lmdb ----------------------------------------------------------------------------------------

PYTHON_WRITER = """
import lmdb, sys
env = lmdb.open(sys.argv[1], map_size=1 << 28, max_dbs=4)
db = env.open_db(b'numbers', integerkey=True)
number = 0
while True:
    with env.begin(write=True, db=db) as txn:
        cursor = txn.cursor()
        number = int.from_bytes(cursor.key(), 'little') + 1 if cursor.last() else 1
        for i in range(5):
            txn.put(number.to_bytes(8, 'little'), b'%d' % number)
    print(number, flush=True)
"""
PYTHON_READER = """
import lmdb, sys
env = lmdb.open(sys.argv[1], map_size=1 << 28, max_dbs=4)
db = env.open_db(b'numbers', integerkey=True)
with env.begin(db=db) as txn:
    items = [(int.from_bytes(key, 'little'), int(data)) for key, data in txn.cursor()]
assert items == [(i + 1, i + 1) for i in range(len(items))], items[:20]
print(len(items))
"""


def python_package(header: Path, link: Path, place: Path) -> Path:
    """A virtual environment with the package, built against a library; its sources lie in `package`."""
    python = next((path for path in ("/usr/bin/python3.11", "/usr/bin/python3") if Path(path).exists()), None)
    if python is None or not list(Path("/usr/include").glob("python3*/Python.h")):
        raise Skipped("python3-dev is not installed")
    try:
        subprocess.run([python, "-m", "venv", place / "venv"], check=True, capture_output=True, timeout=120)
        pip = [place / "venv" / "bin" / "pip", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "setuptools", "wheel", "pytest"], check=True, capture_output=True, timeout=300)
        subprocess.run([*pip, "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", place,
                        PACKAGE], check=True, capture_output=True, timeout=300)  # fmt: skip
    except (subprocess.SubprocessError, OSError) as failure:
        raise Skipped(f"packages of Python cannot be had: {failure}") from failure
    (archive,) = place.glob("lmdb-*.tar.gz")
    (place / "package").mkdir()
    subprocess.run(["tar", "xzf", archive, "-C", place / "package", "--strip-components", "1"], check=True)
    environment = dict(os.environ, LMDB_FORCE_SYSTEM="1", LMDB_FORCE_CPYTHON="1", LMDB_INCLUDEDIR=str(header),
                       LMDB_LIBDIR=str(link))  # fmt: skip
    built = subprocess.run([*pip, "install", "--no-build-isolation", "--no-deps", place / "package"],
                           env=environment, capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
    if built.returncode != 0:
        raise Fault(f"the package cannot be built:\n{built.stdout}{built.stderr}")
    return place / "venv" / "bin" / "python"


def python(program: Program, interpreter: Path) -> None:
    tests = program.place / "package" / "tests"
    output = subprocess.run(
        [interpreter, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-rf", "."],
        cwd=tests, env=program.environment, capture_output=True, text=True, timeout=600, check=False,
    ).stdout  # fmt: skip
    failed = set(re.findall(r"^FAILED (\S+)", output, re.MULTILINE)) - UNSTEADY
    passed = re.search(r"(\d+) passed", output)
    print(f"  its own tests: {passed.group(1) if passed else 0} passed, {len(failed)} do not hold")
    allowed = set(DIFFERENT) if program.library is not None else set()
    if failed - allowed or not passed or int(passed.group(1)) < 180:
        raise Fault(f"the package's own tests fail: {sorted(failed - allowed)}\n{output[-3000:]}")
    for test in sorted(failed):
        print(f"    {test}: {DIFFERENT[test]}")
    store = program.place / "numbers"
    for _ in range(10):
        writer = subprocess.Popen([interpreter, "-c", PYTHON_WRITER, store], stdout=subprocess.PIPE,
                                  env=program.environment)  # fmt: skip
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(10)][-1]
        writer.kill()
        rest = writer.stdout.read().split()
        writer.wait()
        acknowledged = int(rest[-1]) if rest else acknowledged
        count = int(program.run(interpreter, "-c", PYTHON_READER, store))
        if not acknowledged <= count <= acknowledged + 1:
            raise Fault(f"{count} numbers are there, and {acknowledged} were acknowledged")


def main() -> int:
    ours = Path(sys.argv[1])
    header = Path(sys.argv[2])
    which = sys.argv[3]
    try:
        for name, library in (("Debian's liblmdb", None), ("ours", ours)):
            print(f"{which} on {name}", flush=True)
            with tempfile.TemporaryDirectory(prefix="holdfast-test-") as folder:
                place = Path(folder)
                program = Program(library, place)
                if which == "python":
                    # Built against the library that it runs on.
                    debian = Path("/usr/lib") / (os.uname().machine + "-linux-gnu")
                    system = Path("/usr/include")
                    if library is None and not (system / "lmdb.h").exists():
                        print("  not run: liblmdb-dev is not installed")
                        continue
                    package = python_package(header if library else system, library or debian, place)
                    python(program, package)
                else:
                    {"knot": knot, "postfix": postfix}[which](program, 15300 + os.getpid() % 1000)
    except Skipped as why:
        print(f"NOT TESTED HERE: {why}")
        return 0
    except Fault as fault:
        print(f"FAILED: {fault}")
        return 1
    print("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""mdb_stat, mdb_dump, mdb_load and mdb_copy of ours beside those of lmdb-utils.

    tools_test.py DIRECTORY_OF_OUR_TOOLS

The same inputs are loaded by both, into environments of each's own library; then every command must print the same,
but for numbers that belong to a library (pages, sizes of maps), and end with the same status.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HEADER = "VERSION=3\nformat={format}\n{fields}HEADER=END\n"
# Numbers that are a library's own.
OF_A_LIBRARY = re.compile(
    rb"(mapsize=|db_pagesize=|Map address: |Map size: |Page size: |Max pages: |Number of pages used: |Max readers: |"
    rb"Last transaction ID: |Tree depth: |Branch pages: |Leaf pages: |Overflow pages: |maxreaders=)[^\n]*"
)
DUMP_OF_A_DATABASE = re.compile(rb"( )[0-9a-f]{96}\n| (?:[^\\\n]|\\[0-9a-f]{2}){48}\n")


def items(count: int, data: str) -> str:
    return "".join(f" key{i}\n {data}{i}\n" for i in range(count))


INPUTS = {
    "plain": HEADER.format(format="print", fields="type=btree\n") + items(2000, "value\\0a\\ff") + "DATA=END\n",
    "empty": HEADER.format(format="print", fields="") + "DATA=END\n",
    "named": HEADER.format(format="print", fields="database=first\ndupsort=1\n")
    + " a\n 1\n a\n 2\n b\n 1\nDATA=END\n"
    # In the format of the first: the mdb_load of lmdb-utils reads all databases in that.
    + HEADER.format(format="print", fields="database=second\ndupsort=1\ndupfixed=1\nintegerkey=1\nintegerdup=1\n")
    + " abcdefgh\n 2222\n abcdefgh\n 1111\n \\ff\\00\\00\\00\\00\\00\\00\\00\n 1111\nDATA=END\n"
    + HEADER.format(format="print", fields="database=third\nreversekey=1\n") + " ab\n 1\n b\n 2\n a\n 3\nDATA=END\n",
    "large": HEADER.format(format="print", fields="mapsize=16777216\n") + f" a\n {'x' * 100000}\n b\n \nDATA=END\n",
}
BROKEN = {
    "no header": "garbage\n",
    "another version": "VERSION=2\nHEADER=END\n",
    "another format": HEADER.format(format="foreign", fields=""),
    "another type": HEADER.format(format="print", fields="type=hash\n"),
    "half an item": HEADER.format(format="print", fields="") + " key\n",
    "half a byte": HEADER.format(format="bytevalue", fields="") + " 6\n 61\nDATA=END\n",
}
COMMANDS = [
    "mdb_dump", "mdb_dump -p", "mdb_dump -a", "mdb_dump -pa", "mdb_dump -l", "mdb_dump -s first", "mdb_dump -ps second",
    "mdb_dump -s nowhere", "mdb_dump -a -s first", "mdb_dump -n", "mdb_stat", "mdb_stat -e", "mdb_stat -a",
    "mdb_stat -s first", "mdb_stat -s nowhere", "mdb_stat -ea", "mdb_stat -r", "mdb_stat -rr", "mdb_stat -x",
    "mdb_stat -a -s first",
]  # fmt: skip


class Tools:
    """The tools of one directory, and environments that they made."""

    def __init__(self, folder: Path, place: Path) -> None:
        self.folder = folder
        self.place = place
        place.mkdir()

    def run(self, command: str, path: Path, text: str = "") -> tuple[int, bytes]:
        name, *options = command.split()
        ended = subprocess.run(
            [self.folder / name, *options, path], input=text.encode(), capture_output=True, check=False, timeout=60
        )
        return ended.returncode, ended.stdout

    def load(self, name: str, text: str, options: str = "") -> int:
        path = self.place / name
        path.mkdir(exist_ok=True)
        return self.run(f"mdb_load {options}", path, text)[0]


def masked(output: bytes) -> bytes:
    return OF_A_LIBRARY.sub(rb"\1", DUMP_OF_A_DATABASE.sub(b" record of a database\n", output))


class Comparison:
    def __init__(self, ours: Tools, theirs: Tools) -> None:
        self.ours = ours
        self.theirs = theirs
        self.count = 0
        self.faults: list[str] = []

    def expect(self, what: str, ours: object, theirs: object) -> None:
        self.count += 1
        if ours != theirs:
            self.faults.append(f"{what}: ours {str(ours)[:1500]}\n   lmdb-utils {str(theirs)[:1500]}")

    def compare(self, command: str, name: str) -> None:
        answers = []
        for tools in (self.ours, self.theirs):
            status, output = tools.run(command, tools.place / name)
            # mdb_stat of lmdb-utils fails after printing the readers.
            answers.append((status if " -r" not in command else 0, masked(output)))
        self.expect(f"{command} of {name}", *answers)

    def loads(self, name: str, text: str, options: str = "") -> None:
        self.expect(f"mdb_load {options} of {name}", *(t.load(name, text, options) for t in (self.ours, self.theirs)))


def own_properties(ours: Tools, seen: Comparison) -> None:
    """What needs no peer: copies and dumps that come back."""
    for name in INPUTS:
        path = ours.place / name
        dump = "mdb_dump -a" if name == "named" else "mdb_dump"
        single_dump = dump.replace("mdb_dump", "mdb_dump -n")
        for how in ("", " -c"):
            copy = ours.place / f"copy of {name}{how}"
            copy.mkdir()
            ended = subprocess.run([ours.folder / "mdb_copy", *how.split(), path, copy], check=False)
            seen.expect(f"mdb_copy{how} of {name}", ended.returncode, 0)
            seen.expect(f"content of the copy{how} of {name}", ours.run(dump, copy), ours.run(dump, path))
            single = ours.place / f"single {name}{how}"
            single.write_bytes(ours.run(f"mdb_copy{how}", path)[1])
            seen.expect(f"copy{how} of {name} to standard output", ours.run(single_dump, single), ours.run(dump, path))
        for options in ("", " -p"):
            again = f"again {name}{options}"
            text = ours.run(dump + options, path)[1].decode()
            seen.expect(f"load of the dump of {name}", ours.load(again, text), 0)
            seen.expect(f"dump, load, dump of {name}", ours.run(dump, ours.place / again), ours.run(dump, path))
    for command in (f"mdb_copy '{ours.place / 'large'}' .", f"mdb_dump -f file '{ours.place / 'large'}'"):
        limited = f"ulimit -f 16; exec '{ours.folder.resolve()}'/{command}"
        empty = tempfile.mkdtemp(dir=ours.place)
        ended = subprocess.run(["sh", "-c", limited], cwd=empty, capture_output=True, check=False)
        seen.expect(f"{command} where files may not grow", (ended.returncode, bool(ended.stderr)), (1, True))
    escaped = HEADER.format(format="print", fields="") + " \\\\x\\00\n \\5c\\\\\nDATA=END\n"
    ours.load("escaped", escaped)
    seen.expect("escapes", ours.run("mdb_dump", ours.place / "escaped")[1].splitlines()[-3:],
                [b" 5c7800", b" 5c5c", b"DATA=END"])  # fmt: skip


def long_keys(ours: Tools, seen: Comparison) -> None:
    """Keys that LMDB does not have: loads, dumps and copies have them, an export refuses them."""
    keys = "".join(f" {'k' * size}{i}\n {i}\n" for size in (600, 3000, 65535) for i in range(5))
    loaded = ours.load("long", HEADER.format(format="print", fields="") + keys + "DATA=END\n")
    seen.expect("load of long keys", loaded, 0)
    path = ours.place / "long"
    status, dump = ours.run("mdb_dump -p", path)
    seen.expect("dump of long keys", (status, dump.count(b"k" * 65535)), (0, 5))
    seen.expect("load of its dump", ours.load("long again", dump.decode()), 0)
    seen.expect("dump of that", ours.run("mdb_dump -p", ours.place / "long again"), (0, dump))
    for how in ("", " -c"):
        copy = ours.place / f"copy of long{how}"
        copy.mkdir()
        ended = subprocess.run([ours.folder / "mdb_copy", *how.split(), path, copy], check=False)
        seen.expect(f"mdb_copy{how} of long keys", (ended.returncode, ours.run("mdb_dump -p", copy)), (0, (0, dump)))
    exported = ours.place / "exported"
    ended = subprocess.run([ours.folder / "holdfast", "export", path, exported], capture_output=True, check=False)
    said = b"a key of 601 bytes" in ended.stderr and b"LMDB 0.9" in ended.stderr
    seen.expect("export of long keys", (ended.returncode != 0, said, exported.exists()), (True, True, False))
    for store, version in (("long", 8), ("plain", 7)):
        ended = subprocess.run(
            [ours.folder / "holdfast", "info", "--json", ours.place / store], capture_output=True, check=False
        )
        seen.expect(f"version of {store}", json.loads(ended.stdout)["format_version"], version)


def holdfast_on_stores(ours: Tools, seen: Comparison) -> None:
    """`holdfast info`, `ls` and `check` of a store: a directory, a file, a damaged one."""

    def run(command: str, path: Path) -> tuple[int, dict[str, object]]:
        ended = subprocess.run([ours.folder / "holdfast", command, "--json", path], capture_output=True, check=False)
        return ended.returncode, json.loads(ended.stdout or b"{}")

    named = ours.place / "named"
    status, info = run("info", named)
    shown = {key: info.get(key) for key in ("kind", "databases", "entries")}
    seen.expect("holdfast info", (status, shown), (0, {"kind": "store", "databases": 4, "entries": 9}))
    status, listed = run("ls", named)
    shown = {one["name"]: (one["entries"], one["flags"]) for one in listed.get("databases", [])}
    expected = {
        None: (3, []),
        "first": (3, ["dupsort"]),
        "second": (3, ["dupsort", "integerkey", "dupfixed", "integerdup"]),
        "third": (3, ["reversekey"]),
    }
    seen.expect("holdfast ls", (status, shown == expected), (0, True))
    single = ours.place / "single file"
    single.write_bytes((ours.place / "plain" / "data.mdb").read_bytes())
    status, checked = run("check", single)
    seen.expect("holdfast check", (status, checked.get("sound"), checked.get("problems")), (0, True, []))
    content = bytearray(single.read_bytes())
    at = content.rindex(b"value")
    content[at] ^= 1
    single.write_bytes(content)
    status, checked = run("check", single)
    found = (status, checked.get("sound"), len(checked.get("problems", [])))
    seen.expect("holdfast check of damage", found, (1, False, 1))
    seen.expect("holdfast stats", run("stats", named), run("info", named))
    ended = subprocess.run([ours.folder / "holdfast", "defrag", named], capture_output=True, check=False)
    said = b"a store, not a heap: info, stats" in ended.stderr
    seen.expect("holdfast defrag of a store", (ended.returncode, said), (2, True))
    copied = ours.place / "copied by holdfast"
    ended = subprocess.run([ours.folder / "holdfast", "copy", named, copied], capture_output=True, check=False)
    seen.expect("holdfast copy", ended.returncode, 0)
    seen.expect("what holdfast copied", ours.run("mdb_dump -a", copied), ours.run("mdb_dump -a", named))


def main() -> int:
    utilities = shutil.which("mdb_stat")
    if utilities is None:
        print("NOT TESTED HERE: lmdb-utils is not installed")
        return 0
    with tempfile.TemporaryDirectory(prefix="holdfast-test-") as place:
        ours = Tools(Path(sys.argv[1]), Path(place) / "ours")
        theirs = Tools(Path(utilities).parent, Path(place) / "theirs")
        seen = Comparison(ours, theirs)
        for name, text in INPUTS.items():
            seen.loads(name, text)
            for command in COMMANDS:
                seen.compare(command, name)
        seen.loads("text", "one\n1\ntwo\n\\00\\ff\n", "-T")
        seen.loads("text", "one\n3\nthree\n3\n", "-T -N")
        seen.loads("text", "a\nb\n", "-T -s named")
        seen.compare("mdb_dump", "text")
        seen.compare("mdb_dump -s named", "text")
        for name, text in BROKEN.items():
            seen.expect(f"mdb_load of {name}", ours.load(name, text), 1)
        own_properties(ours, seen)
        long_keys(ours, seen)
        holdfast_on_stores(ours, seen)
    print(f"{seen.count} comparisons, {len(seen.faults)} differ")
    print("\n".join(seen.faults))
    return 1 if seen.faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""The command `holdfast` on heaps of Python: ls, get, dump, and damaged ones."""

import datetime
import decimal
import json
import os
import pathlib
import random
import subprocess
import uuid
import zoneinfo

import numpy
import pytest

import holdfast
from holdfast.__main__ import find_command

DAY = datetime.date(2026, 11, 27)


@pytest.fixture(scope="module")
def program():
    """The command: the one that is named, that of the build which the package lies in, or the installed one."""
    of_build = pathlib.Path(holdfast.__file__).parents[2] / "bin" / "holdfast"
    found = os.environ.get("HOLDFAST_COMMAND") or (str(of_build) if of_build.exists() else find_command())
    assert found is not None, "no command holdfast: build the target holdfast_cli, or name one in HOLDFAST_COMMAND"
    return found


@pytest.fixture
def command(program):
    """command(*arguments): what the command prints; its exit status is `status`."""

    def run(*arguments, status=0):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == status, (arguments, done)
        return done.stdout if status == 0 else done.stderr

    return run


@pytest.fixture
def filled(path):
    """A heap with values of all kinds."""
    with holdfast.open(path, segment_size=2 << 20) as heap:
        heap["words"] = {"a": 1, "b": [1.5, None, True, "text"], (1, "x"): b"\0\xff"}
        heap["c"] = numpy.arange(6, dtype="<i4").reshape(2, 3)
        heap["f"] = numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3))
        heap["s"] = numpy.zeros(3, [("a", "<f4"), ("b", "U5")])
        heap["empty"] = numpy.zeros((0, 4))
        heap[7] = 10**30
        heap["when"] = DAY
        heap["p"] = holdfast.pickled(1)
        heap["\x1b[31m" + "long" * 50] = "red"
    return path


def test_ls_shows_keys_types_and_sizes(filled, command):
    lines = command("ls", filled).splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line and "KEY" not in line}
    assert rows["words"] == ["dict", "3", "49"] and rows["c"] == ["<i4", "[2,", "3]", "24"]
    assert rows["f"] == ["<f8", "[2,", "3]", "48"] and rows["when"][0] == "datetime.date" and rows["7"][0] == "int"
    assert not any("\x1b" in line for line in lines) and any("long" * 50 in line and "\\x1b" in line for line in lines)
    assert "text" not in command("ls", filled) and "  b" not in command("ls", filled)
    deep = command("ls", filled, "--depth", "3")
    assert "\n  b " in deep and "\n    3 " in deep and "(1, 'x')" in deep
    told = json.loads(command("ls", filled, "--json", "--depth", "2"))["values"]
    by_path = {tuple(each["path"]): each for each in told}
    assert by_path["words", "b"]["length"] == 4 and by_path["c",]["shape"] == [2, 3]
    assert json.loads(command("ls", filled, "--json", "--depth", "0"))["values"] == []


def test_get_and_dump_print_values(filled, command):
    assert json.loads(command("get", filled, "words", "b")) == [1.5, None, True, "text"]
    assert json.loads(command("get", filled, "words", "b", "0")) == 1.5
    assert json.loads(command("get", filled, "words", "(1, 'x')")) == {"bytes": "00ff"}
    rows = [[0, 1, 2], [3, 4, 5]]
    assert json.loads(command("get", filled, "c")) == {"type": "<i4", "shape": [2, 3], "elements": rows}
    assert json.loads(command("get", filled, "f"))["elements"] == rows
    assert json.loads(command("get", filled, "s"))["bytes"] == 72
    assert json.loads(command("get", filled, "empty"))["elements"] == []
    assert int.from_bytes(bytes.fromhex(json.loads(command("get", filled, "7"))["integer"]), "little") == 10**30
    assert json.loads(command("get", filled, "when")) == {"type": "datetime.date", "value": str(DAY)}
    whole = dict(json.loads(command("dump", filled, "--json"))["entries"][:1])
    assert whole["words"]["entries"][0] == ["a", 1]
    assert "found nothing under" in command("get", filled, "nothing", "here", status=2)


def test_a_heap_that_python_has_not_written_says_so(path, command):
    assert "holdfast import" not in command("get", path, "x", status=2)


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_heap_is_an_error_and_no_crash(filled, program, tmp_path, seed):
    file = tmp_path / "heap.hf" / "segment.000000"
    sound = file.read_bytes()
    used = [at for at in range(0, len(sound), 8) if any(sound[at : at + 8])]
    marks = [at for at in used if sound[at + 4 : at + 8] == b"HFV1"]
    chance = random.Random(seed)
    for _ in range(4):
        content = bytearray(sound)
        for _ in range(2):
            at = chance.choice(marks) + 8 * chance.randrange(12)
            content[at : at + 8] = chance.choice([content[(o := chance.choice(used)) : o + 8], b"\xff" * 8, bytes(8)])
        file.write_bytes(content)
        for arguments in (["ls", filled, "--depth", "5"], ["dump", filled]):
            done = subprocess.run([program, *arguments], capture_output=True, timeout=60)
            assert done.returncode in (0, 2), (arguments, done)


def test_dates_durations_and_uuids_are_read_as_python_prints_them(path, command):
    hour, behind = (datetime.timezone(datetime.timedelta(minutes=each)) for each in (60, -90))
    moment = datetime.datetime(2026, 3, 4, 5, 6, 7, 8)
    known = {
        "moment": (moment, moment.isoformat()),
        "whole": (datetime.datetime(1, 1, 1), "0001-01-01T00:00:00"),
        "last": (datetime.datetime.max, datetime.datetime.max.isoformat()),
        "again": (moment.replace(fold=1), moment.isoformat()),
        "with offset": (moment.replace(tzinfo=hour), moment.isoformat() + "+01:00"),
        "behind": (moment.replace(tzinfo=behind), moment.isoformat() + "-01:30"),
        "in a zone": (moment.replace(tzinfo=zoneinfo.ZoneInfo("Asia/Tokyo")), moment.isoformat() + "[Asia/Tokyo]"),
        "clock": (datetime.time(23, 59, 59, 1), "23:59:59.000001"),
        "leap day": (datetime.date(2024, 2, 29), "2024-02-29"),
        "uuid": (uuid.UUID(int=7 << 120), str(uuid.UUID(int=7 << 120))),
        "decimal": (decimal.Decimal("1.10"), "1.10"),
    }
    for days, seconds in ((0, 0), (1, 2), (-1, 5), (400, 86399), (0, 36000)):
        duration = datetime.timedelta(days, seconds, 3)
        known[str(duration)] = (duration, str(duration))
    with holdfast.open(path) as heap:
        heap.update({name: value for name, (value, _) in known.items()})
        heap[DAY] = "by a date"
    for name, (value, text) in known.items():
        assert json.loads(command("get", path, name))["value"] == text, (name, value)
    listed = command("ls", path)
    assert all(text in listed for _, text in known.values())
    assert json.loads(command("get", path, f"datetime.date({DAY})")) == "by a date"


def test_frames_are_read_as_their_columns(path, command):
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    table = arrow.table(
        {
            "n": arrow.array([1, 2, None], "uint16"),
            "x": arrow.array([1.0, 2.0, 3.0]),
            "text": ["a", "b", None],
            "at": arrow.array([1, 2, 3], arrow.timestamp("us", "UTC")),
            "day": arrow.array([1, 2, 3], arrow.date32()),
            "list": [[1], [], None],
            "of few": arrow.array(["u", "v", "u"]).dictionary_encode(),
        }
    )
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    with holdfast.open(path) as heap:
        heap["t"], heap["f"], heap["s"] = table, frame, frame["a"]
        heap["chunks"] = arrow.chunked_array([[1, 2], [3]])
    found = json.loads(command("get", path, "t"))
    columns = {each["name"]: each["type"] for each in found["columns"]}
    plain = {name: str(table.schema.field(name).type) for name in ("n", "x", "text", "at", "day")}
    assert columns == plain | {"list": "list", "of few": "dictionary<string>"} and found["rows"] == 3
    assert found["type"] == "pyarrow.Table" and found["bytes"] > 0
    found = json.loads(command("get", path, "f"))
    assert [each["name"] for each in found["columns"]] == ["a", "b"] and found["rows"] == 2
    assert json.loads(command("get", path, "s"))["rows"] == 2
    assert json.loads(command("get", path, "chunks"))["rows"] == 3
    assert "[3, 7]" in command("ls", path)


def test_frames_that_are_damaged_are_no_crash(path, program):
    arrow = pytest.importorskip("pyarrow")
    with holdfast.open(path, segment_size=2 << 20) as heap:
        heap["t"] = arrow.table({"zebra": [1, 2, 3], "b": ["x", "y", "z"]})
    file = pathlib.Path(path, "segment.000000")
    sound = file.read_bytes()
    at = sound.find(b"zebra")
    assert at > 300
    chance = random.Random(1)
    said = []
    for _ in range(60):
        broken = bytearray(sound)
        for _ in range(chance.randrange(1, 4)):
            broken[at + chance.randrange(-200, 200)] = chance.randrange(256)
        file.write_bytes(broken)
        done = subprocess.run([program, "get", path, "t"], capture_output=True, timeout=60)
        assert done.returncode in (0, 2), done
        said.append(done.stdout)
    assert any(b"columns" in each for each in said) and any(b"elements" in each for each in said)

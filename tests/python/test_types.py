"""Values of other types: dates, sets, dataclasses, members of an Enum; and tables of pandas, pyarrow and polars."""

import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import copy
import math
import struct
import uuid
import zoneinfo

import numpy
import pytest

import holdfast
from conftest import run_python


@dataclasses.dataclass
class Point:
    """A dataclass with a default and a field that is no argument."""

    x: float
    y: float = 2.0
    names: list = dataclasses.field(default_factory=list)
    made: int = dataclasses.field(default=7, init=False)

    def __post_init__(self):
        assert not reading, "reading runs no code of the class"


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    """A dataclass without a dict."""

    point: Point
    when: datetime.date


class Color(enum.Enum):
    """An Enum whose values no heap keeps."""

    RED = object()
    BLUE = object()
    AZURE = BLUE


class Level(enum.IntEnum):
    """An Enum that is an int."""

    LOW = 1
    HIGH = 2


class Right(enum.Flag):
    """An Enum with combined members."""

    READ = 1
    WRITE = 2


reading = False
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin") if "Europe/Berlin" in zoneinfo.available_timezones() else None
VALUES = [
    datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.datetime.min, datetime.datetime.max,
    datetime.datetime(2026, 11, 27, 1, 2, 3, 456789), datetime.datetime(2026, 10, 25, 2, 30, fold=1),
    datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
    datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=-3, seconds=1), "here")),
    *([datetime.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN)] if BERLIN else []),
    datetime.time(23, 59, 59, 999999), datetime.time(1, fold=1), datetime.timedelta.min, datetime.timedelta.max,
    datetime.timedelta(microseconds=-1), uuid.UUID(int=2**127 + 1), decimal.Decimal("1.10"), decimal.Decimal("-0"),
    decimal.Decimal("Infinity"), decimal.Decimal("1e1000"), fractions.Fraction(-1, 3), 1j, complex(-0.0, math.inf),
    set(), {1, "a", (2, frozenset({3}))}, frozenset({datetime.date(2026, 1, 1)}), Color.RED, Color.AZURE, Level.HIGH,
    Right.READ | Right.WRITE, Right(0), Point(1.5), Frozen(Point(1, 2, ["a", {"b": [1]}]), datetime.date(2026, 1, 2)),
]  # fmt: skip


def test_values_are_read_as_they_were_stored(open_heap):
    global reading
    with open_heap() as heap:
        heap["all"] = VALUES
        heap.update(enumerate(VALUES))
        heap["tuple"] = tuple(VALUES[:5])
    reading = True
    try:
        with open_heap(mode="w") as heap:
            for number, value in enumerate(VALUES):
                for found in (heap[number], heap["all"][number], holdfast.to_python(heap)[number]):
                    assert type(found) is type(value) and found == value
                    assert repr(found) == repr(value) or "{" in repr(value)  # of a set, in any order
                    assert getattr(found, "fold", 0) == getattr(value, "fold", 0)
                    assert str(getattr(found, "tzinfo", "")) == str(getattr(value, "tzinfo", ""))
            assert heap["tuple"] == tuple(VALUES[:5])
            assert heap["all"].to_python() == VALUES
            assert heap.check() == []
            before = heap.statistics()["allocated"]
            heap["more"] = VALUES
            del heap["more"]
            assert heap.statistics()["allocated"] == before
    finally:
        reading = False


def test_what_is_read_of_them_is_a_copy(heap):
    heap["p"] = Point(1, 2, [1])
    found = heap["p"]
    found.names.append(2)
    found.x = 5
    assert heap["p"] == Point(1, 2, [1])
    heap["p"] = found
    assert heap["p"] == Point(5, 2, [1, 2])


def test_an_array_of_a_dataclass_is_the_one_in_the_heap(heap):
    heap["p"] = Point(numpy.arange(1000.0), 2)
    heap["p"].x[3] = -1
    assert heap["p"].x[3] == -1 and numpy.shares_memory(heap["p"].x, heap["p"].x)
    array = heap["p"].x
    del heap["p"]
    heap["other"] = numpy.zeros(1000)
    assert array[3] == -1
    with heap.transaction():
        heap["q"] = Point(numpy.zeros(10))
        assert not heap["q"].x.flags.writeable  # a copy until the block ends


KEYS = [
    datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2), datetime.timedelta(days=1), uuid.UUID(int=5),
    (datetime.date(2026, 1, 2), uuid.UUID(int=6)),
]  # fmt: skip


def test_dates_and_uuids_are_keys(open_heap):
    with open_heap() as heap:
        heap["d"] = {key: number for number, key in enumerate(KEYS)}
        heap["many"] = {datetime.date(2026, 1, 1) + datetime.timedelta(days=n): n for n in range(300)}
    with open_heap(mode="w") as heap:
        assert heap["d"] == {key: number for number, key in enumerate(KEYS)}
        assert [heap["d"][key] for key in KEYS] == [0, 1, 2, 3, 4]
        assert heap["many"][datetime.date(2026, 3, 1)] == 59
        assert heap["d"].popitem() == (KEYS[-1], 4)
        del heap["d"][KEYS[0]]
        assert KEYS[0] not in heap["d"] and KEYS[1] in heap["d"]


@pytest.mark.parametrize(
    "key", [decimal.Decimal(1), 1j, frozenset({1}), Level.LOW, Color.RED, Frozen(Point(1), datetime.date.min),
            datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)], ids=lambda key: type(key).__name__
)  # fmt: skip
def test_keys_that_equal_values_of_other_types_are_refused(heap, key):
    with pytest.raises(TypeError):
        heap[key] = 1
    with pytest.raises(TypeError):
        heap[(1, key)] = 1
    assert heap == {}


def test_a_class_that_cannot_be_found_again_is_refused(heap):
    @dataclasses.dataclass
    class Local:
        """In no module."""

        x: int = 1

    for value in (Local(), enum.Enum("Made", "A B").A, datetime.datetime(2026, 1, 1, tzinfo=Zone())):
        with pytest.raises(TypeError):
            heap["x"] = value
    assert heap == {}


class Zone(datetime.tzinfo):
    """A timezone of a library."""

    def utcoffset(self, when):
        return datetime.timedelta(0)


WRITER = """
import dataclasses, enum, holdfast, sys
@dataclasses.dataclass
class A:
    x: int = 1
    y: int = 2
class E(enum.Enum):
    P = 1
    Q = 2
with holdfast.open(sys.argv[1]) as heap:
    heap["a"], heap["e"] = A(), E.Q
"""


def test_a_class_that_has_changed_is_an_error_that_says_so(path):
    run_python(WRITER, path)
    for changed, name, told in (
        ("", "a", ""),
        ("import holdfast as A", "a", "that the module has no more"),
        ("class A: pass", "a", "is none any more"),
        ("@dataclasses.dataclass\nclass A:\n    x: int", "a", "'y', which the class has not"),
        ("@dataclasses.dataclass\nclass A:\n    x: int\n    y: int\n    z: int", "a", "no 'z'"),
        ("@dataclasses.dataclass\nclass A:\n    x: int\n    y: int\n    z: int = 5", "a", ""),
        ("import enum\nclass E(enum.Enum):\n    P = 1", "e", "which the class has no more"),
    ):
        done = run_python(
            f"import dataclasses, holdfast, sys\n{changed or WRITER[WRITER.index('@'):WRITER.index('class E')]}\n"
            "with holdfast.open(sys.argv[1], mode='r') as heap:\n"
            f"    try: print(heap[{name!r}])\n    except TypeError as failure: print(failure)",
            path,
        )
        assert told in done.stdout and (told or "A(x=1, y=2" in done.stdout), (changed, done.stdout)
    done = run_python(
        "import holdfast, sys; del sys.modules['__main__']; holdfast.open(sys.argv[1], mode='r')['e']",
        path,
        check=False,
    )
    assert "import __main__ before" in done.stderr


def test_a_heap_cannot_name_code_that_runs(heap):
    from holdfast._extended import restore

    for name, content in (
        ("dataclass", ("subprocess", "Popen", {"args": ["true"]})), ("dataclass", ("os", "system", {})),
        ("enum", ("builtins", "eval", "1")), ("enum", ("subprocess", "Popen", ["true"])), ("os.system", "true"),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            restore(name, content)


@pytest.mark.parametrize(
    "name,content",
    [("datetime.date", 0), ("datetime.date", "x"), ("datetime.datetime", 2**80), ("datetime.datetime", (1, 2, 3, 4, 5)),
     ("datetime.datetime", (1, 0, "../../etc/passwd")), ("datetime.timedelta", 2**90), ("uuid.UUID", b"x"),
     ("decimal.Decimal", "x"), ("fractions.Fraction", (1, 0)), ("builtins.set", 5), ("builtins.complex", (1,)),
     ("numpy.generic", 1), ("dataclass", 1), ("dataclass", (1, 2, 3)), ("enum", ("x",)), ("builtins.set", ({},))],
)  # fmt: skip
def test_content_that_makes_no_sense_is_a_corrupt_heap(name, content):
    from holdfast._extended import restore

    with pytest.raises(holdfast.CorruptError):
        restore(name, content)


def test_an_extended_value_lies_as_the_page_says(path, tmp_path):
    """The layout on media: docs/python.md."""
    day = datetime.date(2026, 11, 27)
    with holdfast.open(path, segment_size=2 << 20) as heap:
        heap["x"] = day
    content = (tmp_path / "heap.hf" / "segment.000000").read_bytes()

    def words(place, count):
        return struct.unpack_from(f"<{count}Q", content, place)

    def target(place):
        return place + (words(place, 1)[0] & ((1 << 48) - 1)) - (1 << 47)

    tag = (14).to_bytes(4, "little") + b"HFV1"
    (place,) = (at for at in range(0, len(content), 8) if content[at : at + 8] == tag)
    size, capacity = words(place + 8, 2)
    assert size == 2 and capacity >= 2
    name, value = target(place + 24), target(place + 24) + 24
    assert words(name, 2) == (4, 0) and words(value, 2) == (2, day.toordinal())
    blob = target(name + 16)
    assert content[blob : blob + 16] == (4).to_bytes(4, "little") + b"HFV1" + (13).to_bytes(8, "little")
    assert content[blob + 16 : blob + 29] == b"datetime.date"


def test_json_has_all_of_it(heap):
    heap["d"] = {"a": [1, {"b": (2.5, None)}], "x": numpy.arange(3), "n": numpy.datetime64("2026-01-01"), "s": {1},
                 "t": datetime.date(2026, 1, 2), "p": Point(1), "e": Level.LOW, "u": uuid.UUID(int=1)}  # fmt: skip
    text = json.dumps(heap, default=holdfast.jsonable)
    assert json.loads(text) == {
        "d": {"a": [1, {"b": [2.5, None]}], "x": [0, 1, 2], "n": "2026-01-01", "s": [1], "t": "2026-01-02",
              "p": {"x": 1, "y": 2.0, "names": [], "made": 7}, "e": 1, "u": str(uuid.UUID(int=1))}
    }  # fmt: skip
    with pytest.raises(TypeError):
        json.dumps([object()], default=holdfast.jsonable)


def test_lists_and_dicts_are_added_and_copied_as_python_s_are(heap):
    heap["l"] = [1, [2]]
    heap["d"] = {"a": [1]}
    assert heap["l"] + [3] == [1, [2], 3] and [0] + heap["l"] == [0, 1, [2]]
    assert heap["l"] + heap["l"] == [1, [2], 1, [2]] and type(heap["l"] + heap["l"]) is list
    assert heap["l"] * 2 == 2 * heap["l"] == [1, [2], 1, [2]]
    with pytest.raises(TypeError):
        heap["l"] + (1,)
    for copied in (copy.copy, copy.deepcopy):
        assert copied(heap["l"]) == [1, [2]] and type(copied(heap["l"])) is list
        assert copied(heap["d"]) == {"a": [1]} and type(copied(heap["d"])) is dict
        assert copied(heap) == heap.to_python()


def test_what_is_shown_of_a_large_value_is_bounded(heap):
    heap["d"] = {str(i): {"x": "y" * 10**6, "l": [list(range(1000))] * 30, "<i>": 1} for i in range(100)}
    heap["a"] = numpy.zeros((1000, 1000))
    for shown in (repr(heap["d"]), repr(heap["d"]["0"]["l"]), repr({"in": heap["d"]})):
        assert len(shown) < 20_000 and "..." in shown
    assert repr(heap["d"]["0"]["l"][0][:0]) == "[]"
    for page in (heap._repr_html_(), heap["d"]._repr_html_(), heap["d"]["0"]["l"]._repr_html_()):
        assert len(page) < 200_000 and "more" in page and "<i>" not in page
        assert page.count("<ul>") == page.count("</ul>")
    assert "8,000,000 bytes" in heap._repr_html_() and "Dict of 100" in heap._repr_html_()
    heap["s"] = {"short": [1, (2,), "three", None]}
    assert repr(heap["s"]) == "Dict({'short': List([1, (2,), 'three', None])})"


def test_a_heap_gives_space_back_and_tells_of_itself(path):
    with holdfast.open(path, segment_size=2 << 20) as heap:
        heap["x"] = numpy.ones(2_000_000)
        heap.commit()
        del heap["x"]
        told = heap.shrink()
        assert told["charged_after"] < told["charged_before"] - 10_000_000
        numbers = heap.statistics()
        assert numbers["commits"] > 0 and numbers["charged_bytes"] == told["charged_after"]
        assert numbers["size"] > numbers["allocated"] > 0 and numbers["arrays_held"] == 0
        with heap.transaction(), pytest.raises(holdfast.ClosedError):
            heap.shrink()
    with holdfast.open(path, mode="r") as heap, pytest.raises(holdfast.ReadOnlyError):
        heap.shrink()

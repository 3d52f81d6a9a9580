"""Dicts, lists and plain values: what is stored is what is read, in this process and the next."""

import math
import random

import numpy
import pytest

import holdfast
from conftest import run_python

PLAIN = [
    None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 10**50, -(10**50), 0.0, -0.5, 1e308,
    math.inf, "", "text", "\u00e9\U0001f600", "\0", b"", b"\0\xff", (), (1, ("a", None), 2.5), [], [1, [2, [3]]],
    {}, {"a": {"b": [1, {"c": ()}]}}, "x" * 100_000, b"y" * 100_000,
]  # fmt: skip


def test_values_are_read_as_they_were_stored(open_heap):
    with open_heap() as heap:
        for number, value in enumerate(PLAIN):
            heap[number] = value
        heap["nan"] = math.nan
    with open_heap() as heap:
        for number, value in enumerate(PLAIN):
            found = heap[number]
            assert holdfast.to_python(found) == value
            assert type(holdfast.to_python(found)) is type(value)
        assert math.isnan(heap["nan"])
        assert heap.check() == []


def test_keys_that_python_holds_for_equal_are_one_key(heap):
    heap[1] = "one"
    assert heap[True] == heap[1.0] == "one"
    heap[1.0] = "float"
    heap[(0.0, (True,))] = "tuple"
    assert heap[(False, (1,))] == "tuple"
    heap[2.0**70] = "big"
    assert heap[2**70] == "big"
    assert [*heap] == [1, (0, (1,)), 2**70]
    heap["1"] = heap[b"1"] = heap[None] = 0
    assert len(heap) == 6


@pytest.mark.parametrize("key", [[], {}, ([],), bytearray, object()])
def test_keys_of_other_types_are_refused(heap, key):
    with pytest.raises(TypeError):
        heap[key] = 1
    assert len(heap) == 0


@pytest.mark.parametrize("value", [object(), lambda: 0, ValueError(), range(3)])
def test_values_of_other_types_are_refused_and_change_nothing(heap, value):
    with pytest.raises(TypeError, match="holdfast.pickled"):
        heap["x"] = [1, value]
    assert "x" not in heap


def test_a_dict_that_loses_its_entries_while_it_is_stored_is_no_crash(path):
    run_python(
        """
import gc, sys, numpy, holdfast

class Key(numpy.int64):
    def item(self):
        stored.clear()
        gc.collect()
        taken.extend([index] * 1000 for index in range(100))
        return 1

taken = []
stored = {Key(1): list(range(1000))}
with holdfast.open(sys.argv[1]) as heap:
    heap["x"] = stored
    assert heap["x"].to_python() == {1: list(range(1000))}
""",
        path,
    )


def test_a_key_that_is_not_there_is_in_the_error(heap):
    for key in ("x", (1, 2), ((1,),)):
        with pytest.raises(KeyError) as failure:
            del heap[key]
        assert failure.value.args == (key,)


def test_objects_are_pickled_where_that_is_asked_for(heap):
    heap["x"] = holdfast.pickled({1, 2j})
    assert isinstance(heap["x"], holdfast.PickledValue)
    assert heap["x"].load() == {1, 2j}


def test_a_value_without_end_is_refused(heap):
    endless = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        heap["x"] = endless
    assert "x" not in heap


def test_a_value_may_grow_deeper_than_any_that_is_stored_at_once(heap):
    heap["x"] = []
    at = heap["x"]
    for _ in range(2000):
        at.append([])
        at = at[0]
    del at
    with pytest.raises(holdfast.Error, match="500 levels"):
        heap["x"].to_python()
    before = heap.statistics()["allocated"]
    del heap["x"]
    heap["y"] = 1
    assert heap.statistics()["allocated"] < before


def test_values_are_copied_into_the_heap(heap):
    mine = {"a": [1]}
    heap["x"] = mine
    mine["a"].append(2)
    heap["y"] = heap["x"]
    heap["x"]["a"].append(3)
    assert (heap["x"], heap["y"]) == ({"a": [1, 3]}, {"a": [1]})
    heap["x"]["self"] = heap["x"]
    assert heap["x"] == {"a": [1, 3], "self": {"a": [1, 3]}}


@pytest.mark.parametrize("seed", range(3))
def test_a_dict_does_what_python_s_does(open_heap, seed):
    chance = random.Random(seed)
    model = {}
    with open_heap() as heap:
        heap["x"] = {}
        for _ in range(4):
            mine = heap["x"]
            for _ in range(600):
                key = chance.choice([chance.randrange(300), str(chance.randrange(300)), (chance.randrange(9),) * 2])
                if chance.random() < 0.6:
                    mine[key] = model[key] = chance.randrange(10**6)
                elif key in model:
                    assert mine.pop(key) == model.pop(key)
                else:
                    assert key not in mine
            assert list(mine.items()) == list(model.items())
            assert list(reversed(mine.keys())) == list(reversed(model.keys()))
            while len(model) > 20:
                assert mine.popitem() == model.popitem()
        heap["x"].clear()
        assert len(heap["x"]) == 0
        heap["x"]["again"] = 1
    with open_heap(mode="w") as heap:
        assert heap == {"x": {"again": 1}}
        assert heap.check() == []


@pytest.mark.parametrize("seed", range(3))
def test_a_list_does_what_python_s_does(heap, seed):
    chance = random.Random(seed)
    heap["x"] = model = [1, 2, 3]
    mine = heap["x"]
    for step in range(600):
        begin, end = chance.randrange(-5, len(model) + 5), chance.randrange(-5, len(model) + 5)
        values = [chance.randrange(100) for _ in range(chance.randrange(4))]
        action = chance.randrange(8)
        if action == 0:
            mine.insert(begin, step), model.insert(begin, step)
        elif action == 1:
            mine.append(step), model.append(step)
        elif action == 2:
            mine.extend(values), model.extend(values)
        elif action == 3:
            mine[begin:end] = model[begin:end] = values
        elif action == 4 and chance.random() < 0.5:
            del mine[begin:end], model[begin:end]
        elif action == 5 and model:
            assert mine.pop() == model.pop()
        elif action == 6:
            del mine[begin:end:3], model[begin:end:3]
        elif action == 7 and model:
            mine[-1] = model[-1] = "last"
        assert mine == model and len(mine) == len(model)
        assert mine[begin:end] == model[begin:end]
    for wrong in (len(model), -len(model) - 1):
        with pytest.raises(IndexError):
            mine[wrong]
    heap["n"] = [3, 1, 2]
    heap["n"].sort()
    heap["n"].reverse()
    assert heap["n"] == [3, 2, 1]


def test_a_dict_that_changes_under_an_iteration_says_so(heap):
    heap.update({str(i): i for i in range(20)})
    with pytest.raises(RuntimeError):
        for key in heap:
            del heap[key]
    for key in heap:
        heap[key] = 0  # the keys stay


def test_what_was_removed_stays_for_those_who_hold_it(open_heap):
    with open_heap() as heap:
        heap["x"] = {"a": [1, {"b": 2}]}
        inner = heap["x"]["a"][1]
        del heap["x"]
        heap["y"] = [0] * 100
        inner["c"] = 3
        assert inner == {"b": 2, "c": 3}
        held = heap.statistics()["allocated"]
        del inner
        heap.commit()
        assert heap.statistics()["allocated"] < held


def test_no_block_is_lost(open_heap):
    with open_heap() as heap:
        heap["x"] = 1
        before = heap.statistics()["allocated"]
        for _ in range(3):
            heap["d"] = {i: [str(i) * 10, {"t": (1, b"2")}] for i in range(100)}
            heap["d"].update({-1 - i: i for i in range(100)})
            heap["l"] = [list(range(50))] * 10
            heap["l"][2:5] = ["a"] * 40
            heap["d"].clear()
            del heap["d"], heap["l"]
        assert heap.statistics()["allocated"] == before


def test_an_index_that_is_no_whole_number_is_a_type_error(heap):
    heap["l"] = [1, 2, 3]
    found = heap["l"]
    for index in ("a", 1.5, (1,)):
        for call in (found.__getitem__, found.__delitem__, found.pop):
            with pytest.raises(TypeError):
                call(index)
        for call in (found.__setitem__, found.insert):
            with pytest.raises(TypeError):
                call(index, 1)
    assert found == [1, 2, 3] and found[numpy.int8(-1)] == 3 and found[True] == 2

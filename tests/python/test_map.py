"""Heap.map(): what the space of a heap is used for."""

import numpy
import pytest

import holdfast


def by_kind(heap):
    """The bytes of each kind."""
    found = heap.map()
    return {kind: int(found["bytes"][found["kind"] == kind].sum()) for kind in set(found["kind"].tolist())}


def test_the_extents_cover_the_heap_and_show_what_is_stored(heap):
    heap["d"] = {number: str(number) * 10 for number in range(1000)}
    before = by_kind(heap)
    heap["a"] = numpy.ones(1 << 20, "u1")
    found = heap.map()
    assert found["offset"][0] == 0 and found["kind"][0] == "roots"
    assert (found["offset"][1:] == found["offset"][:-1] + found["bytes"][:-1]).all()
    assert found["bytes"].sum() == heap.statistics()["size"]
    assert set(found["kind"].tolist()) <= {"free", "block", "slab", "roots", "reserved"}
    assert (1 << 20) <= by_kind(heap)["block"] - before.get("block", 0) < (1 << 20) + 65536
    slabs = found[found["kind"] == "slab"]
    assert slabs["live_blocks"].sum() >= 1000 and (slabs["live_blocks"] <= slabs["blocks"]).all()
    assert (slabs["block_size"] * slabs["blocks"] <= slabs["bytes"]).all()
    assert (found["backed_bytes"] <= found["bytes"]).all()
    with heap.transaction():
        del heap["a"]
        assert heap.map()["bytes"].sum() == heap.statistics()["size"]


def test_a_reader_sees_it_and_a_closed_heap_has_none(path):
    with holdfast.open(path) as heap:
        heap["a"] = numpy.ones(100_000)
        heap.commit()
        with holdfast.open(path, "r") as reader:
            assert by_kind(reader)["block"] >= 800_000
    with pytest.raises(holdfast.ClosedError):
        heap.map()

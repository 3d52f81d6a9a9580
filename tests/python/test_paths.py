"""Paths in every form that Python has: text, bytes, objects of pathlib."""

import os
import pathlib

import pytest

import holdfast


@pytest.mark.parametrize("form", [str, os.fsencode, pathlib.Path])
def test_a_path_is_text_bytes_or_an_object_of_pathlib(tmp_path, form):
    heap_path, copy, store_path, store_copy, cache_path = (
        form(str(tmp_path / name)) for name in ("h\u00e9.hf", "copy.hf", "s.store", "copy.store", "c.cache")
    )
    with holdfast.open(heap_path) as heap:
        heap["x"] = 1
        heap.snapshot(copy)
        with pytest.raises(holdfast.LockedError):
            holdfast.open(heap_path)
    with holdfast.open(copy, "r") as heap:
        assert heap == {"x": 1}
    with holdfast.Store(store_path) as store:
        store[b"x"] = b"1"
        store.copy(store_copy)
    with holdfast.Store(store_copy, "r") as store:
        assert dict(store) == {b"x": b"1"}
    with holdfast.Cache(cache_path) as cache:
        cache["x"] = 1
    with holdfast.Cache(cache_path) as cache:
        assert cache["x"] == 1


def test_what_is_no_path_is_refused():
    for wanted in (None, 1, 1.5, ["x"]):
        for call in (holdfast.open, holdfast.Store, holdfast.Cache):
            with pytest.raises(TypeError):
                call(wanted)


def test_a_path_with_a_zero_is_refused(tmp_path):
    for call in (holdfast.open, holdfast.Store, holdfast.Cache):
        with pytest.raises(ValueError):
            call(f"{tmp_path}/a\0b")

"""Graphs of vectors, built and searched by usearch, and exact distances by numpy.

usearch writes a graph into bytes, and reads one where it lies: these bytes are an array of a heap. A graph does not
change; it covers the rows from `first` to `end`.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any, NamedTuple, Union

import numpy

from . import _core

Array = numpy.ndarray[Any, Any]

METRICS = ("cos", "l2sq", "ip")
_BYTES = {"f16": 2, "f32": 4, "i8": 1}  # of a number, by precision
_HEAD_AT = 8  # in a graph without vectors
_AT_ONCE = 1 << 13  # vectors


def usearch() -> Any:
    """The module usearch.index."""
    try:
        return importlib.import_module("usearch.index")
    except ImportError as failure:
        raise ModuleNotFoundError(
            f"holdfast.VectorIndex needs the package usearch: `pip install usearch` ({failure})", name="usearch"
        ) from None


def _lengths(vectors: Array) -> Array:
    found: Array = numpy.sqrt(numpy.einsum("ij,ij->i", vectors, vectors))
    return found


def scaled(vectors: Array, metric: str) -> Array:
    """The vectors as a graph has them: of length 1 for "cos", so that half precision has room for them."""
    plain = numpy.asarray(vectors, "f4")
    if metric != "cos":
        return plain
    lengths = _lengths(plain)[:, None]
    made: Array = plain / numpy.where(lengths == 0, 1, lengths)
    return made


def _in_bytes(vectors: Array, metric: str) -> Array:
    """The vectors as a graph of the precision "i8" has them. Where lengths do not count, all the room is used."""
    if vectors.dtype == numpy.int8:
        return vectors
    plain = numpy.asarray(vectors, "f4")
    if metric != "l2sq":
        greatest = numpy.abs(plain).max(axis=1, keepdims=True)
        plain = plain * (127 / numpy.where(greatest == 0, 1, greatest))
    made: Array = numpy.clip(numpy.rint(plain), -127, 127).astype("i1")
    return made


def distances(query: Array, vectors: Array, metric: str) -> Array:
    """Of the query to each of the vectors, as usearch defines them."""
    if len(vectors) > _AT_ONCE:  # so that what is computed on the way stays in the caches
        parts = [distances(query, vectors[at : at + _AT_ONCE], metric) for at in range(0, len(vectors), _AT_ONCE)]
        return numpy.concatenate(parts)
    plain = numpy.asarray(vectors, "f4" if vectors.dtype.itemsize < 4 else vectors.dtype)
    query = query.astype(plain.dtype, copy=False)
    if metric == "l2sq":
        apart = plain - query
        found: Array = numpy.einsum("ij,ij->i", apart, apart)
        return found
    products: Array = plain @ query
    if metric == "ip":
        return 1 - products
    lengths = _lengths(plain) * numpy.linalg.norm(query)
    return 1 - products / numpy.where(lengths == 0, 1, lengths)


class Settings(NamedTuple):
    """What a graph is built with."""

    dimensions: int
    metric: str
    connectivity: int
    precision: str

    def are_known(self) -> bool:
        """Whether usearch can have made a graph with them."""
        return (
            all(isinstance(each, int) for each in (self.dimensions, self.connectivity))
            and self.dimensions >= 1
            and 2 <= self.connectivity <= 1024
            and self.metric in METRICS
            and self.precision in _BYTES
        )

    def empty(self) -> Any:
        """An index of usearch without vectors."""
        return usearch().Index(
            ndim=self.dimensions,
            metric=self.metric,
            dtype=self.precision,
            connectivity=self.connectivity,
            enable_key_lookups=False,
        )

    def prepared(self, vectors: Array) -> Array:
        """The vectors as usearch takes them."""
        return _in_bytes(vectors, self.metric) if self.precision == "i8" else scaled(vectors, self.metric)

    def build(self, vectors: Array, first: int) -> Array:
        """The bytes of a graph of the vectors, which are rows from `first` on."""
        index = self.empty()
        index.add(numpy.arange(first, first + len(vectors), dtype="u8"), self.prepared(vectors))
        return numpy.frombuffer(index.save(), "u1")


class Graph:
    """A graph that is searched where it lies."""

    def __init__(self, settings: Settings, first: int, end: int, memory: Array) -> None:
        self.first, self.end = first, end
        self.memory = memory  # usearch keeps its address
        self._settings = settings
        self._index = settings.empty()
        self._lock = threading.Lock()
        fault = self._fault()
        if fault is not None:
            raise ValueError(f"its graph of the rows {first} to {end} has {fault}")
        self._index.view(memory)

    def _fault(self) -> Union[str, None]:
        """Of what usearch will follow without a look."""
        memory = self.memory
        if memory.dtype != numpy.uint8 or memory.ndim != 1 or not memory.flags.c_contiguous:
            return "another type than u1, or more than one dimension"
        head = bytes(self._index.save())[_HEAD_AT:]
        width = _BYTES[self._settings.precision] * self._settings.dimensions
        at = memory.__array_interface__["data"][0]
        return _core.check_graph(at, memory.size, head, width, self._settings.connectivity, self.first, self.end)

    def is_at(self, first: int, end: int, memory: Array) -> bool:
        """Whether it is this graph that lies there, if what lies there has not changed."""
        place = memory.__array_interface__["data"][0]
        return (self.first, self.end, self.memory.__array_interface__["data"][0]) == (first, end, place)

    def search(self, queries: Array, count: int, effort: int) -> list[Array]:
        """For each of the queries, rows that are near, at most `count`."""
        wanted = min(count, self.end - self.first)
        near = self._settings.prepared(queries)
        with self._lock:  # the search uses memory of the index
            self._index.expansion_search = max(effort, wanted)
            found = self._index.search(near, wanted, threads=1 if len(queries) == 1 else 0)
        if len(queries) == 1:
            return [found.keys.astype("i8")]
        return [keys[:number].astype("i8") for keys, number in zip(found.keys, found.counts)]

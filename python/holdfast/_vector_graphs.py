"""Graphs of vectors, built and searched by usearch, and exact distances by numpy.

usearch writes a graph into bytes, and reads one where it lies: these bytes are an array of a heap. A graph does not
change; it covers the rows from `first` to `end`.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any, NamedTuple

import numpy

Array = numpy.ndarray[Any, Any]

METRICS = ("cos", "l2sq", "ip")


def usearch() -> Any:
    """The module usearch.index."""
    try:
        return importlib.import_module("usearch.index")
    except ImportError as failure:
        raise ModuleNotFoundError(
            f"holdfast.VectorIndex needs the package usearch: `pip install usearch` ({failure})", name="usearch"
        ) from None


def scaled(vectors: Array, metric: str) -> Array:
    """The vectors as a graph has them: of length 1 for "cos", so that half precision has room for them."""
    plain = numpy.asarray(vectors, "f4")
    if metric != "cos":
        return plain
    lengths = numpy.linalg.norm(plain, axis=1, keepdims=True)
    made: Array = plain / numpy.where(lengths == 0, 1, lengths)
    return made


def distances(query: Array, vectors: Array, metric: str) -> Array:
    """Of the query to each of the vectors, as usearch defines them."""
    plain = numpy.asarray(vectors, "f4" if vectors.dtype.itemsize < 4 else vectors.dtype)
    query = query.astype(plain.dtype, copy=False)
    if metric == "l2sq":
        apart = plain - query
        found: Array = numpy.einsum("ij,ij->i", apart, apart)
        return found
    products: Array = plain @ query
    if metric == "ip":
        return 1 - products
    lengths = numpy.linalg.norm(plain, axis=1) * numpy.linalg.norm(query)
    return 1 - products / numpy.where(lengths == 0, 1, lengths)


class Settings(NamedTuple):
    """What a graph is built with."""

    dimensions: int
    metric: str
    connectivity: int
    precision: str

    def empty(self) -> Any:
        """An index of usearch without vectors."""
        return usearch().Index(
            ndim=self.dimensions,
            metric=self.metric,
            dtype=self.precision,
            connectivity=self.connectivity,
            enable_key_lookups=False,
        )

    def build(self, vectors: Array, first: int) -> Array:
        """The bytes of a graph of the vectors, which are rows from `first` on."""
        index = self.empty()
        index.add(numpy.arange(first, first + len(vectors), dtype="u8"), scaled(vectors, self.metric))
        return numpy.frombuffer(index.save(), "u1")


class Graph:
    """A graph that is searched where it lies."""

    def __init__(self, settings: Settings, first: int, end: int, memory: Array) -> None:
        self.first, self.end = first, end
        self._memory = memory  # usearch keeps its address
        self._index = settings.empty()
        self._index.view(memory)
        self._metric = settings.metric
        self._lock = threading.Lock()

    def search(self, query: Array, count: int, effort: int) -> Array:
        """Rows that are near, at most `count`."""
        wanted = min(count, self.end - self.first)
        near = scaled(query[None], self._metric)[0]
        with self._lock:  # the search uses memory of the index
            self._index.expansion_search = max(effort, wanted)
            found: Array = self._index.search(near, wanted, threads=1).keys
        return found.astype("i8")

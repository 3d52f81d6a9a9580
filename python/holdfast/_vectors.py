"""VectorIndex: nearest vectors, in a heap."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Union

import numpy

from ._heap import Heap
from ._vector_graphs import METRICS, Array, Graph, Settings, distances, usearch

_KIND = "holdfast.VectorIndex 1"
_FEW = 4096  # rows that are compared one by one: behind the last graph, or of a filter
_SIBLINGS = 8  # graphs of about one size that add() makes one of
_LARGEST_MERGED = 1 << 18  # rows: beyond, optimize() does it


class Match(NamedTuple):
    """What was found."""

    key: Any
    distance: float


class VectorIndex:
    """Nearest vectors by key, in a heap: `VectorIndex(heap, "texts", 384)` makes it or finds it.

    Vectors, keys and values lie in the dict `heap[name]`, with graphs that the package usearch builds and reads in
    place, so that an open heap is searched at once. Every change is a transaction, or a part of the open one. A heap of
    mode "r" searches beside the writer, and finds what is new after heap.refresh().

    metric: "cos", "l2sq" (squared distance) or "ip" (1 - inner product). dtype: of the stored vectors. connectivity:
    neighbours of a vector in the graph. They are given where the index is made.

    Thread safety: as of the heap; no thread may search while another one is in heap.refresh().
    """

    def __init__(
        self,
        heap: Heap,
        name: Any,
        dimensions: Union[int, None] = None,
        *,
        metric: str = "cos",
        dtype: Any = "f4",
        connectivity: int = 16,
    ) -> None:
        usearch()
        self._heap, self._name = heap, name
        self._lock = threading.Lock()
        self._seen: Any = None  # the mark of the graphs
        self._graphs: list[Graph] = []
        if name not in heap:
            if dimensions is None:
                raise KeyError(f"{name!r} is not in the heap: give the dimensions of its vectors, to make the index")
            self._make(dimensions, metric, numpy.dtype(dtype), connectivity)
        data = self._data()
        if dimensions is not None and dimensions != data["dimensions"]:
            raise ValueError(f"{name!r} has vectors of {data['dimensions']} dimensions, and not of {dimensions}")
        self._settings = Settings(data["dimensions"], data["metric"], data["connectivity"], data["precision"])

    def _make(self, dimensions: int, metric: str, dtype: numpy.dtype[Any], connectivity: int) -> None:
        if metric not in METRICS:
            raise ValueError(f"metric is one of {METRICS}, and not {metric!r}")
        if dtype not in (numpy.dtype("f2"), numpy.dtype("f4"), numpy.dtype("f8")):
            raise TypeError(f"vectors are of the type f2, f4 or f8, and not {dtype}")
        if dimensions < 1 or not 2 <= connectivity <= 1024:
            raise ValueError("vectors have at least one dimension, and from 2 to 1024 neighbours")
        self._heap[self._name] = {
            "kind": _KIND,
            "dimensions": dimensions,
            "metric": metric,
            "connectivity": connectivity,
            "precision": "f16" if metric == "cos" else "f32",
            "vectors": numpy.zeros((0, dimensions), dtype),
            "keys": [],  # by row; [] where the vector was removed
            "values": [],  # by row
            "rows": {},  # by key
            "fields": {},  # name -> value -> rows, those of removed vectors among them
            "graphs": [],
            "mark": 0,  # another one with each change of the graphs
        }

    def _data(self) -> Any:
        found = self._heap[self._name]
        if not isinstance(found, Mapping) or found.get("kind") != _KIND:
            raise TypeError(f"{self._name!r} is no VectorIndex")
        return found

    def _transaction(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._heap._session.owns_transaction else self._heap.transaction()

    def __len__(self) -> int:
        return len(self._data()["rows"])

    def __contains__(self, key: object) -> bool:
        return key in self._data()["rows"]

    def __iter__(self) -> Iterator[Any]:
        """The keys."""
        return iter(self._data()["rows"])

    def __getitem__(self, key: Any) -> Array:
        """A copy of the vector under a key."""
        data = self._data()
        found: Array = data["vectors"][data["rows"][key]].copy()
        return found

    def values(self, key: Any) -> dict[Any, Any]:
        """What was stored with the vector under a key."""
        data = self._data()
        found = data["values"][data["rows"][key]]
        return {} if found is None else found.to_python()

    def add(self, keys: Any, vectors: Any, values: Any = None) -> None:
        """Adds one vector under a key, or an array of vectors under a list of keys; replaces those that are there.

        values: a dict for each vector, which search(where=) looks at. A value that is a list has several. All is added,
        or nothing. A large array at once takes less time than its vectors one by one.
        """
        given = numpy.asarray(vectors)
        if given.ndim == 1:
            keys, given, values = [keys], given[None], [values]
        names = list(keys)
        told = [None] * len(names) if values is None else list(values)
        if given.shape != (len(names), self._settings.dimensions) or len(told) != len(names):
            raise ValueError(
                f"{len(names)} keys, {len(told)} values and vectors of shape {given.shape}: expected as many vectors, "
                f"of {self._settings.dimensions} numbers"
            )
        last = {name: place for place, name in enumerate(names)}  # of a key that comes twice
        if len(last) != len(names):
            kept = sorted(last.values())
            names, told, given = [names[i] for i in kept], [told[i] for i in kept], given[kept]
        if names:
            with self._transaction():
                self._append(names, given, told)

    def _append(self, names: Sequence[Any], vectors: Array, told: Sequence[Any]) -> None:
        data = self._data()
        rows, keys = data["rows"], data["keys"]
        first = len(keys)
        for name in names:
            if name in rows:
                self._forget(data, rows[name])
        data.append("vectors", vectors)
        keys.extend(names)
        data["values"].extend(dict(each) if each else None for each in told)
        rows.update(zip(names, range(first, first + len(names))))
        _note(data["fields"], told, first)
        done = _end_of(data["graphs"])
        if first + len(names) - done >= _FEW:
            self._build(data, done, first + len(names))

    def _forget(self, data: Any, row: int) -> None:
        data["keys"][row] = []
        data["values"][row] = None

    def remove(self, key: Any) -> None:
        """Removes a vector. Its place is free after optimize()."""
        with self._transaction():
            data = self._data()
            self._forget(data, data["rows"].pop(key))

    def _build(self, data: Any, first: int, end: int) -> None:
        """A graph of the rows behind the last graph; with the last graphs in it, where those are many of one size."""
        graphs = data["graphs"]
        kept = len(graphs)
        while kept >= _SIBLINGS:
            siblings = [graphs[i]["end"] - graphs[i]["first"] for i in range(kept - _SIBLINGS, kept)]
            if max(siblings) > _SIBLINGS * (end - first) or end - graphs[kept - _SIBLINGS]["first"] > _LARGEST_MERGED:
                break
            kept -= _SIBLINGS
            first = graphs[kept]["first"]
        built = self._settings.build(data["vectors"][first:end], first)
        graphs[kept:] = [{"first": first, "end": end, "graph": built}]
        data["mark"] = secrets.randbits(62)

    def optimize(self) -> None:
        """Makes one graph of all vectors, and frees the places of those that were removed.

        Searches are quicker then. It takes the time of adding all vectors, and holds the heap's transaction meanwhile.
        """
        with self._transaction():
            data = self._data()
            live = numpy.fromiter(data["rows"].values(), "i8", len(data["rows"]))
            live.sort()
            vectors = data["vectors"][live]
            told = [None if each is None else each.to_python() for each in data["values"]]
            names = data["keys"].to_python()
            settings = {name: data[name] for name in ("kind", "dimensions", "metric", "connectivity", "precision")}
            fields: dict[Any, Any] = {}
            told = [told[row] for row in live]
            names = [names[row] for row in live]
            _note(fields, told, 0)
            graphs = []
            if len(live) >= _FEW:
                graphs.append({"first": 0, "end": len(live), "graph": self._settings.build(vectors, 0)})
            self._heap[self._name] = {
                **settings,
                "vectors": vectors,
                "keys": names,
                "values": told,
                "rows": dict(zip(names, range(len(names)))),
                "fields": fields,
                "graphs": graphs,
                "mark": secrets.randbits(62),
            }

    def search(
        self,
        vector: Any,
        count: int = 10,
        where: Union[Mapping[Any, Any], None] = None,
        *,
        effort: int = 64,
    ) -> list[Match]:
        """The nearest vectors, nearest first.

        where: names of values, and what they are, or lists of what they may be, as {"language": ["en", "de"], "year":
        2026}; all must hold. effort: how many vectors of each graph are compared at least; more finds more of the true
        nearest. Distances are exact.
        """
        if count < 1:
            raise ValueError(f"count is {count}, expected at least 1")
        query = numpy.asarray(vector)
        if query.shape != (self._settings.dimensions,):
            raise ValueError(f"the vector has shape {query.shape}, expected {(self._settings.dimensions,)}")
        data = self._data()
        graphs = self._graphs_of(data)
        vectors, keys = data["vectors"], data["keys"]
        allowed = _rows_of(data["fields"], where) if where else None
        tail = numpy.arange(graphs[-1].end if graphs else 0, len(vectors))
        wanted = count + 8
        if allowed is not None:
            wanted += 2 * count * len(vectors) // max(1, len(allowed))
        while True:
            if allowed is not None and len(allowed) <= max(_FEW, 16 * wanted):
                return self._nearest(query, allowed, vectors, keys, count)
            near = [graph.search(query, wanted, effort) for graph in graphs]
            rows = numpy.concatenate([*near, tail])
            if allowed is not None:
                rows = rows[numpy.isin(rows, allowed)]
            found = self._nearest(query, rows, vectors, keys, count)
            if len(found) == count or all(wanted >= graph.end - graph.first for graph in graphs):
                return found
            wanted *= 8

    def _nearest(self, query: Array, rows: Array, vectors: Array, keys: Any, count: int) -> list[Match]:
        """Of the rows that are not removed."""
        apart = distances(query, vectors[rows], self._settings.metric)
        found: list[Match] = []
        for place in numpy.argsort(apart, kind="stable"):
            if len(found) == count:
                break
            key = keys[int(rows[place])]
            if not _is_removed(key):
                found.append(Match(key, float(apart[place])))
        return found

    def _graphs_of(self, data: Any) -> list[Graph]:
        mark = data["mark"]
        with self._lock:
            if mark != self._seen:
                self._graphs = [
                    Graph(self._settings, each["first"], each["end"], each["graph"]) for each in data["graphs"]
                ]
                self._seen = mark
            return self._graphs

    def __repr__(self) -> str:
        return f"<holdfast.VectorIndex {self._name!r}, {len(self)} vectors of {self._settings.dimensions} dimensions>"


def _is_removed(key: Any) -> bool:
    return isinstance(key, Sequence) and not isinstance(key, (str, bytes, tuple))


def _end_of(graphs: Any) -> int:
    return int(graphs[-1]["end"]) if len(graphs) else 0


def _options(value: Any) -> Iterable[Any]:
    return value if isinstance(value, (list, set, frozenset)) else (value,)


def _note(fields: Any, told: Sequence[Any], first: int) -> None:
    """Adds the rows to those of their values."""
    found: dict[Any, dict[Any, list[int]]] = {}
    for row, values in enumerate(told, first):
        for name, value in (values or {}).items():
            for each in _options(value):
                found.setdefault(name, {}).setdefault(each, []).append(row)
    for name, by_value in found.items():
        if name not in fields:
            fields[name] = {}
        known = fields[name]
        for value, rows in by_value.items():
            if hasattr(known, "append") and value in known:
                known.append(value, numpy.array(rows, "i8"))
            else:
                known[value] = numpy.array(rows, "i8")


def _rows_of(fields: Any, where: Mapping[Any, Any]) -> Array:
    """Ascending."""
    found: Union[Array, None] = None
    for name, value in where.items():
        known = fields.get(name, {})
        some = [known[each] for each in _options(value) if each in known]
        rows = numpy.unique(numpy.concatenate(some)) if some else numpy.zeros(0, "i8")
        found = rows if found is None else numpy.intersect1d(found, rows, assume_unique=True)
    return numpy.zeros(0, "i8") if found is None else found

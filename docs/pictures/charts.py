#!/usr/bin/env python3
"""Draws charts of the measured figures, from the tables of docs/benchmarks/ and docs/python.md.

    charts.py              writes peers.svg beside this file: the chart of the README
    charts.py --check      exit status 1 where peers.svg is not what this program draws
    charts.py DIRECTORY    writes all charts and the page charts.md there, for the site; exit status 1 where peers.svg
                           is not what this program draws

Within a group of bars the longest one is the greatest figure. A table that is not there, or has other columns, ends the
program with its name.
"""

import re
import sys
from html import escape
from pathlib import Path

from draw import STYLE

HERE = Path(__file__).resolve().parent
DOCUMENTS = HERE.parent
OURS = ("holdfast", "commit", "atomic", "collect", "libholdfast", "ordered", "hash")  # how the names of our bars begin
WIDTH, LABEL, BAR, FIGURE = 760, 210, 430, 110
ROW, GAP = 17, 12

Bars = list[tuple[str, float]]
Groups = list[tuple[str, Bars]]


class Table:
    """The n-th table below a heading of a document; a cell that is empty in the first column repeats the one above."""

    def __init__(self, document: str, heading: str, number: int = 0) -> None:
        self.name = f"docs/{document}: {heading}"
        text = (DOCUMENTS / document).read_text(encoding="utf-8")
        section = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
        tables = re.findall(r"(?:^\|.*\n)+", section.group(2), re.MULTILINE) if section else []
        if number >= len(tables):
            sys.exit(f"{self.name}: there is no table {number}")
        lines = tables[number].splitlines()
        rows = [[re.sub(r"[`*]", "", cell.strip()) for cell in row[1:-1].split("|")] for row in lines]
        self.columns, self.rows = rows[0], rows[2:]
        for above, row in zip(self.rows, self.rows[1:]):
            row[0] = row[0] or above[0]

    def figure(self, column: str, *words: str) -> float:
        """The first number in the column, in the row whose first cells begin with these words."""
        for row in self.rows:
            if all(cell.startswith(word) for cell, word in zip(row, words)) and column in self.columns:
                if number := re.search(r"[0-9][0-9,]*\.?[0-9]*", row[self.columns.index(column)]):
                    return float(number.group().replace(",", ""))
        sys.exit(f"{self.name}: no figure for {column} in the row of {', '.join(words)}")

    def bars(self, row: str, *columns: str) -> Bars:
        """A bar for each of the columns."""
        return [(column, self.figure(column, row)) for column in columns]


def figure_text(value: float) -> str:
    """Three digits that matter."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def draw(title: str, groups: Groups) -> str:
    """An SVG with a group of bars below each other for each of the groups."""
    lines, y = [], 46
    for name, bars in groups:
        greatest = max(value for _, value in bars)
        lines.append(f'<text x="12" y="{y + 12}" font-size="12" class="name">{escape(name)}</text>')
        y += ROW + 2
        for label, value in bars:
            kind = "media" if label.startswith(OURS) else "box"
            length = max(2, BAR * value / greatest)
            words = f'<text x="{LABEL - 8}" y="{y + 12}" font-size="12" text-anchor="end">{escape(label)}</text>'
            lines.append(words)
            lines.append(f'<rect x="{LABEL}" y="{y + 1}" width="{length:.0f}" height="{ROW - 4}" class="{kind}"/>')
            lines.append(f'<text x="{LABEL + length + 6:.0f}" y="{y + 12}" font-size="12">{figure_text(value)}</text>')
            y += ROW
        y += GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" role="img">'
    head += f"<title>{escape(title)}</title><style>{STYLE}</style>"
    head += f'<rect width="{WIDTH}" height="{y}" class="ground"/>'
    heading = f'<text x="12" y="26" font-size="15" class="name">{escape(title)}</text>'
    return "\n".join([head, heading, *lines, "</svg>\n"])


def peers() -> tuple[str, Groups]:
    """The chart of the README: one row of work each, against those who do it best elsewhere."""
    atomic = Table("benchmarks/small-blocks-atomic.md", "Small blocks in atomic")
    built = Table("benchmarks/containers.md", "Containers")
    disk = Table("benchmarks/disks.md", "Disks")
    small = Table("benchmarks/small-blocks.md", "Small blocks in commit and collect")
    large = Table("benchmarks/large-blocks.md", "Large blocks")
    index = Table("benchmarks/indexes.md", "The indexes")

    def nanoseconds(table: Table, column: str, row: str) -> float:
        return 1000 / table.figure(column, row)

    return "Time for the same work: less is better", [
        ("a durable allocation of 64 bytes, ns", [
            ("holdfast, atomic", atomic.figure("1 thread", "pair", "holdfast")),
            ("libpmemobj", atomic.figure("1 thread", "pair", "libpmemobj"))]),
        ("a durable record of 100 bytes on a disk, us", [
            ("holdfast, atomic", disk.figure("threads: 1", "record of 100")),
            *((name, disk.figure("threads: 1", name)) for name in ("RocksDB", "SQLite", "LMDB"))]),
        ("a graph of hash maps and vectors built, ms", [
            ("holdfast, commit", built.figure("1 thread", "holdfast")),
            ("std, not persistent", built.figure("1 thread", "std")),
            ("Boost.Interprocess", built.figure("1 thread", "interprocess"))]),
        ("small blocks of mixed lives (shbench), ns a call", [
            ("holdfast, commit", nanoseconds(small, "holdfast", "shbench, 1")),
            *((name, nanoseconds(small, name, "shbench, 1")) for name in ("mimalloc", "jemalloc"))]),
        ("large blocks (larson-large), ns a call", [
            ("holdfast, commit", nanoseconds(large, "commit", "larson-large")),
            *((name, nanoseconds(large, name, "larson-large")) for name in ("mimalloc", "jemalloc"))]),
        ("a look-up in an ordered map of 2 million, ns", [
            ("holdfast, atomic", index.figure("ordered", "find")),
            *((name, index.figure(column, "find")) for name, column in (
                ("Abseil, not persistent", "absl::btree_map"), ("FPTree, libpmemobj", "FPTree over libpmemobj"),
                ("std::map, not persistent", "std::map")))]),
    ]  # fmt: skip


def charts() -> list[tuple[str, str, str, Groups]]:
    """The charts of the site: file, heading of the results, title, groups."""
    small = Table("benchmarks/small-blocks.md", "Small blocks in commit and collect")
    large = Table("benchmarks/large-blocks.md", "Large blocks")
    moves = Table("benchmarks/transactions.md", "Transactions")
    index = Table("benchmarks/indexes.md", "The indexes")
    space = Table("benchmarks/fragmentation.md", "Fragmentation")
    growth = Table("benchmarks/growth.md", "Growth")
    loops = Table("benchmarks/malloc.md", "malloc for programs")
    python = Table("python.md", "What it costs", 1)
    of_growth = ("commit", "collect", "atomic", "mimalloc", "glibc")
    return [
        ("small-blocks", "Small blocks in commit and collect", "Millions of calls a second: more is better",
         [(row, small.bars(row, "holdfast", "mimalloc", "jemalloc"))
          for row in ("threadtest, 1", "threadtest, 2", "shbench, 1", "larson-small, 1", "larson-small, 2")]),
        ("large-blocks", "Large blocks", "Millions of calls a second, one thread: more is better",
         [(row, large.bars(row, "commit", "mimalloc", "jemalloc", "atomic", "libpmemobj"))
          for row in ("larson-large", "dbmstest", "threadtest-512k")]),
        ("transactions", "Transactions", "ns a transaction: less is better",
         [(row, moves.bars(row, "holdfast", "libpmemobj"))
          for row in ("a word", "4 objects", "hash map, insert", "hash map, remove")]),
        ("indexes", "The indexes", "ns a call: less is better",
         [(row, index.bars(row, "ordered", *other, "FPTree over libpmemobj", "absl::btree_map", "std::map"))
          for row, other in (("insert", ["hash"]), ("find", ["hash"]), ("scan of 100", []))]),
        ("fragmentation", "Fragmentation", "Share of the capacity that is live when it is full, %: more is better",
         [(row, space.bars(row, "commit", "atomic", "libpmemobj"))
          for row in ("64 KiB", "1 MiB", "16 MiB", "256 MiB")]),
        ("growth", "Growth", "ms, from an empty heap: less is better",
         [(row, growth.bars(row, *of_growth)) for row in ("dbmstest", "realloc", "fill-mixed", "grow")]),
        ("malloc", "malloc for programs", "Millions of calls a second: more is better",
         [(row, loops.bars(row, "libholdfast-malloc.so", "mimalloc", "jemalloc", "glibc"))
          for row in ("threadtest", "shbench", "larson", "short-lived")]),
        ("python", "", "Python, us for 100 bytes under a key: less is better",
         [(column, [(row[0], python.figure(column, row[0])) for row in python.rows])
          for column in ("set, us", "get, us")]),
    ]  # fmt: skip


def write_site(into: Path) -> None:
    """All charts, and the page that shows them."""
    (into / "charts").mkdir(parents=True, exist_ok=True)
    page = [
        "# Charts", "",
        "The figures of [the results](benchmarks.md), drawn. Each chart names its table, which names its command, its",
        "commit and its machine. Blue bars are Holdfast's.", "",
        "![Peers](pictures/peers.svg)", "",
    ]  # fmt: skip
    for name, heading, title, groups in charts():
        (into / "charts" / f"{name}.svg").write_text(draw(title, groups), encoding="utf-8")
        where = f"[{heading}](benchmarks/{name}.md)" if heading else "[Python](python.md#what-it-costs)"
        page += [f"## {heading or 'Python'}", "", f"![{title}](charts/{name}.svg)", "", f"From {where}.", ""]
    (into / "charts.md").write_text("\n".join(page), encoding="utf-8")


def main() -> int:
    """Draws."""
    drawn = draw(*peers())
    place = HERE / "peers.svg"
    if len(sys.argv) == 1:
        place.write_text(drawn, encoding="utf-8")
        return 0
    if sys.argv[1] != "--check":
        write_site(Path(sys.argv[1]))
    if not place.exists() or place.read_text(encoding="utf-8") != drawn:
        print(f"{place.name} is not current: run python3 docs/pictures/charts.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

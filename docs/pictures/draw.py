#!/usr/bin/env python3
"""Draws the pictures of docs/data-model.md: what a heap consists of, and the states of a slab and of a heap.

    draw.py             writes data-model.svg, slab-states.svg and heap-states.svg beside this file
    draw.py --check     exit status 1 where one of them is not what this program draws

A text that is wider than its box, or lies outside of the picture, ends the program. Code is set in a font of fixed
width, so its width is known; of other text it is estimated.
"""

import sys
from html import escape
from pathlib import Path
from typing import Sequence

Point = tuple[float, float]

# The background is drawn, so the colours are right on a page of any colour.
STYLE = """
.ground{fill:#ffffff}.box{fill:#f4f6f8;stroke:#57606a}.media{fill:#ddf4ff;stroke:#0969da}
.memory{fill:#fff8c5;stroke:#9a6700}.good{fill:#dafbe1;stroke:#1a7f37}.bad{fill:#ffebe9;stroke:#cf222e}
.line{fill:none;stroke:#57606a;stroke-width:1.3}.zoom{fill:none;stroke:#8c959f;stroke-dasharray:4 3}
.head{fill:#57606a}text{fill:#1f2328;font-family:Helvetica,Arial,"DejaVu Sans",sans-serif}
.code{font-family:Menlo,"DejaVu Sans Mono","Liberation Mono",monospace}.name{font-weight:bold}.soft{fill:#57606a}
@media(prefers-color-scheme:dark){
.ground{fill:#0d1117}.box{fill:#161b22;stroke:#8b949e}.media{fill:#0c2d6b;stroke:#58a6ff}
.memory{fill:#3b2300;stroke:#d29922}.good{fill:#033a16;stroke:#3fb950}.bad{fill:#490202;stroke:#f85149}
.line{stroke:#8b949e}.head{fill:#8b949e}.zoom{stroke:#6e7681}text{fill:#e6edf3}.soft{fill:#9da7b1}}
"""
# Of the size of the font.
WIDTHS = {"code": 0.61, "name": 0.60, "soft": 0.53, "": 0.53}
LINE = 15  # from one line of text to the next


class Picture:
    """Elements of one SVG, from back to front."""

    def __init__(self, name: str, width: int, height: int, title: str) -> None:
        self.name, self.width, self.height, self.title = name, width, height, title
        self.lines: list[str] = []
        self.grounds: list[str] = []  # behind labels, so that no line strikes them through
        self.boxes: list[str] = []
        self.labels: list[str] = []

    def text(self, x: float, y: float, words: str, kind: str = "", size: int = 12, anchor: str = "middle",
             boxed: bool = False) -> None:
        width = len(words) * size * WIDTHS[kind]
        left = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
        if left < 0 or left + width > self.width or y > self.height:
            sys.exit(f"{self.name}: outside of the picture: {words}")
        style = f' class="{kind}"' if kind else ""
        if not boxed:
            self.grounds.append(
                f'<rect x="{left:g}" y="{y - size:g}" width="{width:g}" height="{size + 3}" class="ground"/>'
            )
        self.labels.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"{style}>{escape(words)}</text>'
        )

    def box(self, x: float, y: float, w: float, h: float, words: Sequence[str] = (), kind: str = "box",
            code: bool = False) -> None:
        """The first line is a name, and the others say more."""
        self.boxes.append(f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="5" class="{kind}"/>')
        top = y + h / 2 - (len(words) - 1) * LINE / 2 + 4
        for i, line in enumerate(words):
            style = "code" if code else "name" if i == 0 else ""
            size = 12 if i == 0 else 11
            if len(line) * size * WIDTHS[style] > w - 6:
                sys.exit(f"{self.name}: wider than its box: {line}")
            self.text(x + w / 2, top + i * LINE, line, style, size, boxed=True)

    def row(self, x: float, y: float, h: float, parts: Sequence[tuple[float, Sequence[str], str]]) -> None:
        """Boxes side by side: width, text, kind."""
        for w, words, kind in parts:
            self.box(x, y, w, h, words, kind)
            x += w

    def zoom(self, left: Point, right: Point, to_left: Point, to_right: Point) -> None:
        for a, b in ((left, to_left), (right, to_right)):
            self.lines.append(f'<path d="M{a[0]:g} {a[1]:g}L{b[0]:g} {b[1]:g}" class="zoom"/>')

    def arrow(self, points: Sequence[Point], label: Sequence[str] = (), at: Point | None = None,
              anchor: str = "middle", both: bool = False, kind: str = "code") -> None:
        """Along the points; the lines of the label stand one below the other, the first at `at`."""
        path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
        start = ' marker-start="url(#head)"' if both else ""
        self.lines.append(f'<path d="{path}" class="line" marker-end="url(#head)"{start}/>')
        for i, words in enumerate(label):
            assert at is not None
            self.text(at[0], at[1] + i * 13, words, kind, 11, anchor)

    def svg(self) -> str:
        marker = (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" class="head"/></marker></defs>'
        )
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img">',
            f"<title>{escape(self.title)}</title>",
            f"<style>{STYLE}</style>{marker}",
            f'<rect width="{self.width}" height="{self.height}" rx="6" class="ground"/>',
            *self.lines, *self.grounds, *self.boxes, *self.labels, "</svg>", "",
        ])


def data_model() -> Picture:
    p = Picture("data-model.svg", 1060, 800, "From the directory of a heap to a block")
    draw_space(p, 20)
    draw_slab(p, 20)
    draw_lanes_and_objects(p, 20)
    p.text(20, 786, "blue: on media     yellow: in DRAM     green: blocks in use, slabs", "soft", 12, "start")
    return p


def draw_space(p: Picture, left: float) -> None:
    p.text(left, 24, "A heap is a directory of files", "name", 13, "start")
    p.row(left, 34, 46, [
        (120, ["superblock", "two copies"], "media"),
        (170, ["segment.000000", "256 MiB and tables"], "media"),
        (170, ["segment.000001", "grows on demand"], "media"),
        (40, ["..."], "media"),
        (150, ["objects", "names and types"], "media"),
        (180, ["log.000000 ...", "commits that are not home"], "media"),
        (130, ["lanes", "redo rings"], "media"),
        (60, ["lock"], "media"),
    ])

    p.text(left, 122, "A segment file: pages of 4 KiB, and the tables that speak of them", "name", 13, "start")
    p.zoom((140, 80), (310, 80), (left, 132), (left + 820, 132))
    p.row(left, 132, 46, [
        (330, ["user space", "65,536 pages: what programs allocate"], "media"),
        (120, ["slab headers", "64 B a granule"], "media"),
        (120, ["page entries", "8 B a page"], "media"),
        (130, ["live bitmaps", "1 KiB a granule"], "media"),
        (120, ["checksums", "4 B a page"], "media"),
    ])
    p.text(left + 840, 150, "metadata: about 2 %", "soft", 11, "start")
    p.text(left + 840, 165, "of the segment", "soft", 11, "start")

    p.text(left, 222, "User space is tiled by extents; the page entry of the first page says kind and length",
           "name", 13, "start")
    p.zoom((left, 178), (left + 330, 178), (left, 232), (left + 900, 232))
    p.row(left, 232, 46, [
        (140, ["roots", "512 words, 64 KiB"], "box"),
        (110, ["slab", "64 KiB"], "good"),
        (200, ["used", "a block of whole pages"], "box"),
        (120, ["free"], "box"),
        (110, ["slab", "64 KiB"], "good"),
        (140, ["reserved", "free after a crash"], "box"),
        (80, ["free"], "box"),
    ])
    p.text(left + 915, 252, "frontier: the end", "soft", 11, "start")
    p.text(left + 915, 267, "of user space", "soft", 11, "start")


def draw_slab(p: Picture, left: float) -> None:
    p.text(left, 322, "A slab: blocks of one size class (here 4,096 bytes)", "name", 13, "start")
    p.zoom((left + 140, 278), (left + 250, 278), (left + 150, 332), (left + 810, 332))
    x = left + 150
    blocks = ["live", "live", "free", "live", "in a cache", "free", "live", "..."]
    for i, words in enumerate(blocks):
        last = i == len(blocks) - 1
        p.box(x + i * 82, 332, 660 - i * 82 if last else 82, 34, [words], "good" if words == "live" else "box")
    p.text(x - 10, 352, "blocks", "", 12, "end")
    p.text(x - 10, 387, "live bitmap, on media", "", 12, "end")
    p.text(x - 10, 415, "block states, in DRAM", "", 12, "end")
    for i, words in enumerate(blocks[:-1]):
        p.box(x + i * 82, 372, 82, 24, ["1" if words == "live" else "0"], "media")
        p.box(x + i * 82, 400, 82, 24, ["live" if words == "live" else "free"], "memory")
    p.text(x + 7 * 82 + 10, 388, "a commit or a checkpoint writes", "soft", 11, "start")
    p.text(x + 7 * 82 + 10, 401, "the bitmap from the block states; blocks", "soft", 11, "start")
    p.text(x + 7 * 82 + 10, 414, "in caches are free there", "soft", 11, "start")

    p.text(left, 462, "In DRAM, made anew at each open", "name", 13, "start")
    p.row(left, 472, 62, [
        (250, ["slab_table", "for each granule: state, type,", "slab_entry = fast_slab, slab_descriptor"], "memory"),
        (250, ["slab_bin", "for each arena and size class:", "lists of slabs: head, empty, sparse"], "memory"),
        (260, ["thread_cache", "for each thread and heap:", "of each class parts of one slab"], "memory"),
        (260, ["free_index, extent_cache", "free extents: one index,", "a cache for each arena"], "memory"),
    ])


def draw_lanes_and_objects(p: Picture, left: float) -> None:
    p.text(left, 580, "The file lanes (durability atomic): one ring for each thread, 64 bytes for each operation",
           "name", 13, "start")
    p.row(left, 590, 40, [
        (130, ["head: T, count"], "media"), (130, ["lane 0: shared"], "media"),
        (130, ["lane 1"], "media"), (130, ["lane 2"], "media"), (60, ["..."], "media"),
    ])
    p.zoom((left + 260, 630), (left + 390, 630), (left, 656), (left + 580, 656))
    p.row(left, 656, 40, [
        (110, ["header page"], "media"), (90, ["record"], "media"), (90, ["record"], "media"),
        (90, ["record"], "media"), (200, ["... 8,192 slots"], "media"),
    ])
    p.zoom((left + 110, 696), (left + 200, 696), (left, 722), (left + 1020, 722))
    p.row(left, 722, 40, [
        (120, ["checksum"], "media"), (120, ["sequence"], "media"), (100, ["time"], "media"),
        (240, ["destination and its stamp"], "media"), (220, ["block allocated"], "media"),
        (220, ["block freed"], "media"),
    ])

    p.text(650, 606, "The file objects: records in cells of 64 bytes", "name", 12, "start")
    p.row(650, 616, 40, [
        (150, ["kind, name, type"], "media"), (130, ["offset, count"], "media"), (110, ["next ..."], "media"),
    ])
    p.text(650, 676, "offset: that of the object's block in user space", "soft", 11, "start")


def slab_states() -> Picture:
    p = Picture("slab-states.svg", 1120, 620, "States of a slab, and the functions that change them")
    p.box(40, 50, 190, 66, ["no slab", "free extent; state none"])
    p.box(465, 50, 200, 66, ["unloaded", "state, type and header", "are known"], "media")
    p.box(880, 50, 200, 66, ["quarantined", "never allocated from;", "frees fail: corrupt"], "bad")
    p.box(40, 270, 190, 66, ["empty", "no block out;", "listed in bin.empty"], "memory")
    p.box(465, 270, 200, 66, ["relist()", "how many blocks are free?"])
    p.box(880, 270, 200, 66, ["full, or nearly", "in no list; counter runs"], "good")
    p.box(40, 480, 190, 66, ["in use", "a thread has a part;", "others may be listed"], "good")
    p.box(345, 480, 190, 66, ["listed", "partly free, in bin.head"], "memory")
    p.box(630, 480, 170, 66, ["morphed", "of another class,", "in no list yet"])
    p.box(900, 480, 180, 66, ["sparse", "in bin.sparse; pages", "may be holes"], "media")

    p.arrow([(85, 116), (85, 270)], ["create"], (80, 200), "end")
    p.arrow([(185, 270), (185, 116)], ["release_oldest,", "release"], (192, 185), "start")
    p.arrow([(230, 83), (465, 83)], ["record (at open)"], (347, 76))
    p.arrow([(565, 116), (565, 270)], ["load_into"], (572, 180), "start")
    p.arrow([(665, 83), (880, 83)], ["load_into, record,", "make, release", "find damage"], (772, 50))
    p.arrow([(465, 303), (230, 303)], ["relist: empty"], (347, 296))
    p.arrow([(665, 288), (880, 288)], ["relist"], (772, 281))
    p.arrow([(880, 318), (665, 318)], ["note_free, inspect"], (772, 334))
    p.arrow([(85, 336), (85, 480)], ["check_out", "_listed"], (92, 400), "start")
    p.arrow([(190, 480), (470, 336)], ["check_in"], (268, 408), "end")
    p.arrow([(500, 336), (440, 480)], ["link"], (458, 420), "end")
    p.arrow([(500, 480), (550, 336)], ["note_free,", "inspect"], (520, 457), "start")
    p.arrow([(345, 505), (230, 505)], ["check_out", "_listed"], (287, 484))
    p.arrow([(535, 513), (630, 513)], ["morph_into"], (582, 506))
    p.arrow([(700, 480), (610, 336)], ["become,", "inspect"], (672, 420), "start")
    p.arrow([(900, 513), (800, 513)], ["repopulate,", "morph_into"], (850, 493))
    p.arrow([(420, 546), (420, 600), (980, 600), (980, 546)], ["try_make_sparse (at a commit)"], (700, 593))
    p.arrow([(940, 480), (662, 336)], ["repopulate_next: repopulate, relist"], (845, 420), "start")
    p.arrow([(1080, 505), (1105, 505), (1105, 25), (135, 25), (135, 50)],
            ["relist_sparse, release: its last block was freed"], (600, 18))
    return p


def heap_states() -> Picture:
    p = Picture("heap-states.svg", 1160, 740, "States of a heap, and the functions that change them")
    p.box(40, 40, 190, 66, ["no heap", "no file superblock"])
    p.box(470, 40, 200, 66, ["closed", "superblock: clean;", "no log"], "good")
    p.box(930, 40, 190, 66, ["open for reading", "nothing on media", "is changed"], "memory")
    p.box(40, 240, 190, 66, ["being created", "locked, no superblock"], "memory")
    p.box(330, 240, 200, 66, ["open, unchanged", "commit; superblock: clean"], "memory")
    p.box(720, 240, 210, 66, ["open, mapped shared", "atomic or collect;", "superblock: running"], "memory")
    p.box(40, 450, 190, 66, ["committing", "four steps with syncs"], "memory")
    p.box(330, 450, 200, 66, ["open, running", "commit; stores make", "private pages"], "memory")
    p.box(720, 450, 210, 66, ["crashed", "superblock: running;", "nobody holds the lock"], "media")
    p.box(330, 620, 200, 66, ["poisoned", "no further commit"], "bad")
    p.box(960, 590, 160, 66, ["refused", "the open fails; from", "closed, too"], "bad")

    p.arrow([(80, 106), (80, 240)], ["heap_files::create"], (87, 145), "start")
    p.arrow([(60, 240), (60, 106)], ["heap_creation::", "abandon"], (87, 222), "start")
    p.arrow([(190, 306), (370, 450)], ["finish_creation"], (240, 424), "end")
    p.arrow([(470, 73), (230, 73)], ["remove_heap"], (350, 66))
    p.arrow([(500, 106), (415, 240)], ["engine::open"], (435, 170), "end")
    p.arrow([(470, 240), (535, 106)], ["close, or", "killed"], (508, 200), "start")
    p.arrow([(400, 306), (400, 450)], ["mark_running"], (393, 355), "end")
    p.arrow([(530, 468), (585, 468), (585, 106)], ["engine::close,", "close_cleanly"], (578, 340), "end")
    p.arrow([(720, 262), (630, 262), (630, 106)], ["engine::", "close_shared"],
            (637, 212), "start")
    p.arrow([(670, 90), (800, 90), (800, 240)], ["start_atomic,", "start_collect"], (807, 150), "start")
    p.arrow([(670, 58), (930, 58)], ["engine::open (read-only), close"], (800, 50), both=True)
    p.arrow([(330, 470), (230, 470)], ["commit"], (280, 463))
    p.arrow([(230, 500), (330, 500)], ["adopt"], (280, 515))
    p.arrow([(105, 516), (105, 653), (330, 653)], ["write_commit: stage", "uncertain, durable"], (112, 606), "start")
    p.arrow([(530, 653), (770, 653), (770, 516)], ["close(false): close_unchanged"], (545, 646), "start")
    p.arrow([(530, 505), (720, 505)], ["killed, power cut"], (625, 521), kind="soft")
    p.arrow([(720, 487), (530, 487)], ["recover, remove_", "leftovers"], (655, 462))
    p.arrow([(770, 306), (770, 450)], ["killed,", "power cut"], (763, 380), "end", kind="soft")
    p.arrow([(860, 450), (860, 306)], ["replay_lanes,", "trace_after_crash"], (867, 375), "start")
    p.arrow([(930, 470), (1060, 470), (1060, 106)],
            ["recover,", "apply_overlay,", "replay_lanes,", "trace_after_crash;", "in memory alone"],
            (1053, 180), "end", both=True)
    p.arrow([(880, 516), (880, 623), (960, 623)], ["recover,", "verify_tables"], (887, 563), "start")
    p.arrow([(65, 516), (65, 715), (830, 715), (830, 516)], ["killed, power cut"], (440, 708), kind="soft")
    return p


def main(arguments: list[str]) -> int:
    stale = 0
    for picture in (data_model(), slab_states(), heap_states()):
        path = Path(__file__).parent / picture.name
        drawn = picture.svg()
        if arguments == ["--check"]:
            if not path.exists() or path.read_text(encoding="utf-8") != drawn:
                print(f"{path}: not what draw.py draws")
                stale = 1
        else:
            path.write_text(drawn, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

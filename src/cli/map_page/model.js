// The extents of a heap, read from the page: `summary` and `data` are in it, src/cli/map_data.hpp says how they are
// written.
"use strict";

const $ = (id) => document.getElementById(id);
const summary = JSON.parse($("summary").textContent);
const PAGE = summary.page_size;
const OF_STORE = summary.kind === "store";
const KINDS = OF_STORE ? ["free", "old", "long", "leaf", "meta", "branch", "log"]
                       : ["free", "big", "huge", "slab", "roots", "reserved"];
const LABELS = OF_STORE ? ["free", "old", "long", "leaf", "meta", "branch", "log"]
                        : ["free", "big block", "huge block", "slab", "roots", "reserved"];
const NOTES = OF_STORE
    ? [" (for the next transactions)", " (of versions that may still be read)", " (values and keys in pages of their own)",
       "", "", "", ""]
    : ["", " (up to 16 MiB)", " (above 16 MiB)", " (64 KiB of small blocks)", "", " (free after a crash)"];
const OPERATIONS_OF_STORES = [0, 1, 3, 4, 5, 2, 6];  // their kinds
const FREE = 0, BIG = 1, HUGE = 2, SLAB = 3;  // of a store, SLAB is a leaf, and its live blocks are bytes in use
const HUGE_FROM = 16 * 1024 * 1024;  // bytes: a block above is huge

const OBJECTS = summary.objects || [];  // with names, by offset: [offset, bytes, name, type]
const MOST_OBJECTS_TOLD = 6;

let heap = null;  // the extents, as columns

// --- numbers as text -----------------------------------------------------------------------------------------------

function size(bytes, digits = 1) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < units.length) {
    bytes /= 1024;
    ++unit;
  }
  return unit === 0 ? `${bytes} B` : `${bytes.toFixed(digits)} ${units[unit]}`;
}
const exact = (bytes) => (bytes < 1024 ? size(bytes) : `${bytes} B (${size(bytes)})`);
const hex = (number) => "0x" + number.toString(16);
const percent = (part, whole) => (whole === 0 ? "0.0 %" : (100 * part / whole).toFixed(1) + " %");
const grouped = (number) => number.toLocaleString("en");
const several = (count, name) => `${grouped(count)} ${name}${count === 1 ? "" : "s"}`;

// --- the extents ---------------------------------------------------------------------------------------------------

/// Columns of all extents: first page, kind, index of the size class, live blocks, bytes on disk.
function decode(text, count) {
  const raw = atob(text);
  let at = 0;
  const varint = () => {
    let value = 0, scale = 1;
    for (;;) {
      if (at >= raw.length) {
        throw new Error("the data of this page are cut off");
      }
      const byte = raw.charCodeAt(at++);
      value += (byte & 127) * scale;
      if (byte < 128) {
        return value;
      }
      scale *= 128;
    }
  };
  const start = new Float64Array(count + 1), kind = new Uint8Array(count), type = new Uint8Array(count);
  const live = new Uint16Array(count), backed = new Float64Array(count);
  let n = 0, page = 0, pages = 0;
  const append = (kindOf, typeOf, liveOf, backedOf) => {
    if (n >= count) {
      throw new Error("the data of this page hold more extents than it says");
    }
    start[n] = page;
    kind[n] = kindOf;
    type[n] = typeOf;
    live[n] = liveOf;
    backed[n++] = backedOf;
    page += pages;
  };
  while (at < raw.length) {
    const head = varint();
    const operation = head % 8;
    if (operation === 7) {  // the one before, again
      for (let again = Math.floor(head / 8); again > 0; --again) {
        append(kind[n - 1], type[n - 1], live[n - 1], backed[n - 1]);
      }
      continue;
    }
    const backing = Math.floor(head / 8) % 4;
    const rest = Math.floor(head / 32);
    const isSlab = operation === 2;
    pages = isSlab ? summary.slab_pages : rest;
    const bytes = pages * PAGE;
    const liveOf = isSlab ? varint() : 0;
    const backedOf = backing === 2 ? varint() : backing * bytes;
    const kindOf = OF_STORE ? OPERATIONS_OF_STORES[operation] : [FREE, bytes > HUGE_FROM ? HUGE : BIG, SLAB, 4, 5][operation];
    append(kindOf, isSlab ? rest : 0, liveOf, backedOf);
  }
  start[n] = page;
  if (n !== count) {
    throw new Error(`the data of this page hold ${n} extents, and not ${count}`);
  }
  return {count, pages: page, start, kind, type, live, backed};
}

const pagesOf = (i) => heap.start[i + 1] - heap.start[i];
const bytesOf = (i) => pagesOf(i) * PAGE;
const classOf = (i) => summary.classes[heap.type[i]];  // [bytes of a block, blocks of a slab]
const isDamaged = (i) => heap.kind[i] === SLAB && classOf(i)[0] === 0;
const liveShare = (i) => (isDamaged(i) ? 0 : heap.live[i] / classOf(i)[1]);

/// The extent that holds the page.
function extentAt(page) {
  let low = 0, high = heap.count - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (heap.start[middle] <= page) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

function totals() {
  const found = KINDS.map(() => ({extents: 0, bytes: 0, backed: 0}));
  let live = 0, damaged = 0, largestFree = 0;
  for (let i = 0; i < heap.count; ++i) {
    const kind = found[heap.kind[i]];
    ++kind.extents;
    kind.bytes += bytesOf(i);
    kind.backed += heap.backed[i];
    if (heap.kind[i] === SLAB) {
      live += heap.live[i] * classOf(i)[0];
      damaged += isDamaged(i) ? 1 : 0;
    } else if (heap.kind[i] === FREE) {
      largestFree = Math.max(largestFree, bytesOf(i));
    }
  }
  return {kinds: found, live, damaged, largestFree};
}

/// The first object with a name at an offset or behind it, as an index of `OBJECTS`.
function objectFrom(offset) {
  let low = 0, high = OBJECTS.length;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (OBJECTS[middle][0] < offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Lines for the objects with names between two offsets.
function describeObjects(begin, end) {
  const first = objectFrom(begin), last = objectFrom(end);
  const lines = OBJECTS.slice(first, Math.min(last, first + MOST_OBJECTS_TOLD))
      .map(([offset, bytes, name, type]) => `object ${name}: ${type}, ${size(bytes)} at ${hex(offset)}`);
  if (last - first > MOST_OBJECTS_TOLD) {
    lines.push(`and ${several(last - first - MOST_OBJECTS_TOLD, "object")} more with names`);
  }
  return lines;
}

function describe(i) {
  const lines = [`offset ${hex(heap.start[i] * PAGE)}`, exact(bytesOf(i))];
  lines.push(isDamaged(i) ? "slab, damaged" : LABELS[heap.kind[i]]);
  if (OF_STORE && heap.kind[i] === SLAB) {
    lines.push(`${heap.live[i]} of ${PAGE} B in use`);
  } else if (heap.kind[i] === SLAB && !isDamaged(i)) {
    const [block, blocks] = classOf(i);
    lines.push(`blocks of ${block} B`, `${heap.live[i]} of ${blocks} live (${percent(heap.live[i], blocks)})`);
  }
  const least = summary.backed_exactly || heap.backed[i] === bytesOf(i) ? "" : "at least ";
  lines.push(`on disk: ${least}${exact(heap.backed[i])}`);
  return lines.concat(describeObjects(heap.start[i] * PAGE, heap.start[i + 1] * PAGE));
}

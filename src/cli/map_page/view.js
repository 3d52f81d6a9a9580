// Draws the extents of a heap (model.js): numbers, a row a segment, and every extent of a part.

const MOST_CELLS = 65536;  // of the detail
const MOST_ROWS = 20000;   // of the overview; a row may stand for several segments
const MOST_LISTED = 300;

let colors = {};  // by name, from the style sheet
let only = -1;    // the kind that is picked out in the table, or none
let chosen = -1;  // the extent that is looked at
let view = {from: 0, to: 1};  // pages that the detail shows
let grid = null;  // how it shows them

// --- colours -------------------------------------------------------------------------------------------------------

function readColors() {
  const style = getComputedStyle(document.documentElement);
  colors = {};
  for (const name of [...KINDS, "hole", KINDS[SLAB] + "-empty", "damaged", "panel", "ink", "dim", "line", "accent"]) {
    const digits = parseInt(style.getPropertyValue("--" + name).trim().slice(1), 16);
    colors[name] = [digits >> 16 & 255, digits >> 8 & 255, digits & 255];
  }
}
const mix = (a, b, share) => a.map((value, i) => value + (b[i] - value) * share);
const css = (color) => `rgb(${color.map(Math.round).join(" ")})`;
const faint = (color, kind) => (only < 0 || only === kind ? color : mix(colors.panel, color, 0.12));

function colorOf(i) {
  const kind = heap.kind[i];
  if (kind === FREE) {
    return faint(mix(colors.hole, colors.free, heap.backed[i] / bytesOf(i)), kind);
  }
  if (kind !== SLAB) {
    return faint(colors[KINDS[kind]], kind);
  }
  return faint(isDamaged(i) ? colors.damaged : mix(colors[KINDS[SLAB] + "-empty"], colors[KINDS[SLAB]], liveShare(i)), kind);
}

/// What `count` cells of `per` pages each hold, from page `from` on: pages by kind, live and backed pages.
function cells(from, per, count) {
  const found = [];
  let i = extentAt(from);
  for (let cell = 0; cell < count; ++cell) {
    const begin = from + cell * per, end = Math.min(begin + per, heap.pages);
    const one = {begin, end, first: i, kinds: KINDS.map(() => 0), live: 0, damaged: 0, backedFree: 0, backed: 0};
    if (begin >= heap.pages) {
      break;
    }
    for (;;) {
      const inside = Math.min(heap.start[i + 1], end) - Math.max(heap.start[i], begin);
      const backed = inside * heap.backed[i] / bytesOf(i);
      one.kinds[heap.kind[i]] += inside;
      one.backed += backed;
      if (heap.kind[i] === SLAB) {
        one.live += inside * liveShare(i);
        one.damaged += isDamaged(i) ? inside : 0;
      } else if (heap.kind[i] === FREE) {
        one.backedFree += backed;
      }
      if (heap.start[i + 1] > end || i + 1 >= heap.count) {
        break;
      }
      ++i;
      if (heap.start[i] >= end) {
        break;
      }
    }
    one.last = heap.start[i] >= end ? i - 1 : i;
    found.push(one);
  }
  return found;
}

/// The kind that most of what is used has; as strong as the share of what is used.
function colorOfCell(cell) {
  const total = cell.end - cell.begin, used = total - cell.kinds[FREE];
  const empty = mix(colors.hole, colors.free, used === total ? 0 : cell.backedFree / cell.kinds[FREE]);
  if (used === 0) {
    return faint(empty, FREE);
  }
  let kind = BIG;
  for (let other = HUGE; other < KINDS.length; ++other) {
    kind = cell.kinds[other] > cell.kinds[kind] ? other : kind;
  }
  if (only > 0) {
    kind = cell.kinds[only] > 0 ? only : kind;
  }
  let color = colors[KINDS[kind]];
  if (kind === SLAB) {
    color = cell.damaged > 0 ? colors.damaged : mix(colors[KINDS[SLAB] + "-empty"], color, cell.live / cell.kinds[SLAB]);
  }
  return faint(mix(empty, color, 0.25 + 0.75 * cell.kinds[kind] / total), kind);
}

function describeCell(cell) {
  const total = cell.end - cell.begin;
  const count = cell.last - cell.first + 1;
  const [begin, end] = [Math.floor(cell.begin), Math.ceil(cell.end)];
  const lines = [`offset ${hex(begin * PAGE)} to ${hex(end * PAGE)}: ${size(total * PAGE)}, ` +
                 several(count, "extent")];
  cell.kinds.forEach((pages, kind) => {
    if (pages > 0) {
      const live = kind === SLAB ? `, ${percent(cell.live, pages)} of it ${OF_STORE ? "in use" : "live"}` : "";
      lines.push(`${LABELS[kind]}: ${size(pages * PAGE)} (${percent(pages, total)})${live}`);
    }
  });
  lines.push(`on disk: ${summary.backed_exactly ? "" : "at least "}${size(cell.backed * PAGE)}`);
  return lines.concat(describeObjects(begin * PAGE, end * PAGE));
}

function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}

/// Cells beside each other, neighbours of one colour as one rectangle; `place`: x of the left, y, width, height.
function drawCells(context, found, step, place) {
  const paints = found.map((cell) => css(colorOfCell(cell)));
  for (let first = 0, i = 0; first < found.length; first = i) {
    while (i < found.length && paints[i] === paints[first]) {
      ++i;
    }
    const x = Math.floor(first * step);
    context.fillStyle = paints[first];
    context.fillRect(place.x + x, place.y, Math.floor(i * step) - x, place.height);
  }
}

/// Marks what the detail shows among `pages` pages from `from` on.
function drawFrame(context, from, pages, place) {
  const begin = Math.max(view.from, from), end = Math.min(view.to, from + pages);
  if (begin < end) {
    const scale = place.width / pages;
    context.strokeStyle = css(colors.accent);
    context.lineWidth = 2;
    context.strokeRect(place.x + (begin - from) * scale, place.y + 1, Math.max(3, (end - begin) * scale - 1),
                       place.height - 2);
  }
}

// --- the whole heap in one strip -----------------------------------------------------------------------------------

const STRIP_HEIGHT = 34;
let strip = null;  // its cells, and the width that they are for

function drawStrip() {
  const width = $("strip-canvas").parentElement.clientWidth;
  const context = prepare($("strip-canvas"), width, STRIP_HEIGHT);
  if (strip === null || strip.width !== width) {
    const count = Math.max(1, Math.min(Math.floor(width), heap.pages));
    strip = {width, step: width / count, cells: cells(0, heap.pages / count, count)};
  }
  drawCells(context, strip.cells, strip.step, {x: 0, y: 4, height: STRIP_HEIGHT - 8});
  drawFrame(context, 0, heap.pages, {x: 1, y: 1, width: width - 2, height: STRIP_HEIGHT - 2});
}

// --- overview: a row a segment -------------------------------------------------------------------------------------

const LABEL_WIDTH = 92;

function overviewShape() {
  const segments = Math.max(1, Math.ceil(heap.pages / summary.segment_pages));
  const together = Math.ceil(segments / MOST_ROWS);
  const rows = Math.ceil(segments / together);
  const height = rows <= 6 ? 30 : rows <= 16 ? 22 : 14;
  const width = $("overview").clientWidth;
  const pages = summary.segment_pages * together;
  let count = Math.min(1024, pages);
  while (count > 64 && count > width - LABEL_WIDTH - 6) {
    count /= 2;
  }
  return {rows, together, height, width, pages, count, per: pages / count, step: (width - LABEL_WIDTH - 6) / count};
}

function drawOverview() {
  const box = $("overview"), shape = overviewShape();
  const whole = shape.rows * shape.height;
  $("overview-space").style.height = whole + "px";
  const height = Math.min(whole, box.clientHeight || whole);
  const context = prepare($("overview-canvas"), shape.width, height);
  context.font = "11px ui-monospace, 'DejaVu Sans Mono', 'Liberation Mono', monospace";
  context.textBaseline = "middle";
  const top = box.scrollTop, gap = shape.height > 16 ? 4 : 2;
  for (let row = Math.floor(top / shape.height); row < shape.rows && row * shape.height < top + height; ++row) {
    const y = row * shape.height - top, from = row * shape.pages;
    context.fillStyle = css(colors.dim);
    context.fillText(size(from * PAGE, from * PAGE < 2 ** 30 ? 0 : 2), 8, y + shape.height / 2 + 0.5);
    const place = {x: LABEL_WIDTH, y: y + gap / 2, width: shape.step * shape.count, height: shape.height - gap};
    drawCells(context, cells(from, shape.per, shape.count), shape.step, place);
    drawFrame(context, from, shape.pages, {...place, y, height: shape.height});
  }
  const together = shape.together > 1 ? `, ${shape.together} segments a row` : "";
  $("overview-note").textContent = `a row is ${size(shape.pages * PAGE, 0)}${together}; a cell ${size(shape.per * PAGE, 0)}, ` +
      "coloured by what most of it holds, the paler the emptier; click one for its segment";
}

function overviewCell(x, y) {
  const shape = overviewShape();
  const row = Math.floor((y + $("overview").scrollTop) / shape.height);
  const column = Math.floor((x - LABEL_WIDTH) / shape.step);
  if (row < 0 || row >= shape.rows) {
    return null;
  }
  const from = row * shape.pages;
  const found = column >= 0 && column < shape.count ? cells(from + column * shape.per, shape.per, 1)[0] : null;
  return {from, to: Math.min(from + shape.pages, heap.pages), row, together: shape.together, cell: found};
}

// --- detail: every extent of the view ------------------------------------------------------------------------------

function detailShape() {
  const pages = view.to - view.from, width = $("detail-canvas").parentElement.clientWidth - 2;
  let per = 1;
  while (pages / per > MOST_CELLS) {
    per *= 2;
  }
  const count = Math.ceil(pages / per);
  let columns = 16;
  const high = () => Math.max(3, Math.min(22, width / columns));
  while (columns < 512 && Math.ceil(count / columns) * high() > 380) {
    columns *= 2;
  }
  return {per, count, columns, rows: Math.ceil(count / columns), w: width / columns, h: high(), width};
}

function drawDetail() {
  grid = detailShape();
  const context = prepare($("detail-canvas"), grid.width, Math.ceil(grid.rows * grid.h));
  const gap = grid.w >= 5 ? 1 : 0;
  const draw = (first, last, color) => {  // cells [first, last)
    context.fillStyle = css(color);
    for (let at = first; at < last;) {
      const row = Math.floor(at / grid.columns), end = Math.min(last, (row + 1) * grid.columns);
      const x = Math.floor((at - row * grid.columns) * grid.w), to = Math.floor((end - row * grid.columns) * grid.w);
      const y = Math.floor(row * grid.h);
      const height = Math.floor((row + 1) * grid.h) - y;
      context.fillRect(x, y, to - x - (end === last ? gap : 0), height - (grid.h >= 5 ? 1 : 0));
      at = end;
    }
  };
  if (grid.per === 1) {
    for (let i = extentAt(view.from); i < heap.count && heap.start[i] < view.to; ++i) {
      draw(Math.max(heap.start[i], view.from) - view.from, Math.min(heap.start[i + 1], view.to) - view.from, colorOf(i));
    }
  } else {
    cells(view.from, grid.per, grid.count).forEach((cell, i) => draw(i, i + 1, colorOfCell(cell)));
  }
  if (chosen >= 0 && heap.start[chosen] < view.to && heap.start[chosen + 1] > view.from) {
    outline(context);
  }
  const first = extentAt(view.from), last = extentAt(view.to - 1), count = last - first + 1;
  $("detail-title").textContent = `${hex(view.from * PAGE)} to ${hex(view.to * PAGE)}: ` +
      `${size((view.to - view.from) * PAGE)}, ${several(count, "extent")}, ` +
      (grid.per === 1 ? "a cell a page" : `a cell is ${size(grid.per * PAGE)}`);
}

/// A line above and below the chosen extent, row by row.
function outline(context) {
  const first = Math.max(0, Math.floor((heap.start[chosen] - view.from) / grid.per));
  const last = Math.min(grid.count, Math.ceil((heap.start[chosen + 1] - view.from) / grid.per));
  context.strokeStyle = css(colors.ink);
  context.lineWidth = 1.5;
  for (let row = Math.floor(first / grid.columns); row * grid.columns < last; ++row) {
    const begin = Math.max(first, row * grid.columns) - row * grid.columns;
    const end = Math.min(last, (row + 1) * grid.columns) - row * grid.columns;
    context.strokeRect(begin * grid.w + 0.5, row * grid.h + 0.5, Math.max(2, (end - begin) * grid.w - 1),
                       Math.max(2, grid.h - 1));
  }
}

/// What is at a point of the detail: an extent, or a cell of several.
function detailAt(x, y) {
  const column = Math.floor(x / grid.w), row = Math.floor(y / grid.h), index = row * grid.columns + column;
  if (column < 0 || column >= grid.columns || index < 0 || index >= grid.count) {
    return null;
  }
  const page = view.from + index * grid.per;
  const cell = cells(page, grid.per, 1)[0];
  return {page, lines: cell.first === cell.last ? describe(cell.first) : describeCell(cell),
          extent: cell.first === cell.last ? cell.first : -1};
}

function fillList() {
  const first = extentAt(view.from), last = extentAt(view.to - 1);
  const begin = chosen >= first && chosen <= last ? Math.max(first, chosen - Math.floor(MOST_LISTED / 2)) : first;
  const end = Math.min(last + 1, begin + MOST_LISTED);
  const body = $("extents").tBodies[0];
  body.replaceChildren();
  for (let i = begin; i < end; ++i) {
    const slab = heap.kind[i] === SLAB && !isDamaged(i), row = body.insertRow();
    row.className = i === chosen ? "chosen" : "";
    row.dataset.extent = i;
    const values = [hex(heap.start[i] * PAGE), exact(bytesOf(i)), isDamaged(i) ? "slab, damaged" : LABELS[heap.kind[i]],
                    slab && !OF_STORE ? `${classOf(i)[0]} B` : "", slab ? `${heap.live[i]} of ${classOf(i)[1]}` : "",
                    exact(heap.backed[i])];
    values.forEach((value) => row.insertCell().textContent = value);
    const swatch = row.cells[2].insertBefore(document.createElement("span"), row.cells[2].firstChild);
    swatch.className = "swatch";
    swatch.style.background = css(colorOf(i));
    if (i === chosen) {
      $("list").scrollTop = row.offsetTop - 120;
    }
  }
  if (end - begin <= last - first) {
    const cell = body.insertRow().insertCell();
    cell.colSpan = 6;
    cell.textContent = `${grouped(end - begin)} of ${grouped(last - first + 1)} extents of this view; zoom in for others`;
  }
}

// --- looking around ------------------------------------------------------------------------------------------------

function show(from, to) {
  const length = Math.min(Math.max(16, Math.round(to - from)), heap.pages);
  const begin = Math.max(0, Math.min(Math.round(from), heap.pages - length));
  view = {from: begin, to: begin + length};
  redraw();
}

function redraw() {
  drawStrip();
  drawOverview();
  drawDetail();
  fillList();
}

function choose(i) {
  chosen = i;
  $("inspector").textContent = describe(i).join(" \u00b7 ");
}

function tip(lines, x, y) {
  const box = $("tip");
  box.hidden = lines === null;
  if (lines !== null) {
    box.textContent = lines.join("\n");
    box.style.left = Math.max(4, Math.min(x + 14, window.innerWidth - box.offsetWidth - 8)) + "px";
    box.style.top = (y + 18 + box.offsetHeight > window.innerHeight ? y - box.offsetHeight - 8 : y + 18) + "px";
  }
}

/// Points at an offset, as a mouse would.
function goTo(offset) {
  const page = Math.floor(offset / PAGE);
  if (!(page >= 0 && page < heap.pages)) {
    $("inspector").textContent = `offset ${hex(offset)} lies outside of the ${summary.kind}`;
    return;
  }
  const segment = Math.floor(page / summary.segment_pages) * summary.segment_pages;
  const span = Math.min(summary.segment_pages, MOST_CELLS), part = Math.floor((page - segment) / span) * span;
  choose(extentAt(page));
  show(segment + part, Math.min(segment + part + span, heap.pages));
  reveal(page);
  const index = Math.floor((page - view.from) / grid.per), box = $("detail-canvas").getBoundingClientRect();
  pointDetail(box.left + (index % grid.columns + 0.5) * grid.w, box.top + (Math.floor(index / grid.columns) + 0.5) * grid.h);
}

/// An offset, or the name of an object.
function goToText(text) {
  const named = OBJECTS.find(([, , name]) => name === text);
  goTo(named === undefined ? Number(text || "x") : named[0]);
}

function pointDetail(x, y) {
  const box = $("detail-canvas").getBoundingClientRect();
  const found = detailAt(x - box.left, y - box.top);
  tip(found === null ? null : found.lines, x, y);
  return found;
}

/// Shows the segment that holds the page.
function showSegment(page) {
  const segment = Math.floor(page / summary.segment_pages) * summary.segment_pages;
  show(segment, segment + summary.segment_pages);
}

/// Scrolls the overview to the page.
function reveal(page) {
  const shape = overviewShape(), box = $("overview");
  const y = Math.floor(page / shape.pages) * shape.height;
  if (y < box.scrollTop || y + shape.height > box.scrollTop + box.clientHeight) {
    box.scrollTop = y - box.clientHeight / 2;
    drawOverview();
  }
}

function listenToStrip() {
  const canvas = $("strip-canvas");
  const hit = (event) => {
    const x = event.clientX - canvas.getBoundingClientRect().left;
    return strip.cells[Math.max(0, Math.min(Math.floor(x / strip.step), strip.cells.length - 1))];
  };
  canvas.addEventListener("mousemove", (event) => tip(describeCell(hit(event)), event.clientX, event.clientY));
  canvas.addEventListener("mouseleave", () => tip(null));
  canvas.addEventListener("click", (event) => {
    const cell = hit(event);
    choose(cell.first);
    showSegment(Math.floor(cell.begin));
    reveal(Math.floor(cell.begin));
  });
}

function listenToMap() {
  const overview = $("overview-canvas"), detail = $("detail-canvas");
  const overviewHit = (event) => {
    const box = overview.getBoundingClientRect();
    return overviewCell(event.clientX - box.left, event.clientY - box.top);
  };
  overview.addEventListener("mousemove", (event) => {
    const hit = overviewHit(event);
    const name = hit === null ? "" : hit.together === 1 ? `segment ${hit.row}` : `segments from ${hit.row * hit.together}`;
    tip(hit === null || hit.cell === null ? null : [name, ...describeCell(hit.cell)], event.clientX, event.clientY);
  });
  overview.addEventListener("click", (event) => {
    const hit = overviewHit(event);
    if (hit !== null) {
      if (hit.cell !== null && hit.cell.begin < heap.pages) {
        choose(hit.cell.first);
      }
      show(hit.from, hit.to);
    }
  });
  detail.addEventListener("mousemove", (event) => pointDetail(event.clientX, event.clientY));
  detail.addEventListener("click", (event) => {
    const found = pointDetail(event.clientX, event.clientY);
    if (found === null) {
      return;
    }
    choose(found.extent >= 0 ? found.extent : extentAt(found.page));
    const length = (view.to - view.from) / 8;
    if (grid.per > 1) {
      show(found.page - length / 2, found.page + length / 2);
    } else {
      redraw();
    }
  });
  for (const canvas of [overview, detail]) {
    canvas.addEventListener("mouseleave", () => tip(null));
  }
  $("overview").addEventListener("scroll", drawOverview);
}

function listenToTools() {
  const length = () => view.to - view.from;
  const middle = () => chosen >= 0 && heap.start[chosen] < view.to && heap.start[chosen + 1] > view.from
      ? Math.max(heap.start[chosen], view.from) : (view.from + view.to) / 2;
  const zoom = (factor) => show(middle() - length() * factor / 2, middle() + length() * factor / 2);
  $("closer").addEventListener("click", () => zoom(0.5));
  $("wider").addEventListener("click", () => zoom(2));
  $("earlier").addEventListener("click", () => show(view.from - length(), view.from));
  $("later").addEventListener("click", () => show(view.to, view.to + length()));
  $("goto").addEventListener("change", (event) => goToText(event.target.value.trim()));
  $("extents").tBodies[0].addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row !== null && row.dataset.extent !== undefined) {
      choose(Number(row.dataset.extent));
      redraw();
    }
  });
  window.addEventListener("resize", redraw);
  window.addEventListener("hashchange", followHash);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColors();
    redraw();
  });
}

/// page.html#at=0x10000 points at an offset.
function followHash() {
  const asked = /^#at=(0x[0-9a-f]+|[0-9]+)$/i.exec(location.hash);
  if (asked !== null) {
    goTo(Number(asked[1]));
  }
}

// --- numbers -------------------------------------------------------------------------------------------------------

function identity() {
  return OF_STORE ? [summary.description, `transaction ${summary.transaction}`]
                  : [summary.description, `uuid ${summary.uuid}`, `domain ${summary.domain}`, `state ${summary.state}`,
                     `commit ${summary.commit.number}, ${summary.commit.time}`];
}

function tiles() {
  const bytes = summary.bytes, fragmentation = summary.fragmentation;
  const free = [size(bytes.free_extents), "free extents", `the largest ${size(bytes.largest_free_extent)}`];
  const inUse = `${percent(bytes.allocated, bytes.user)} of the ${OF_STORE ? "file" : "user space"}`;
  if (OF_STORE) {
    return [[size(bytes.on_disk), "file on disk", `apparent ${size(bytes.apparent)}`],
            [size(bytes.allocated), "in use", inUse], free,
            [percent(fragmentation.slabs, 1), "fragmentation of leaves", "1 - in use / size of leaves"]];
  }
  return [[size(bytes.on_disk), "files on disk", `apparent ${size(bytes.apparent)}`],
          [size(bytes.user), "user space", several(summary.segments, "segment") + ` of ${size(summary.segment_pages * PAGE, 0)}`],
          [size(bytes.allocated), "allocated", inUse], free,
          [percent(fragmentation.external, 1), "external fragmentation", "1 - largest free / all free"],
          [percent(fragmentation.slabs, 1), "fragmentation of slabs", "1 - live / size of slabs"]];
}

function fillHeader() {
  $("heap-path").textContent = summary.path;
  document.title = "Holdfast map: " + summary.path;
  $("heap-identity").textContent = identity().filter((part) => part !== "").join(" \u00b7 ");
  if (OF_STORE) {
    $("overview-title").textContent = "The whole file";
    $("kinds").tHead.rows[0].cells[3].textContent = "of the file";
    $("extents").tHead.rows[0].cells[3].textContent = "";
    $("extents").tHead.rows[0].cells[4].textContent = "bytes in use";
  }
  for (const [value, name, more] of tiles()) {
    const tile = $("tiles").appendChild(document.createElement("div"));
    tile.className = "tile";
    tile.append(Object.assign(document.createElement("b"), {textContent: value}),
                Object.assign(document.createElement("span"), {textContent: name}),
                Object.assign(document.createElement("span"), {textContent: more}));
  }
}

function fillKinds(found) {
  const most = Math.max(...found.kinds.map((each) => each.bytes));
  found.kinds.forEach((each, kind) => {
    const row = $("kinds").tBodies[0].insertRow();
    Object.assign(row.dataset, {kind: KINDS[kind], extents: each.extents, bytes: each.bytes, backed: each.backed});
    const least = summary.backed_exactly || each.backed === each.bytes ? "" : "\u2265 ";
    const values = ["", grouped(each.extents), size(each.bytes), percent(each.bytes, heap.pages * PAGE), least + size(each.backed), ""];
    values.forEach((value) => row.insertCell().textContent = value);
    const swatch = Object.assign(document.createElement("span"), {className: "swatch"});
    swatch.style.background = `var(--${KINDS[kind]})`;
    row.cells[0].append(swatch, LABELS[kind] + NOTES[kind]);
    const bar = row.cells[5].appendChild(Object.assign(document.createElement("span"), {className: "share"}));
    bar.style.background = `var(--${KINDS[kind]})`;
    bar.style.width = 100 * each.bytes / most + "%";
    row.title = "Picks this kind out";
    row.addEventListener("click", () => {
      only = only === kind ? -1 : kind;
      Array.from($("kinds").tBodies[0].rows).forEach((other, i) => other.className = only < 0 || only === i ? "" : "muted");
      redraw();
    });
  });
  const flat = (name, text) => {
    const box = $("shades").appendChild(Object.assign(document.createElement("i"), {className: "flat"}));
    box.style.background = `var(--${name})`;
    $("shades").append(text);
  };
  const shade = document.createElement("i");
  shade.style.background = `linear-gradient(to right, var(--${KINDS[SLAB]}-empty), var(--${KINDS[SLAB]}))`;
  $("shades").append(OF_STORE ? "leaves: empty" : "slabs: empty", shade, OF_STORE ? "full" : "full (live blocks)");
  flat("free", "free, on disk");
  flat("hole", summary.backed_exactly ? "free, a hole in the file: costs nothing"
                                   : "free, without content (this file system does not tell whether it is reserved)");
  if (found.damaged > 0) {
    flat("damaged", several(found.damaged, "damaged slab"));
  }
}

/// What the page counts is what the program counted.
function compare(found) {
  KINDS.forEach((name, kind) => {
    const said = summary.kinds[name], here = found.kinds[kind];
    if (said.extents !== here.extents || said.bytes !== here.bytes || said.backed !== here.backed) {
      throw new Error(`the data of this page do not add up: ${name}`);
    }
  });
  if (found.live !== summary.slab_live_bytes || found.largestFree !== summary.bytes.largest_free_extent) {
    throw new Error("the data of this page do not add up: live bytes or the largest free extent");
  }
}

function fail(what) {
  $("failure").hidden = false;
  $("failure").textContent = String(what);
}

window.addEventListener("error", (event) => fail(event.message));
const started = performance.now();
heap = decode($("data").textContent.trim(), summary.extents);
const counted = totals();
compare(counted);
readColors();
fillHeader();
fillKinds(counted);
listenToStrip();
listenToMap();
listenToTools();
show(0, summary.segment_pages);
followHash();
Object.assign(document.body.dataset, {ready: "yes", extents: heap.count, rows: overviewShape().rows,
                                      milliseconds: Math.round(performance.now() - started)});

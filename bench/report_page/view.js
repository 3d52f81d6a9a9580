"use strict";
// Draws what holdfast-bench measured: a plot against the number of threads and a table for each workload.
const $ = id => document.getElementById(id);
const metrics = {
  mops: {title: "throughput", unit: "million calls a second", digits: 2},
  cpu_ns: {title: "processor time of a call", unit: "ns", digits: 1},
  p50_ns: {title: "p50 of a call", unit: "ns", digits: 0},
  p999_ns: {title: "p99.9 of a call", unit: "ns", digits: 0},
  p9999_ns: {title: "p99.99 of a call", unit: "ns", digits: 0},
  max_ns: {title: "longest call", unit: "ns", digits: 0},
  taken_ratio: {title: "space taken by space live", unit: "", digits: 2},
  taken_mib: {title: "space taken", unit: "MiB", digits: 1},
};
const selectable = ["mops", "cpu_ns", "p50_ns", "p999_ns", "p9999_ns", "max_ns"];
const colours = ["#0b62a8", "#c2185b", "#0e8a5f", "#e0a100", "#7a4fb5", "#d4541f", "#4aa3c7", "#8a6d3b", "#7b8790"];
let plots = [];

function element(name, content, parent, className) {
  const made = document.createElement(name);
  made.textContent = content;
  if (className) made.className = className;
  parent.append(made);
  return made;
}
const figure = (value, digits) =>
  value === undefined ? "-" : value.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
const unique = values => [...new Set(values)];
const series_of = run => run.backend === "holdfast" ? `holdfast ${run.durability} ${run.domain}` : run.backend;

// Least and greatest of all rounds, as a line through each point.
function draw_ranges(plot, ranges) {
  const pen = plot.ctx;
  pen.save();
  ranges.forEach((range, index) => {
    if (!plot.series[index + 1].show) return;
    pen.strokeStyle = plot.series[index + 1].stroke(plot, index + 1);
    pen.lineWidth = devicePixelRatio;
    range.forEach((ends, x) => {
      if (!ends) return;
      const across = plot.valToPos(x, "x", true);
      pen.beginPath();
      pen.moveTo(across, plot.valToPos(ends.least, "y", true));
      pen.lineTo(across, plot.valToPos(ends.greatest, "y", true));
      pen.stroke();
    });
  });
  pen.restore();
}

// A place for each number of threads, all at the same distance.
function draw_plot(parent, runs, key, all_series) {
  const metric = metrics[key];
  const measured = runs.filter(run => run[key] !== undefined);
  if (measured.length === 0) return;
  const threads = unique(measured.map(run => run.threads)).sort((a, b) => a - b);
  const names = all_series.filter(name => measured.some(run => series_of(run) === name));
  const find = (name, count) => measured.find(run => series_of(run) === name && run.threads === count);
  const values = names.map(name => threads.map(count => find(name, count)?.[key].median ?? null));
  const ranges = names.map(name => threads.map(count => find(name, count)?.[key]));
  const logarithmic = $("logarithmic").checked;
  const ink = getComputedStyle(document.body).color;
  const line = getComputedStyle(document.documentElement).getPropertyValue("--line");
  const axis = {stroke: ink, grid: {stroke: line, width: 1}, ticks: {stroke: line, width: 1}};
  const box = element("div", "", parent, "plot");
  element("h3", metric.title + (metric.unit ? ", " + metric.unit : ""), box);
  plots.push(new uPlot({
    width: 560,
    height: 300,
    scales: {
      x: {time: false, range: [-0.4, threads.length - 0.6]},
      y: logarithmic ? {distr: 3} : {range: (_, least, greatest) => [0, Math.max(greatest, ...ranges.flat().map(
        ends => ends ? ends.greatest : 0)) * 1.08 || 1]},
    },
    axes: [
      {...axis, splits: threads.map((_, x) => x), values: threads.map(String), label: "threads"},
      {...axis, size: 70},
    ],
    series: [
      {label: "threads", value: (_, x) => x === null ? "-" : threads[x]},
      ...names.map(name => ({
        label: name,
        stroke: colours[all_series.indexOf(name) % colours.length],
        width: name.startsWith("holdfast") ? 3 : 1.5,
        points: {show: true, size: 7},
        value: (_, value) => value === null ? "-" : figure(value, metric.digits),
      })),
    ],
    hooks: {draw: [plot => draw_ranges(plot, ranges)]},
  }, [threads.map((_, x) => x), ...values], box));
}

function draw_table(parent, runs) {
  const keys = Object.keys(metrics).filter(key => runs.some(run => run[key] !== undefined));
  const table = element("table", "", parent);
  const heading = element("tr", "", element("thead", "", table));
  for (const name of ["what", "threads", ...keys.map(key => metrics[key].title)]) element("th", name, heading);
  const body = element("tbody", "", table);
  for (const run of runs) {
    const row = element("tr", "", body);
    element("td", series_of(run), row);
    element("td", String(run.threads), row);
    for (const key of keys) {
      const cell = element("td", figure(run[key]?.median, metrics[key].digits), row);
      if (run[key]) cell.title = `${figure(run[key].least, 2)} to ${figure(run[key].greatest, 2)}`;
    }
  }
}

function draw_goals(goals) {
  $("goals").hidden = goals.length === 0;
  const body = $("goals").querySelector("tbody");
  for (const goal of goals) {
    const row = element("tr", "", body);
    element("td", goal.goal, row);
    element("td", `${figure(goal.measured, 2)} ${goal.unit}`, row);
    element("td", goal.relation, row);
    element("td", `${figure(goal.limit, 2)} ${goal.unit}`, row);
    element("td", goal.verdict, row, goal.verdict.toLowerCase());
  }
}

function draw_workloads(data) {
  plots.forEach(plot => plot.destroy());
  plots = [];
  $("workloads").replaceChildren();
  const all_series = unique(data.runs.map(series_of));
  for (const workload of unique(data.runs.map(run => run.workload))) {
    const runs = data.runs.filter(run => run.workload === workload);
    const section = element("section", "", $("workloads"));
    section.dataset.workload = workload;
    element("h2", workload, section);
    const box = element("div", "", section, "plots");
    const before = plots.length;
    const space = runs.some(run => run.taken_ratio) ? "taken_ratio" : "taken_mib";
    for (const key of [$("metric").value, space]) draw_plot(box, runs, key, all_series);
    section.dataset.plots = plots.length - before;
    draw_table(section, runs);
  }
  document.body.dataset.plots = plots.length;
}

try {
  const data = JSON.parse($("data").textContent);
  for (const key of selectable) $("metric").add(new Option(metrics[key].title, key));
  $("environment").textContent = [...Object.values(data.environment), `${data.rounds} rounds`, `seed ${data.seed}`,
    ...(data.smoke ? ["smoke run: the numbers mean nothing"] : [])].join(" \u00b7 ");
  draw_goals(data.goals);
  draw_workloads(data);
  $("metric").onchange = $("logarithmic").onchange = () => draw_workloads(data);
  document.body.dataset.ready = "yes";
} catch (failure) {
  $("failure").hidden = false;
  $("failure").textContent = String(failure);
  throw failure;
}

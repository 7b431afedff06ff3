// The curves and the newest output of one job.
"use strict";
(() => {
  const charts = document.getElementById("charts"), log = document.getElementById("log"), said = document.getElementById("said");
  const job = encodeURIComponent(charts.dataset.charts);
  const HEIGHT = 92, LAST = 22, LABELS = 14, MOST_METRICS = 8, MOST_LINES = 2000, NEAR_PX = 6, APART_PX = 15;
  const drawn = new Map();
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const exact = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const OWN = [["goodput", "Goodput, samples/s"], ["batch_size", "Batch size"], ["lr", "Learning rate"], ["noise_scale", "Gradient noise, samples"], ["step_s", "Step time, s"]];

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const get = async (path) => {
    const answer = await fetch(path);
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.json();
  };

  // The server lists the resizes with their reasons; each is a line through all curves.
  const resizes = () => [...document.querySelectorAll("[data-resize]")].map((one) => ({ at: +one.dataset.resize, number: one.dataset.number, text: one.querySelector(".what").textContent }));

  function lines(chart) {
    const { ctx, bbox } = chart, first = [...drawn.values()][0] === chart;
    let last = Infinity;
    ctx.save();
    ctx.strokeStyle = style("--quiet");
    ctx.fillStyle = style("--quiet");
    ctx.font = `${10 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    ctx.textBaseline = "bottom";
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const { at, number } of resizes()) { // the newest come first
      const x = chart.valToPos(at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (first && last - x > APART_PX * devicePixelRatio) {
        ctx.fillText(number, x, bbox.top - 1);
        last = x;
      }
    }
    ctx.restore();
  }

  function tell(chart) {
    const { left, idx } = chart.cursor;
    if (left === undefined || left < 0) { said.hidden = true; return; }
    const near = resizes().find(({ at }) => Math.abs(chart.valToPos(at, "x") - left) <= NEAR_PX);
    const value = idx === null || idx === undefined ? null : chart.data[1][idx];
    const at = near ? near.at : chart.posToVal(left, "x");
    said.textContent = `${exact.format(at * 1e3)}` + (near ? `, ${near.text}` : value === null || value === undefined ? "" : `, ${chart.title}: ${figure(value)}`);
    said.hidden = false;
  }

  const figure = (value) => (Math.abs(value) >= 1e6 || (value && Math.abs(value) < 1e-3) ? value.toExponential(1) : (+value.toPrecision(4)).toLocaleString("en"));

  // All curves have one time axis: it is written below the last one.
  let span = [0, 1];

  function draw(name, data, stepped, last) {
    const known = drawn.get(name);
    if (known) return known.setData(data);
    const place = charts.appendChild(document.createElement("div"));
    place.className = "chart";
    const axis = { stroke: style("--quiet"), grid: { stroke: style("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const figures = (chart, values) => values.map(figure);
    const times = (chart, values, index, space, step) => values.map((at) => (last ? (step < 60 ? exact : clock).format(at * 1e3) : ""));
    const options = {
      title: name, width: place.clientWidth, height: HEIGHT + (last ? LAST : 0) + (drawn.size ? 0 : LABELS), padding: [drawn.size ? 8 : LABELS, 10, 0, 0],
      cursor: { sync: { key: "job" }, y: false, points: { size: 5 } }, legend: { show: false },
      scales: { x: { time: true, range: () => span }, y: { range: (chart, low, high) => (stepped ? [0, Math.max(high * 1.15, 1)] : uPlot.rangeNum(low, high, 0.1, true)) } },
      axes: [{ ...axis, size: last ? 24 : 4, space: 80, values: times }, { ...axis, size: 62, space: 24, values: figures }],
      series: [{}, { stroke: style("--text"), width: 1.5, points: { show: data[0].length < 2 }, paths: stepped ? uPlot.paths.stepped({ align: 1 }) : undefined }],
      hooks: { drawClear: [lines], setCursor: [(chart) => { if (chart.root.matches(":hover")) tell(chart); }] },
    };
    const chart = new uPlot(options, data, place);
    chart.title = name;
    chart.root.querySelector("canvas").setAttribute("aria-hidden", "true");
    drawn.set(name, chart);
  }

  function reach(parts, named) {
    const at = [...parts.flatMap((row) => [row.start_s, row.end_s ?? Date.now() / 1e3]), ...named.flatMap(([, points]) => points.map((point) => point.at_s))];
    if (at.length) span = [Math.min(...at), Math.max(...at, Math.min(...at) + 1)];
  }

  function gpus(rows) {
    const running = rows.filter((row) => row.phase === "running").sort((one, other) => one.start_s - other.start_s);
    const now = Date.now() / 1000, at = [], held = [];
    running.forEach((row, index) => {
      const end = row.end_s ?? now;
      at.push(row.start_s, end);
      held.push(row.gpus, running[index + 1]?.start_s <= end || row.end_s === null ? row.gpus : 0);
    });
    return at.length ? [["GPUs", [at, held], true]] : [];
  }

  const series = (points) => [points.map((point) => point.at_s), points.map((point) => point.value)];

  async function curves() {
    try {
      const [timeline, history] = await Promise.all([get(`/v1/jobs/${job}/timeline`), get(`/v1/jobs/${job}/metrics`)]);
      const own = OWN.filter(([name]) => history.training?.[name]?.length).map(([name, title]) => [title, history.training[name]]);
      const named = [...own, ...Object.entries(history.metrics).filter(([, points]) => points.length).slice(0, MOST_METRICS)];
      reach(timeline.filter((row) => row.phase === "running"), named);
      const wanted = [...gpus(timeline), ...named.map(([name, points]) => [name, series(points), false])];
      if (!drawn.size) charts.replaceChildren();
      const names = wanted.map(([name]) => name).join("\n");
      if (names !== [...drawn.keys()].join("\n")) { // a curve has come: all are drawn anew, in their order
        for (const chart of drawn.values()) chart.destroy();
        drawn.clear();
        charts.replaceChildren();
      }
      wanted.forEach(([name, data, stepped], index) => draw(name, data, stepped, index === wanted.length - 1));
      if (!wanted.length) charts.textContent = "Curves come as soon as it trains.";
    } catch {
      if (!drawn.size) charts.textContent = "The curves cannot be had now. The page tries again.";
    } finally {
      charts.removeAttribute("aria-busy");
    }
  }

  let offset = null, busy = false, written = "";
  async function output() {
    if (busy || document.hidden) return;
    busy = true;
    try {
      const part = await get(`/v1/jobs/${job}/logs?` + (offset === null ? "tail=200" : `offset=${offset}`));
      offset = part.next;
      if (part.text) {
        const below = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
        written = (written + part.text).split("\n").slice(-MOST_LINES).join("\n");
        log.textContent = written;
        if (below) log.scrollTop = log.scrollHeight;
      } else if (!written) log.textContent = "Nothing is written yet.";
    } catch (error) {
      if (offset === null) log.textContent = error.message === "404" ? "Nothing is written yet." : "The output cannot be had now. The page tries again.";
    } finally {
      busy = false;
    }
  }

  addEventListener("resize", () => {
    for (const chart of drawn.values()) chart.setSize({ width: charts.clientWidth, height: chart.height });
  });
  charts.addEventListener("pointerleave", () => { said.hidden = true; });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const chart of drawn.values()) chart.destroy();
    drawn.clear();
    curves();
  });
  addEventListener("load", () => document.body.addEventListener("changed", seldom(curves, 5000)));
  setInterval(output, 3000);
  curves();
  output();
})();

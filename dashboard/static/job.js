// The curves and the newest output of one job.
"use strict";
(() => {
  const charts = document.getElementById("charts");
  const log = document.getElementById("log");
  const job = encodeURIComponent(charts.dataset.charts);
  const HEIGHT = 116, MOST_METRICS = 8, MOST_LINES = 2000;
  const drawn = new Map();
  let resizes = [];

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const get = async (path) => {
    const answer = await fetch(path);
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.json();
  };

  function lines(chart) {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.strokeStyle = style("--line");
    ctx.lineWidth = devicePixelRatio;
    for (const at of resizes) {
      const x = chart.valToPos(at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  // All curves have one time axis: it is written below the last one.
  let span = [0, 1];

  function draw(name, data, stepped) {
    const known = drawn.get(name);
    if (known) return known.setData(data);
    const place = charts.appendChild(document.createElement("div"));
    place.className = "chart";
    const axis = { stroke: style("--quiet"), grid: { stroke: style("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const figure = (chart, values) => values.map((value) => (Math.abs(value) >= 1e4 || (value && Math.abs(value) < 1e-3) ? value.toExponential(1) : String(+value.toPrecision(4))));
    const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    const times = (chart, values, index, space, step) => values.map((at) => (step < 60 ? new Date(at * 1e3).toLocaleTimeString(undefined, { hourCycle: "h23" }) : clock.format(at * 1e3)));
    const options = {
      title: name, width: place.clientWidth, height: HEIGHT,
      cursor: { sync: { key: "job" }, y: false }, legend: { show: false },
      scales: { x: { time: true, range: () => span }, y: { range: (chart, low, high) => (stepped ? [0, Math.max(high * 1.15, 1)] : uPlot.rangeNum(low, high, 0.1, true)) } },
      axes: [{ ...axis, size: 24, space: 80, values: times }, { ...axis, size: 58, values: figure }],
      series: [{}, { stroke: style("--text"), width: 1.5, points: { show: data[0].length < 2 }, paths: stepped ? uPlot.paths.stepped({ align: 1 }) : undefined }],
      hooks: { drawClear: [lines] },
    };
    drawn.set(name, new uPlot(options, data, place));
  }

  function reach(timeline, named) {
    const at = [...timeline.flatMap((row) => [row.start_s, row.end_s ?? Date.now() / 1e3]), ...named.flatMap(([, points]) => points.map((point) => point.at_s))];
    if (at.length) span = [Math.min(...at), Math.max(...at, Math.min(...at) + 1)];
  }

  function held(rows) {
    const running = rows.filter((row) => row.phase === "running").sort((one, other) => one.start_s - other.start_s);
    resizes = running.map((row) => row.start_s);
    const now = Date.now() / 1000, at = [], gpus = [], batch = [];
    running.forEach((row, index) => {
      const end = row.end_s ?? now;
      at.push(row.start_s, end);
      gpus.push(row.gpus, running[index + 1]?.start_s <= end ? row.gpus : row.end_s === null ? row.gpus : 0);
      batch.push(row.batch_size, row.batch_size);
    });
    if (!at.length) return false;
    draw("GPUs", [at, gpus], true);
    if (batch.some((size) => size !== null)) draw("Batch size", [at, batch], true);
    return true;
  }

  async function curves() {
    try {
      const [timeline, history] = await Promise.all([get(`/v1/jobs/${job}/timeline`), get(`/v1/jobs/${job}/metrics`)]);
      const named = Object.entries(history.metrics).filter(([, points]) => points.length).slice(0, MOST_METRICS);
      if (!drawn.size) charts.replaceChildren();
      reach(timeline.filter((row) => row.phase === "running"), named);
      let any = held(timeline);
      for (const [name, points] of named) {
        draw(name, [points.map((point) => point.at_s), points.map((point) => point.value)], false);
        any = true;
      }
      if (!any && !drawn.size) charts.textContent = "Curves come as soon as it trains.";
    } catch {
      if (!drawn.size) charts.textContent = "The curves cannot be had now.";
    }
  }

  let offset = null, busy = false, written = "";
  async function output() {
    if (busy) return;
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
    } catch {
      if (offset === null) log.textContent = "Nothing is written yet.";
    } finally {
      busy = false;
    }
  }

  addEventListener("resize", () => {
    for (const chart of drawn.values()) chart.setSize({ width: charts.clientWidth, height: HEIGHT });
  });
  addEventListener("load", () => document.body.addEventListener("changed", seldom(curves, 5000)));
  setInterval(output, 3000);
  curves();
  output();
})();

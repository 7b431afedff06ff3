// All jobs over time: only the rows in view are drawn, so that thousands are as fluent as ten.
"use strict";
(() => {
  const place = document.getElementById("timeline");
  const rows = place.querySelector(".rows");
  const canvas = place.querySelector("canvas");
  const tip = document.getElementById("under");
  const sentence = document.getElementById("span");
  const colours = JSON.parse(place.dataset.colours);
  const ROW = 20, HEAD = 26, LEFT = 170, MOST_JOBS = 2000, PAGE = 500;
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const dated = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const seconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const STEPS = [1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 12 * 3600, 86400, 7 * 86400, 30 * 86400];

  let jobs = [], most = 1, all = [0, 1], from = 0, until = 1, whole = true, due = false;

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const now = () => Date.now() / 1000;
  const get = async (path) => {
    const answer = await fetch(path);
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.json();
  };

  async function load() {
    try {
      const found = new Map();
      for (let cursor = ""; found.size < MOST_JOBS; ) {
        const page = await get(`/v1/jobs?limit=${PAGE}` + (cursor && `&cursor=${encodeURIComponent(cursor)}`));
        for (const job of page.items) found.set(job.id, { ...job, parts: [] });
        if (!(cursor = page.next)) break;
      }
      for (const part of await get("/v1/timeline")) found.get(part.job_id)?.parts.push(part);
      jobs = [...found.values()].sort((one, other) => one.submitted_s - other.submitted_s);
      most = Math.max(1, ...jobs.flatMap((job) => job.parts.map((part) => part.gpus)));
      all = jobs.length ? [jobs[0].submitted_s, Math.max(...jobs.map((job) => job.finished_s ?? now()))] : [now() - 3600, now()];
      if (all[1] - all[0] < 10) all[1] = all[0] + 10;
      if (whole) [from, until] = all;
      rows.style.height = `${HEAD + jobs.length * ROW + 8}px`;
      sentence.textContent = jobs.length ? `${jobs.length === 1 ? "1 job" : `${jobs.length} jobs`} since ${dated.format(all[0] * 1e3)}.` : "No job was submitted yet.";
      place.dataset.jobs = jobs.length;
      document.getElementById("none").hidden = jobs.length > 0;
      document.getElementById("some").hidden = jobs.length === 0;
      place.removeAttribute("aria-busy");
      if (jobs.length) draw();
    } catch {
      if (!jobs.length) sentence.textContent = "The timeline cannot be had now. The page tries again.";
      place.removeAttribute("aria-busy");
      setTimeout(load, 5000);
    }
  }

  const width = () => place.clientWidth;
  const x = (at) => LEFT + ((at - from) / (until - from)) * (width() - LEFT - 24);
  const at = (px) => from + ((px - LEFT) / (width() - LEFT - 24)) * (until - from);

  function draw() {
    if (due) return;
    due = true;
    requestAnimationFrame(() => { due = false; paint(); });
  }

  function paint() {
    const wide = width(), high = place.clientHeight, scale = devicePixelRatio || 1;
    if (canvas.width !== Math.round(wide * scale) || canvas.height !== Math.round(high * scale)) {
      canvas.width = Math.round(wide * scale);
      canvas.height = Math.round(high * scale);
      canvas.style.width = `${wide}px`;
      canvas.style.height = `${high}px`;
    }
    const pen = canvas.getContext("2d");
    const text = style("--text"), quiet = style("--quiet"), line = style("--line");
    const fill = Object.fromEntries(Object.entries(colours).map(([name, number]) => [name, style(`--type-${number}`)]));
    const top = place.scrollTop, none = style("--type-none");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, wide, high);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const step = STEPS.find((one) => (one / (until - from)) * (wide - LEFT) > 90) ?? STEPS[STEPS.length - 1];
    const name = step < 60 ? seconds : step < 86400 ? clock : dated;
    pen.textAlign = "center";
    for (let tick = Math.ceil(from / step) * step; tick <= until; tick += step) {
      pen.fillStyle = line;
      pen.fillRect(Math.round(x(tick)), HEAD - 4, 1, high);
      pen.fillStyle = quiet;
      if (x(tick) > LEFT + 20 && x(tick) < wide - 40) pen.fillText(name.format(tick * 1e3), x(tick), 11);
    }
    pen.save();
    pen.beginPath();
    pen.rect(0, HEAD, wide, high);
    pen.clip();
    const first = Math.max(Math.floor((top - HEAD) / ROW), 0), last = Math.min(first + Math.ceil(high / ROW) + 2, jobs.length);
    for (let index = first; index < last; index++) {
      const job = jobs[index], middle = HEAD + index * ROW - top + ROW / 2;
      const begin = Math.max(x(job.submitted_s), LEFT), end = Math.max(x(job.finished_s ?? now()), begin);
      pen.fillStyle = quiet;
      if (x(job.finished_s ?? now()) > LEFT && begin < wide) pen.fillRect(begin, middle - 0.5, Math.max(end - begin, 1), 1);
      for (const part of job.parts) {
        const left = Math.max(x(part.start_s), LEFT), right = Math.min(x(part.end_s ?? now()), wide);
        if (right < LEFT || left > wide) continue;
        const thick = Math.max(3, (ROW - 4) * (part.gpus / most));
        pen.globalAlpha = part.phase === "profiling" ? 0.45 : 1;
        pen.fillStyle = fill[part.gpu_type] ?? none;
        pen.fillRect(left, middle - thick / 2, Math.max(right - left, 1.5), thick);
        pen.globalAlpha = 1;
      }
      pen.fillStyle = style("--ground");
      pen.fillRect(0, middle - ROW / 2, LEFT - 6, ROW);
      pen.fillStyle = text;
      pen.textAlign = "left";
      pen.fillText(clipped(pen, job.name, LEFT - 18), 2, middle);
    }
    pen.restore();
  }

  function clipped(pen, words, most) {
    if (pen.measureText(words).width <= most) return words;
    let short = words;
    while (short.length > 1 && pen.measureText(short + "…").width > most) short = short.slice(0, -1);
    return short + "…";
  }

  function zoom(factor, about) {
    const wide = Math.min(Math.max((until - from) * factor, 5), (all[1] - all[0]) * 1.05);
    const part = (about - from) / (until - from);
    from = about - part * wide;
    until = from + wide;
    whole = wide >= all[1] - all[0];
    if (whole) [from, until] = all;
    draw();
  }

  function move(part) {
    const by = (until - from) * part;
    if (from + by > all[1] || until + by < all[0]) return;
    [from, until, whole] = [from + by, until + by, false];
    draw();
  }

  function under(event) {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top + place.scrollTop;
    const job = py < HEAD ? undefined : jobs[Math.floor((py - HEAD) / ROW)];
    return { job, moment: at(px), px };
  }

  place.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, under(event).moment);
  }, { passive: false });
  place.addEventListener("keydown", (event) => {
    const middle = (from + until) / 2;
    const does = { "+": () => zoom(0.8, middle), "=": () => zoom(0.8, middle), "-": () => zoom(1.25, middle), 0: () => zoom(1e9, middle), ArrowLeft: () => move(-0.15), ArrowRight: () => move(0.15) }[event.key];
    if (!does || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    does();
  });
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => zoom(Number(button.dataset.zoom), (from + until) / 2));
  }
  place.addEventListener("scroll", draw);
  place.addEventListener("pointermove", (event) => {
    const { job, moment, px } = under(event);
    tip.hidden = !job;
    place.classList.toggle("over", Boolean(job));
    if (!job) return;
    const part = px < LEFT ? undefined : job.parts.find((one) => one.start_s <= moment && moment <= (one.end_s ?? now()));
    const has = part ? `${part.phase === "profiling" ? "measured on " : ""}${part.gpus} ${part.gpu_type}` + (part.batch_size ? `, batch size ${part.batch_size}` : "") : job.status;
    tip.textContent = `${job.id}: ${has}` + (px < LEFT ? "" : `, ${dated.format(moment * 1e3)}`);
  });
  place.addEventListener("pointerleave", () => { tip.hidden = true; });
  place.addEventListener("click", (event) => {
    const { job } = under(event);
    if (job) location.assign(`/jobs/${encodeURIComponent(job.id)}`);
  });
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("load", () => document.body.addEventListener("changed", seldom(load, 10_000)));
  load();
})();

// What would be: asks, and draws the jobs before and after on one axis of time.
"use strict";
(() => {
  const place = document.getElementById("whatif"), form = document.getElementById("question");
  const sentence = document.getElementById("answer"), drawn = document.getElementById("drawn");
  const csrf = document.querySelector('meta[name="csrf"]')?.content ?? "";
  const colours = JSON.parse(place.dataset.colours);
  const ROW = 22, HEAD = 22, MOST_LEFT = 150, RIGHT = 16, MOST_ROWS = 60, NOTICED_S = 30, MOST_BYTES = 256 * 1024;
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const dated = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const STEPS = [5, 15, 60, 300, 900, 3600, 3 * 3600, 12 * 3600, 86400, 7 * 86400];

  const make = (name, told = {}, ...inside) => {
    const one = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(told)) one.setAttribute(key, value);
    one.append(...inside);
    return one;
  };
  const cell = (text, kind) => {
    const one = document.createElement("td");
    one.textContent = text;
    if (kind) one.className = kind;
    return one;
  };
  const moment = (at) => (at === null || at === undefined ? "–" : (Math.abs(at * 1000 - Date.now()) < 43200e3 ? clock : dated).format(at * 1000));
  const rough = (seconds) => {
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) if (seconds >= 2 * size) return `${Math.round(seconds / size)} ${unit}`;
    return `${Math.round(seconds)} s`;
  };
  const later = (row) => {
    if (row.new) return "new";
    if (row.later_s === null) {
      const by = (row.after?.start_s ?? NaN) - (row.before?.start_s ?? NaN);
      return Math.abs(by) >= NOTICED_S ? `starts ${rough(Math.abs(by))} ${by > 0 ? "later" : "sooner"}` : "–";
    }
    if (Math.abs(row.later_s) < 1) return "none";
    return `ends ${rough(Math.abs(row.later_s))} ${row.later_s > 0 ? "later" : "sooner"}`;
  };
  const starts = (told) => (!told ? "–" : told.start_s === null ? (told.why_no_start ? "never" : "runs") : moment(told.start_s));

  function say(text, wrong = false) {
    sentence.textContent = text.replace(/(\d) (?=(s|min|h|d)\b)/g, "$1\u00a0");
    sentence.classList.toggle("bad-text", wrong);
  }
  // The names of fields stay as they are written.
  function refuse(detail) {
    const told = detail.replace(/^whatif: /, "");
    say(`${/^[\w.]+: /.test(told) ? told : told.charAt(0).toUpperCase() + told.slice(1)}.`, true);
    drawn.hidden = true;
  }

  // A type that is not here yet gets a colour that no other has.
  function colour(type) {
    if (!(type in colours)) {
      const free = [0, 1, 2, 3, 4, 5, 6, 7].filter((one) => !Object.values(colours).includes(one));
      colours[type] = free[0] ?? "none";
      const word = document.createElement("span"), dot = document.createElement("span");
      dot.className = `dot type-${colours[type]}`;
      word.append(dot, ` ${type}`);
      drawn.querySelector(".legend").prepend(word);
    }
    return colours[type];
  }

  const file = document.getElementById("file"), teams = document.getElementById("teams");
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    if (chosen.size > MOST_BYTES) {
      refuse(`${chosen.name} is too large; a file of teams has at most ${MOST_BYTES / 1024} KiB`);
      file.value = "";
      return;
    }
    teams.value = await chosen.text();
  });
  teams.addEventListener("input", () => { file.value = ""; });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const told = Object.fromEntries(new FormData(form)), button = form.querySelector("button");
    const body = { nodes: told.nodes.trim(), without: told.without ? [told.without] : [], policy: told.policy.trim() || null, like: told.like ? [told.like] : [], teams: told.teams.trim() ? told.teams : null };
    button.disabled = true;
    say("Working it out …");
    try {
      const answer = await fetch("/v1/whatif", { method: "POST", headers: { "Content-Type": "application/json", "X-Coadapt-Page": csrf }, body: JSON.stringify(body) });
      const found = await answer.json();
      if (!answer.ok) {
        refuse(answer.status === 401 ? "Your sign-in has expired. Sign in in another tab, then ask again" : found.detail);
        return;
      }
      show(found);
    } catch {
      refuse("The scheduler does not answer. Ask again");
    } finally {
      button.disabled = false;
    }
  });

  // By how much a job ends later was compared world by world, so its new end is told by that.
  const wouldEnd = (row) => (ends(row.before) && row.later_s !== null ? row.before.end_s + row.later_s : row.after?.end_s ?? null);
  const ending = (told, at) => (told && (at === null || at === undefined) ? "not known" : moment(at));
  const ends = (told) => typeof told?.end_s === "number";
  const changes = (row) => row.new || Math.abs(row.later_s ?? 0) >= NOTICED_S || ends(row.before) !== ends(row.after);

  function show(view) {
    say(view.text);
    drawn.hidden = false;
    // The axis ends where the last job ends whose end changes, so that the change is seen; others go on beyond it.
    const moved = view.jobs.filter(changes), shown = moved.length ? moved : view.jobs;
    document.getElementById("compared").hidden = !view.jobs.length;
    document.getElementById("noted").hidden = !view.notes.length;
    const moments = shown.flatMap((row) => [row.before?.end_s, wouldEnd(row), ...[...row.holds_before, ...row.holds_after].map((hold) => hold.start_s)]);
    const last = Math.max(view.asked_s + 60, ...moments.filter((end) => end !== null && end !== undefined));
    const until = last + 0.06 * (last - view.asked_s);
    const rows = view.jobs.slice(0, MOST_ROWS);
    lanes("before", rows.filter((row) => row.before), "before", view.asked_s, until);
    lanes("after", rows.filter((row) => row.after), "after", view.asked_s, until);
    document.getElementById("changes").replaceChildren(...rows.map((row) => {
      const line = document.createElement("tr");
      line.append(cell(row.new ? `${row.name} (new)` : row.name), cell(later(row), "number"), cell(ending(row.before, row.before?.end_s), "number"), cell(ending(row.after, wouldEnd(row)), "number"), cell(starts(row.before), "number"), cell(starts(row.after), "number"));
      return line;
    }));
    document.getElementById("notes").replaceChildren(...view.notes.map((text) => {
      const one = document.createElement("li");
      one.textContent = `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
      return one;
    }));
  }

  function lanes(id, rows, which, from, until) {
    const box = document.getElementById(id), wide = Math.max(box.clientWidth, 320), high = HEAD + rows.length * ROW + 6;
    const LEFT = Math.min(MOST_LEFT, Math.round(wide / 3)), letters = Math.floor(LEFT / 7.2), label = until - from > 86400 ? dated : clock;
    const x = (at) => LEFT + (Math.min(Math.max(at, from), until) - from) / (until - from) * (wide - LEFT - RIGHT);
    const most = Math.max(1, ...rows.flatMap((row) => row[`holds_${which}`].map((hold) => hold.gpus)));
    const svg = make("svg", { viewBox: `0 0 ${wide} ${high}`, height: high, role: "img", "aria-label": `${rows.length} jobs ${which} the change; the table below has their starts and ends` });
    const step = STEPS.find((one) => (until - from) / one <= Math.max((wide - LEFT) / 90, 2)) ?? 30 * 86400;
    for (let tick = Math.ceil(from / step) * step; tick < until; tick += step) {
      svg.append(make("line", { class: "line", x1: x(tick), x2: x(tick), y1: HEAD - 4, y2: high }));
      const late = x(tick) > wide - 40;
      svg.append(make("text", { class: "tick", x: late ? wide : x(tick), y: 12, "text-anchor": late ? "end" : "middle" }, label.format(tick * 1000)));
    }
    rows.forEach((row, at) => {
      const middle = HEAD + at * ROW + ROW / 2, told = row[which], holds = row[`holds_${which}`];
      const known = which === "after" ? wouldEnd(row) : told.end_s, end = known ?? until;
      const name = row.name.length > letters ? `${row.name.slice(0, letters - 1)}…` : row.name;
      svg.append(make("text", { x: 0, y: middle + 4, class: row.new ? "new" : "" }, name));
      // Without a known end the line ends where the job gives up its GPUs in this world, if it does.
      const rest = holds.length && !holds.at(-1).gpus ? holds.at(-1).start_s : end;
      svg.append(make("line", { class: "waits", x1: x(from), x2: x(known === null ? rest : end), y1: middle, y2: middle }));
      holds.forEach((hold, number) => {
        if (!hold.gpus) return;
        const last = number + 1 < holds.length ? holds[number + 1].start_s : end;
        const thick = Math.max(3, (ROW - 8) * hold.gpus / most);
        if (hold.start_s >= end) return;
        const type = colour(hold.gpu_type);
        svg.append(make("rect", { class: `band type-${type}`, x: x(hold.start_s), y: middle - thick / 2, width: Math.max(x(Math.min(last, end)) - x(hold.start_s), 1.5), height: thick }, make("title", {}, `${row.name}: ${hold.gpus} ${hold.gpu_type} from ${moment(hold.start_s)}`)));
      });
      if (end > until || (known === null && rest >= until)) svg.append(make("text", { class: "on", x: wide - RIGHT + 3, y: middle + 4 }, "→"));
      else if (known !== null) svg.append(make("line", { class: "ends", x1: x(end), x2: x(end), y1: middle - 7, y2: middle + 7 }));
      if (changes(row)) svg.append(make("line", { class: "changed", x1: x(from), x2: x(end), y1: middle + 9, y2: middle + 9 }));
    });
    box.replaceChildren(svg);
  }
})();

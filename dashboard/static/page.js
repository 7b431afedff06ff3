// What all pages share: they change by themselves, ask before they destroy, and say what was refused.
"use strict";
(() => {
  const csrf = document.querySelector('meta[name="csrf"]')?.content ?? "";
  const told = document.getElementById("told");
  const cut = document.getElementById("cut");
  const stale = document.getElementById("stale");

  if (window.Idiomorph) {
    Idiomorph.defaults.ignoreActiveValue = true;
    // What a script draws is not the server's to change.
    Idiomorph.defaults.callbacks.beforeNodeMorphed = (old) => !old.hasAttribute?.("data-ignore");
  }

  // --- times, in the reader's time zone ------------------------------------------------------------------

  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const dated = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

  function localTimes(root) {
    const today = new Date().toDateString();
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      time.textContent = (at.toDateString() === today ? clock : dated).format(at);
      time.title = at.toLocaleString();
    }
  }

  // What is large is fetched now and then only, however much happens. Other scripts of the page use this, too.
  window.seldom = (work, everyMs) => {
    let last = -Infinity, later = 0;
    return () => {
      clearTimeout(later);
      later = setTimeout(() => {
        last = Date.now();
        work();
      }, Math.max(last + everyMs - Date.now(), 0));
    };
  };

  // --- a job's squares, on all nodes ---------------------------------------------------------------------

  function light(job) {
    for (const one of document.querySelectorAll("[data-job]")) one.classList.toggle("lit", one.dataset.job === job);
  }
  const lit = (event) => light(event.target.closest?.("[data-job]")?.dataset.job ?? null);
  document.addEventListener("pointerover", lit);
  document.addEventListener("focusin", lit);

  // --- what changes something ----------------------------------------------------------------------------

  function say(text) {
    told.replaceChildren(text);
    told.hidden = !text;
  }

  const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

  function expired() {
    const link = document.createElement("a");
    link.href = "/sign-in";
    link.target = "_blank";
    link.textContent = "Sign in";
    told.replaceChildren("Your sign-in has expired. ", link, " in another tab, then go on here.");
    told.hidden = false;
  }

  function agreed(question, yes) {
    const dialog = document.getElementById("ask");
    document.getElementById("ask-yes").textContent = yes;
    document.getElementById("ask-text").textContent = question;
    dialog.returnValue = "no";
    dialog.showModal();
    return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
  }

  const key = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

  async function post(button) {
    if (button.dataset.ask && !(await agreed(button.dataset.ask, button.textContent.trim()))) return;
    button.disabled = true;
    say("");
    try {
      const headers = { "X-Coadapt-Page": csrf, "Idempotency-Key": key() };
      if (button.dataset.body) headers["Content-Type"] = "application/json";
      const answer = await fetch(button.dataset.post, { method: button.dataset.method ?? "POST", headers, body: button.dataset.body });
      if (answer.status === 401) return expired();
      if (!answer.ok) return say(sentence((await answer.json()).detail));
      if (button.dataset.then) location.assign(button.dataset.then);
      else htmx.trigger(document.body, "changed");
    } catch {
      say("The scheduler does not answer. Nothing may have changed; try again.");
    } finally {
      button.disabled = false;
    }
  }

  // A form sends its fields as JSON, without those that are empty. What is refused is told where it was typed.
  async function send(form) {
    const refused = form.querySelector("[data-refused]"), button = form.querySelector("button:not([type])");
    const tell = (text) => { refused.textContent = text; refused.hidden = !text; };
    const fields = [...form.elements].filter((one) => one.name && one.value !== "");
    const body = JSON.stringify(Object.fromEntries(fields.map((one) => [one.name, "number" in one.dataset ? Number(one.value) : one.value])));
    button.disabled = true;
    tell("");
    try {
      const headers = { "X-Coadapt-Page": csrf, "Idempotency-Key": key(), "Content-Type": "application/json" };
      const answer = await fetch(form.dataset.send, { method: "POST", headers, body });
      if (answer.status === 401) { form.closest("dialog")?.close(); return expired(); }
      const found = await answer.json();
      if (!answer.ok) return tell(sentence(found.detail));
      if (form.dataset.then) location.assign(form.dataset.then + encodeURIComponent(found.id));
      if (form.dataset.shown) shown(found[form.dataset.shown]);
      form.reset();
      htmx.trigger(document.body, "changed");
    } catch {
      tell("The scheduler does not answer. Nothing may have changed; try again.");
    } finally {
      button.disabled = false;
    }
  }

  function shown(token) {
    const place = document.getElementById("made"), code = document.createElement("code");
    code.textContent = token;
    place.replaceChildren("This is the token. It is shown this once: ", code);
    place.hidden = false;
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-post], [data-open], [data-close]");
    if (button?.dataset.post) post(button);
    if (button?.dataset.open) document.getElementById(button.dataset.open)?.showModal();
    if (button && "close" in button.dataset) button.closest("dialog").close();
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.dataset.send) return;
    event.preventDefault();
    send(event.target);
  });

  // --- changes, as they happen ---------------------------------------------------------------------------

  // A busy cluster tells of many events a second: the page asks for itself at most once in EVERY_MS.
  const EVERY_MS = 1000;
  let wait = 0, asked = 0;
  function changed() {
    if (wait || document.hidden) return;
    wait = setTimeout(() => {
      wait = 0;
      asked = Date.now();
      htmx.trigger(document.body, "changed");
    }, Math.max(50, asked + EVERY_MS - Date.now()));
  }
  document.addEventListener("visibilitychange", changed);

  const between = window.BroadcastChannel ? new BroadcastChannel("coadapt") : null;
  if (between) between.onmessage = (message) => hear(message.data);

  function hear(what) {
    cut.hidden = what !== "cut";
    if (what === "changed") changed();
  }

  function tell(what) {
    hear(what);
    between?.postMessage(what);
  }

  const pause = (ms) => new Promise((done) => setTimeout(done, ms));

  async function follow() {
    let after = "";
    for (;;) {
      try {
        const answer = await fetch("/v1/events" + (after && `?after=${after}`), { headers: { Accept: "text/event-stream" } });
        if (answer.status === 401) return expired();
        if (!answer.ok) throw new Error(answer.statusText);
        tell("changed");
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let rest = ""; ; ) {
          const { value, done } = await reader.read();
          if (done) break;
          const lines = (rest + value).split("\n");
          rest = lines.pop();
          for (const line of lines) if (line.startsWith("id: ")) after = line.slice(4);
          if (lines.some((line) => line.startsWith("data: "))) tell("changed");
        }
      } catch {
        tell("cut");
      }
      await pause(2000);
    }
  }

  if (document.querySelector("[data-live]")) {
    // Browsers open few connections to a host, so that all tabs share one stream.
    if (navigator.locks) navigator.locks.request("coadapt-events", follow);
    else follow();
  }

  // --- pages that come anew ------------------------------------------------------------------------------

  // What is on the page stays there. It is told that it is old, and asked for again.
  function outdated(text) {
    stale.textContent = text;
    stale.hidden = !text;
  }

  document.addEventListener("htmx:responseError", (event) => {
    const { status } = event.detail.xhr;
    if (status === 401) expired();
    else if (status === 404) outdated("This is there no longer: it was removed while you looked at it.");
    else outdated("This page could not be brought up to date. It tries again.");
  });
  document.addEventListener("htmx:sendError", () => hear("cut"));
  document.addEventListener("htmx:afterSwap", () => {
    hear("");
    outdated("");
    localTimes(document);
  });
  localTimes(document);
  document.querySelector("form[data-at-once]")?.requestSubmit();
})();

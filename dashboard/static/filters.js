// Filters of the list of jobs that this browser keeps. The server knows nothing of them.
"use strict";
(() => {
  const KEY = "coadapt-filters", MOST = 20;
  const place = document.getElementById("saved");

  function kept() {
    try {
      const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
      return Array.isArray(found) ? found.filter((one) => typeof one === "string" && one.startsWith("?")).slice(0, MOST) : [];
    } catch {
      return [];
    }
  }

  function keep(filters) {
    try {
      localStorage.setItem(KEY, JSON.stringify(filters.slice(0, MOST)));
    } catch { /* a browser that keeps nothing still filters */ }
    show();
  }

  // What a filter is called: its own words.
  function named(query) {
    const found = new URLSearchParams(query);
    const parts = [found.get("name") && `“${found.get("name")}”`, found.get("owner") && `of ${found.get("owner")}`, found.get("team") && `of team ${found.get("team")}`, found.get("array") && `of array ${found.get("array")}`];
    return [found.get("which") ?? "active", ...parts.filter(Boolean)].join(" ");
  }

  function here() {
    const asked = new URLSearchParams(location.search), query = new URLSearchParams();
    for (const name of ["which", "name", "owner", "team", "array"]) if (asked.get(name)) query.set(name, asked.get(name));
    return query.size ? `?${query}` : "";
  }

  function button(text, label, does) {
    const made = document.createElement("button");
    Object.assign(made, { type: "button", className: "plain small", textContent: text });
    made.setAttribute("aria-label", label);
    made.addEventListener("click", does);
    return made;
  }

  function show() {
    const filters = kept(), now = here();
    const parts = filters.map((query) => {
      const whole = document.createElement("span"), link = document.createElement("a");
      Object.assign(link, { href: `/jobs${query}`, textContent: named(query) });
      if (query === now) link.setAttribute("aria-current", "page");
      whole.append(link, " ", button("×", `Forget the filter ${named(query)}`, () => keep(kept().filter((one) => one !== query))));
      return whole;
    });
    if (now && !filters.includes(now)) parts.push(button("Keep this filter", "Keep this filter in this browser", () => keep([...kept(), now])));
    place.hidden = !parts.length;
    place.replaceChildren(...parts);
  }

  show();
})();

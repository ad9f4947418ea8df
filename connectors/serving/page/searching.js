// The bar above the lists: what is searched for and filtered, which is what the address says too.

import { by, el, say } from "./elements.js";
import { NOBODY } from "./filters.js";
import { stateOf } from "./store.js";

const OFFERED = 100; // subjects to choose from
const TYPING = 200; // milliseconds

export class Searching {
  constructor(store, filters, program) {
    Object.assign(this, { store, filters });
    const types = program.events.filter((event) => event.derived).map((event) => event.name);
    by("filter-type").append(...types.map((name) => el("option", { value: name }, name)));
    for (const [id, name] of [["filter-type", "type"], ["filter-severity", "severity"], ["filter-state", "state"], ["filter-within", "within"], ["filter-only", "only"], ["filter-who", "who"], ["sort", "sort"]]) {
      by(id).addEventListener("change", (event) => filters.change({ [name]: event.target.value || null }));
    }
    by("search").addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => filters.change({ q: by("search").value.trim() || null }), TYPING);
    });
    by("filter-only").addEventListener("focus", () => this.offer());
    by("filter-only").addEventListener("input", () => this.offer());
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select") || by("filters").hidden || !by("why").hidden) return;
      event.preventDefault();
      [by("search"), by("find")].find((each) => !each.closest("[hidden]"))?.focus();
    });
    by("filters").addEventListener("submit", (event) => event.preventDefault());
    by("unfilter").addEventListener("click", () => filters.clear());
    filters.listen(() => this.draw());
    this.me = program.person.name;
    store.listen((changed) => { if (changed.alerts) this.offers(); });
    this.draw();
  }

  // The bar has what belongs to a list.
  show(tab) {
    by("filters").hidden = !["alerts", "events", "stations"].includes(tab);
    for (const part of by("filters").querySelectorAll("[data-of]")) part.hidden = !part.dataset.of.split(" ").includes(tab);
  }

  draw() {
    const { filters } = this;
    if (document.activeElement !== by("search")) by("search").value = filters.q ?? "";
    by("filter-only").value = filters.only ?? "";
    this.offers();
    for (const name of ["type", "severity", "within"]) by(`filter-${name}`).value = filters[name] ?? "";
    by("sort").value = filters.sort ?? "";
    const number = ["type", "severity", "state", "who", "within", "only"].filter((name) => filters[name]).length + (filters.hidden.size ? 1 : 0);
    say(by("filters-set"), number ? `Filters (${number})` : "Filters");
    by("unfilter").hidden = !filters.set;
  }

  // The states of the alerts and the people who have some, and what is chosen.
  offers() {
    const { filters, me } = this, alerts = [...this.store.alerts.values()];
    const names = new Set(alerts.flatMap((each) => [each.acknowledged, each.assignee, filters.who]).filter((name) => name && name !== NOBODY && name !== me));
    choices("filter-state", [...new Set([...alerts.map(stateOf), filters.state].filter(Boolean))].sort().map((state) => [state, state]), filters.state);
    choices("filter-who", [[NOBODY, "nobody yet"], ...(me ? [[me, `me (${me})`]] : []), ...[...names].sort().map((name) => [name, name])], filters.who);
  }

  offer() {
    const wanted = by("filter-only").value.trim().toLowerCase();
    const found = new Set();
    for (const key of [...this.store.stations.keys(), ...this.store.keys.keys()]) {
      if (key && key.toLowerCase().includes(wanted)) found.add(key);
      if (found.size >= OFFERED) break;
    }
    by("filter-subjects").replaceChildren(...[...found].sort().map((key) => el("option", { value: key })));
  }
}

// What a list offers behind its first entry.
function choices(id, wanted, chosen) {
  const select = by(id);
  if ([...select.options].slice(1).map((each) => each.value).join() !== wanted.map(([value]) => value).join()) {
    select.replaceChildren(select.options[0], ...wanted.map(([value, text]) => el("option", { value }, text)));
  }
  select.value = chosen ?? "";
}

// The bar above the lists: what is searched for and filtered, which is what the address says too.

import { by, el, say } from "./elements.js";
import { stateOf } from "./store.js";

const OFFERED = 100; // subjects to choose from
const TYPING = 200; // milliseconds

export class Searching {
  constructor(store, filters, program) {
    Object.assign(this, { store, filters });
    const types = program.events.filter((event) => event.derived).map((event) => event.name);
    by("filter-type").append(...types.map((name) => el("option", { value: name }, name)));
    for (const [id, name] of [["filter-type", "type"], ["filter-severity", "severity"], ["filter-state", "state"], ["filter-within", "within"], ["filter-only", "only"]]) {
      by(id).addEventListener("change", (event) => filters.change({ [name]: event.target.value || null }));
    }
    by("search").addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => filters.change({ q: by("search").value.trim() || null }), TYPING);
    });
    by("filter-only").addEventListener("focus", () => this.offer());
    by("filter-only").addEventListener("input", () => this.offer());
    by("filters").addEventListener("submit", (event) => event.preventDefault());
    by("unfilter").addEventListener("click", () => filters.clear());
    filters.listen(() => this.draw());
    store.listen((changed) => { if (changed.alerts) this.states(); });
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
    this.states();
    for (const name of ["type", "severity", "state", "within"]) by(`filter-${name}`).value = filters[name] ?? "";
    const number = ["type", "severity", "state", "within", "only"].filter((name) => filters[name]).length + (filters.hidden.size ? 1 : 0);
    say(by("filters-set"), number ? `Filters (${number})` : "Filters");
    by("unfilter").hidden = !filters.set;
  }

  // The states that there are, and the one that is chosen.
  states() {
    const there = [...new Set([...[...this.store.alerts.values()].map(stateOf), ...(this.filters.state ? [this.filters.state] : [])])].sort();
    const select = by("filter-state");
    if ([...select.options].slice(1).map((each) => each.value).join() === there.join()) return;
    select.replaceChildren(select.options[0], ...there.map((state) => el("option", { value: state }, state)));
    select.value = this.filters.state ?? "";
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

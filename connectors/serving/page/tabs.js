// Tabs: arrows move among them, the one that has the focus is shown.

import { by } from "./elements.js";

export class Tabs {
  constructor(changed) {
    this.tabs = [...by("tabs").querySelectorAll("[role=tab]")];
    this.changed = changed;
    for (const tab of this.tabs) tab.addEventListener("click", () => this.show(tab));
    by("tabs").addEventListener("keydown", (event) => {
      const here = this.tabs.indexOf(document.activeElement);
      const last = this.tabs.length - 1;
      const next = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: last }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      const tab = this.tabs[(next + this.tabs.length) % this.tabs.length];
      this.show(tab);
      tab.focus();
    });
  }

  get name() { return this.tabs.find((tab) => tab.getAttribute("aria-selected") === "true").id.slice(4); }

  // The tab of a name, if there is one.
  select(name) {
    const tab = this.tabs.find((each) => each.id === `tab-${name}`) ?? this.tabs[0];
    if (tab.getAttribute("aria-selected") !== "true") this.show(tab);
  }

  show(shown) {
    for (const tab of this.tabs) {
      const mine = tab === shown;
      tab.setAttribute("aria-selected", String(mine));
      tab.tabIndex = mine ? 0 : -1;
      by(tab.getAttribute("aria-controls")).hidden = !mine;
    }
    this.changed(this.name);
  }
}

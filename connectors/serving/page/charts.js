// Charts one above the other over the same time, which goes with that of the timeline.

import { el } from "./elements.js";
import { recoloured } from "./colours.js";
import { Chart, loaded, noLibrary } from "./chart.js";
import { readings } from "./readings.js";
import { written } from "./times.js";

const PACE = 2000; // milliseconds between two looks for new readings
const groups = new Set(); // that are on the page
let page = null;

// Said once. `there`: the library is.
export function begin(store, timeline, program) {
  page = { store, timeline, program };
  const each = (act) => { for (const group of groups) group.box.isConnected ? act(group) : groups.delete(group); };
  timeline.look(() => each((group) => { group.follows = true; group.see(timeline.range()); }));
  store.listen(() => each((group) => group.renew()));
  for (const changed of [recoloured, written]) changed(() => each((group) => group.again()));
}

export class Charts {
  // `specs`: what Chart takes, with `lines` of { event, attribute, key, points }. `range`: at first, null: the timeline's.
  constructor(specs, range) {
    this.range = range ?? page.timeline.range();
    this.follows = range === null; // the time that the timeline shows, also while that goes on
    const tool = (text, name, act) => el("button", { type: "button", "aria-label": name, onclick: act }, text);
    const tools = el("div", { class: "tools" }, tool("‹", "Earlier", () => this.move(-0.5)), tool("−", "Zoom out", () => this.closer(1 / 0.6)),
      tool("+", "Zoom in", () => this.closer(0.6)), tool("›", "Later", () => this.move(0.5)));
    this.charts = specs.map((spec) => new Chart({ ...spec, lines: spec.lines.map((line) => ({ ...line, load: (from, to) => readings(page.store, page.program, line, from, to) })) }, (zoomed) => this.look(zoomed)));
    this.box = el("div", { class: "charts", tabindex: "0", role: "group", "aria-label": "Charts: arrows move in time, plus and minus zoom", onkeydown: (event) => this.key(event) },
      tools, ...this.charts.map((chart) => chart.box));
    this.box.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey) return;
      event.preventDefault();
      this.closer(event.deltaY > 0 ? 1.25 : 0.8);
    }, { passive: false });
    if (!page.program.charts) { this.box.replaceChildren(noLibrary()); return; }
    groups.add(this);
    loaded().then(() => this.see(this.range), () => this.box.replaceChildren(noLibrary()));
  }

  // Somebody looks at another time; the timeline goes with it.
  look(range) { page.timeline.view = range; }

  closer(by) {
    const [from, to] = this.range, middle = (from + to) / 2;
    this.look([middle - (middle - from) * by, middle + (to - middle) * by]);
  }

  move(share) { const step = (this.range[1] - this.range[0]) * share; this.look([this.range[0] + step, this.range[1] + step]); }

  key(event) {
    const act = { ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25), "+": () => this.closer(0.6), "=": () => this.closer(0.6), "-": () => this.closer(1 / 0.6) }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || event.target !== this.box) return;
    event.preventDefault();
    act();
  }

  see(range) {
    this.range = range;
    for (const chart of this.charts) chart.see(range);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), this.seen ? 150 : 0);
    this.seen = true;
  }

  async load() {
    this.loading = true;
    this.at = performance.now();
    this.reached = page.store.numbers?.watermark ?? -Infinity;
    await Promise.all(this.charts.map((chart) => chart.load(this.range)));
    this.loading = false;
  }

  // What has come since, where it would be seen.
  renew() {
    const { store, timeline } = page;
    if (this.loading || performance.now() - this.at < PACE || !(this.reached <= this.range[1])) return;
    if (this.reached === store.numbers?.watermark) return;
    if (this.follows && timeline.view === null) this.see(timeline.range());
    else this.load();
  }

  again() { for (const chart of this.charts) chart.again(); }
}

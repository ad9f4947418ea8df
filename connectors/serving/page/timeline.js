// The timeline: a row for each subject, in it a lane for each event that is shown.

import { by, el } from "./elements.js";
import { recoloured } from "./colours.js";
import { swatch } from "./glyphs.js";
import { ALERTS } from "./filters.js";
import { gravity, subjects } from "./store.js";
import { written } from "./times.js";
import { AXIS, GAP, LANE, PAD, alertLane, paint } from "./bars.js";
import { Pointing } from "./pointing.js";

export class Timeline {
  // `alerting`: there may be alerts. `asks`: it can be asked why there is no event.
  constructor(store, kinds, filters, { alerting, asks }, choose) {
    this.store = store;
    this.kinds = kinds;
    this.alerting = alerting;
    this.asks = asks;
    this.choose = choose;
    this.filters = filters;
    this.asked = null;
    this.looked = []; // called with what is in view
    this.box = by("timeline");
    this.canvas = by("bars");
    this.pen = this.canvas.getContext("2d");
    this.rows = [];
    this.span = 0; // seconds; 0: all
    this.zoomed = null; // [from, to] where somebody has zoomed
    this.row = 0;
    this.event = null;
    this.wanted = false;
    this.legend();
    new ResizeObserver(() => this.later()).observe(this.box);
    this.box.addEventListener("scroll", () => this.later(), { passive: true });
    new Pointing(this);
    this.box.addEventListener("focus", () => this.later());
    this.box.addEventListener("blur", () => this.later());
    by("span").addEventListener("change", (event) => this.last(Number(event.target.value)));
    by("closer").addEventListener("click", () => this.zoom(0.6));
    by("farther").addEventListener("click", () => this.zoom(1 / 0.6));
    this.laid = new Map(); // rows by subject, until they change
    store.listen((changed) => {
      if (changed.all) this.laid.clear();
      else if (changed.alerts) { // the rows that had alerts, and those that have some now
        for (const key of this.alerts?.keys() ?? []) this.laid.delete(key);
        for (const alert of store.alerts.values()) for (const key of subjects(alert)) this.laid.delete(key);
      }
      for (const key of changed.touched) this.laid.delete(key);
      if (changed.events || changed.alerts || changed.all) this.stale = true;
      this.later();
    });
    recoloured(() => { this.legend(); this.later(); });
    written(() => this.later());
    filters.listen(() => { this.legend(); this.laid.clear(); this.stale = true; this.later(); });
  }

  // What is in view where somebody has zoomed: [from, to]; null: the span.
  get view() { return this.zoomed; }

  set view(view) {
    this.zoomed = view;
    this.later();
    for (const listener of this.looked) listener();
  }

  // The last so many seconds; 0: all.
  last(span) {
    this.span = span;
    by("span").value = String(span);
    this.view = null;
  }

  // `listener()`: another time is in view.
  look(listener) { this.looked.push(listener); }

  // What is shown, to choose from: alerts, then each event.
  legend() {
    const hidden = this.filters.hidden;
    if (by("kinds").childElementCount) {
      for (const button of by("kinds").children) button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.name)));
      return;
    }
    const shows = (name, text, mark) => el("button", {
      type: "button", "data-name": name, "aria-pressed": String(!hidden.has(name)), onclick: () => this.filters.turn(name),
    }, mark, text);
    by("kinds").append(...(this.alerting ? [shows(ALERTS, "alerts", el("i", { class: "swatch bar-mark severities" }))] : []),
      ...[...this.kinds].map(([name, number]) => shows(name, name, swatch(number))));
  }

  later() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => { this.wanted = false; this.draw(); });
  }

  range() {
    if (this.view) return this.view;
    const { first, last, numbers } = this.store;
    if (!(last >= first)) return [0, 1];
    const now = Math.max(last, Math.min(numbers?.watermark ?? last, last + 6 * 3600e6));
    if (this.span) return [now - this.span * 1e6, now + this.span * 2e4];
    const room = Math.max(1e6, now - first) * 0.02;
    return [first - room, now + room];
  }

  layout() {
    this.stale = false;
    this.lanes = [...this.kinds.keys()];
    this.alerts = new Map();
    for (const alert of this.store.alerts.values()) {
      if (!this.filters.alert(alert)) continue;
      for (const key of subjects(alert)) this.alerts.set(key, [...this.alerts.get(key) ?? [], alert]);
    }
    if (this.sorted?.length !== this.store.keys.size || this.sorted.some((key) => !this.store.keys.has(key))) {
      this.sorted = [...this.store.keys.keys()].sort();
    }
    const { only } = this.filters;
    const stood = this.rows[this.row]?.key;
    const keys = only === null ? this.order() : [only];
    this.rows = [];
    for (const key of keys) {
      let row = this.laid.get(key);
      if (!row) this.laid.set(key, row = this.lay(key));
      if (row.events.length || row.alerts.length) this.rows.push(row);
    }
    const now = this.rows.findIndex((row) => row.key === stood);
    if (now >= 0) this.row = now;
    let top = AXIS;
    for (const row of this.rows) {
      row.top = top;
      top += row.height;
    }
    by("rows").style.height = `${top}px`;
    this.box.style.setProperty("--rows", `${top}px`);
  }

  // Subjects with open alerts first, the gravest above; the others by name.
  order() {
    const worst = new Map();
    for (const [key, alerts] of this.alerts) worst.set(key, Math.min(...alerts.map(gravity)));
    const alone = [...this.alerts.keys()].filter((key) => !this.store.keys.has(key)); // of an event that the page does not hold
    const open = [...worst.keys()].filter((key) => worst.get(key) < 1000).sort((a, b) => worst.get(a) - worst.get(b) || (a < b ? -1 : 1));
    const rest = alone.length ? [...this.sorted, ...alone].sort() : this.sorted;
    return [...open, ...rest.filter((key) => !(worst.get(key) < 1000))];
  }

  // A row has the lanes that it needs.
  lay(key) {
    const events = (this.store.keys.get(key) ?? []).filter((event) => this.filters.event(event));
    const used = new Set(events.map((event) => event.type));
    const alerts = this.alerts.get(key) ?? [];
    const lanes = new Map();
    for (const { name } of alerts) if (!lanes.has(alertLane(name))) lanes.set(alertLane(name), lanes.size);
    for (const name of this.lanes) if (used.has(name)) lanes.set(name, lanes.size);
    return { key, events, alerts, lanes, height: Math.max(22, lanes.size * (LANE + GAP) + 2 * PAD - GAP) };
  }

  draw() {
    if (this.stale !== false) this.layout();
    paint(this);
  }

  zoom(by, around) {
    if (!this.shown) return;
    const { from, to } = this.shown;
    const middle = around ?? (this.event && this.event.end >= from && this.event.end <= to ? this.event.end : (from + to) / 2);
    const [a, b] = [middle - (middle - from) * by, middle + (to - middle) * by];
    if (b - a < 1000 || b - a > 4e16) return;
    this.view = [a, b];
  }

  mark(event) {
    this.event = event;
    if (this.shown && (event.end < this.shown.from || event.start > this.shown.to)) {
      const half = (this.shown.to - this.shown.from) / 2;
      this.view = [event.end - half, event.end + half];
    }
    this.later();
  }

  // What is asked about, null: nothing.
  ask(question) {
    this.asked = question;
    if (question?.key && this.stale === false) {
      const row = this.rows.find((each) => each.key === question.key);
      if (row && (row.top - AXIS < this.box.scrollTop || row.top + row.height > this.box.scrollTop + this.box.clientHeight)) this.box.scrollTop = row.top - AXIS;
    }
    this.later();
  }

  // The row and the time of an event, with some room.
  show(event) {
    if (!this.filters.event(event)) this.filters.clear();
    if (this.stale !== false) this.layout();
    this.row = Math.max(0, this.rows.findIndex((row) => row.key === (event.key ?? "")));
    const room = Math.max(event.end - event.start, 3600e6);
    this.view = [event.start - 2 * room, event.end + 2 * room];
    this.event = event;
    if (this.rows[this.row]) this.box.scrollTop = this.rows[this.row].top - AXIS;
    this.later();
  }
}

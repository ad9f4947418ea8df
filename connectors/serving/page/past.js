// The page as it was at a time: its events from what the page holds, else from the store; its alerts from their changes.

import { ask, by, counted, el } from "./elements.js";
import { age } from "./ages.js";
import { stored } from "./stored.js";
import { moment, read } from "./times.js";

const LATELY = 3600e6; // a station is part of an event for so long after one, at a time that is past
const PACE = 200; // milliseconds

export class Past {
  constructor(store, wire, program, address, timeline, changed) {
    Object.assign(this, { store, wire, program, address, timeline, changed, at: null, now: null, asked: 0 });
    by("scrub").addEventListener("input", () => this.drag());
    by("then").addEventListener("change", () => { const at = read(by("then").value); if (Number.isFinite(at)) this.go(at); else this.draw(); });
    by("now").addEventListener("click", () => this.go(null));
    store.listen(() => { if (this.at === null) this.draw(); });
    address.listen(() => this.follow());
  }

  // What the address says.
  follow() {
    const at = Date.parse(this.address.get("at") ?? "") * 1000;
    this.show(Number.isFinite(at) ? at : null);
  }

  span() {
    const { first, last } = this.now ?? this.store;
    return last >= first ? [first, this.now?.present ?? this.store.present()] : null;
  }

  drag() {
    const [first, last] = this.span() ?? [0, 0];
    const share = Number(by("scrub").value) / 1000;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.go(share >= 1 ? null : Math.round((first + share * (last - first)) / 1e6) * 1e6), PACE);
  }

  go(at) {
    this.address.set({ at: at === null ? null : new Date(at / 1000).toISOString() }, this.at === null || at === null);
    this.show(at);
  }

  async show(at) {
    if (at === this.at) return;
    const mine = ++this.asked;
    const { store } = this;
    if (at === null) {
      this.at = this.now = store.until = store.cut = null;
      this.draw();
      await this.wire.go();
      this.changed();
      return;
    }
    if (this.at === null) {
      this.wire.hold();
      const { events, withdrawn, stations, alerts, numbers, first, last } = store;
      this.now = { events: events.map(plain), withdrawn, stations: [...stations.values()], alerts, numbers, first, last, present: store.present() };
    }
    this.at = store.until = at;
    this.draw();
    let [events, alerts, withdrawn, cut, wrong] = [[], [], [], null, ""];
    this.more = [];
    try {
      [events, { alerts, withdrawn, cut }] = await Promise.all([this.events(at), ask(`api/past?at=${Math.round(at)}`).then((answer) => answer.json())]);
    } catch (error) {
      wrong = error.message.replace(/^\d+ /, "");
    }
    if (mine !== this.asked) return; // another time was chosen meanwhile
    const known = new Set(events.map((event) => event.id));
    const since = withdrawn.filter((event) => !known.has(event.id)).map(({ withdrawn: when, ...event }) => ({ ...event, end: event.end !== null && event.end > at ? null : event.end, since: when }));
    events = [...events, ...since].sort((a, b) => (a.end ?? at) - (b.end ?? at));
    store.cut = { alerts: cut === null ? "" : `only the last ${counted(cut)} changes before this time were looked at`, events: this.more.join("; ") };
    const latest = new Map();
    for (const event of events) if (event.key !== null) latest.set(event.key, event);
    const stations = this.now.stations.map((station) => {
      const event = latest.get(station.key);
      const part = event && (event.end === null || event.end > at - LATELY);
      return { ...station, state: part ? "event" : "quiet", event: part ? event.type : "", holds: events.filter((each) => each.key === station.key && each.end === null).map((each) => each.type) };
    });
    store.state({ events, withdrawn: [], stations, alerts, numbers: { ...this.now.numbers, watermark: at, ended: false, lost: [] } });
    this.wrong = wrong;
    this.draw();
    this.changed();
  }

  // What had ended by then, and what held.
  async events(at) {
    const { events } = this.now;
    const first = events.reduce((least, { start }) => Math.min(least, start ?? Infinity), Infinity);
    const [from] = this.timeline.view ?? [at - 86400e6];
    const held = events.filter((event) => event.end === null ? event.start === null || event.start <= at : event.end <= at || (event.holds && event.start <= at))
      .map((event) => event.end !== null && event.end > at ? { ...event, end: null } : event);
    if (first <= Math.min(from, at - LATELY)) return held;
    const known = new Set(events.map((event) => event.id));
    const { events: older, more } = await stored(this.program, Math.min(from, at - LATELY), at)
      .catch((error) => ({ events: [], more: [`older events are missing: ${error.message.replace(/^\d+ /, "")}`] }));
    this.more = more;
    return [...older.filter((event) => !known.has(event.id)), ...held];
  }

  draw() {
    const past = this.at !== null;
    document.body.toggleAttribute("data-past", past);
    by("past").hidden = !past;
    const span = this.span();
    by("scrubbing").hidden = !span;
    if (span) by("scrub").value = String(past ? Math.round(1000 * Math.min(1, Math.max(0, (this.at - span[0]) / (span[1] - span[0])))) : 1000);
    if (document.activeElement !== by("then")) by("then").value = past ? moment(this.at) : "now";
    by("scrub").setAttribute("aria-valuetext", past ? moment(this.at) : "now");
    if (past) by("past-about").replaceChildren(el("b", {}, "Not now: "), `as it was at ${moment(this.at)} · `, age(this.at), this.wrong ? ` (${this.wrong})` : "");
  }
}

// An event as it was brought: what lasts has no end of its own.
const plain = ({ id, type, key, values, places, holds, open, always, start, end }) => ({ id, type, key, values, places, holds, start: always ? null : start, end: open ? null : end });

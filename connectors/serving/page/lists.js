// The lists beside the map: alerts, events, stations, as the filters have them. Each is renewed only when seen.

import { ask, by, counted, el, say, valued } from "./elements.js";
import { brief, moment, spanOf, written } from "./times.js";
import { recoloured } from "./colours.js";
import { age } from "./ages.js";
import { judgement } from "./alert.js";
import { swatch } from "./glyphs.js";
import { save } from "./csv.js";
import { VirtualList } from "./virtual.js";
import { gravity, isActive, overAt, stateOf } from "./store.js";

const STATES = { silent: "no record yet", quiet: "quiet" };
const PACE = 250; // milliseconds between two renewals of a list
const byText = (a, b) => a < b ? -1 : a > b ? 1 : 0; // as it is written, not as a language sorts
const ORDERS = {
  gravest: (a, b) => gravity(a) - gravity(b),
  newest: (a, b) => byText(b.start, a.start),
  oldest: (a, b) => byText(a.start, b.start),
  title: (a, b) => byText(a.title, b.title),
};

export class Lists {
  constructor(store, kinds, filters, view, choose) {
    Object.assign(this, { store, kinds, filters, view, choose });
    this.seen = "alerts";
    this.due = { alerts: true, events: true, stations: true };
    this.timer = 0;
    this.lists = {
      alerts: new VirtualList(by("alerts"), 98, (alert) => alert.alert, (alert) => `${alert.alert}-${alert.revision}-${this.how(alert)}`, (alert) => this.alert(alert)),
      events: new VirtualList(by("events"), 52, (event) => event.id, (event) => `${event.id}${"withdrawn" in event ? ` ${event.order}` : event.open ? " open" : ""}`, (event) => this.event(event)),
      stations: new VirtualList(by("stations"), 52, (each) => each.key, (each) => `${each.key}\n${each.state}\n${each.event}\n${this.alerted?.get(each.key)?.severity ?? ""}`, (each) => this.station(each)),
    };
    by("find").addEventListener("input", () => { this.due.stations = true; this.later(0); });
    by("pause").addEventListener("click", (event) => {
      this.paused = !this.paused;
      event.currentTarget.setAttribute("aria-pressed", String(this.paused));
      this.later(0);
    });
    by("save").addEventListener("click", () => this.save());
    let standing = "";
    store.listen((changed) => {
      const now = JSON.stringify([store.numbers?.ended, store.numbers?.lost]);
      if (now !== standing) { standing = now; this.due.alerts = true; }
      if (changed.alerts || changed.all) this.due.alerts = true;
      if (changed.events || changed.all) this.due.events = true;
      if (changed.stations || changed.alerts || changed.all) this.due.stations = true;
      this.later();
    });
    filters.listen(() => this.all());
    written(() => { for (const list of Object.values(this.lists)) list.again(); this.all(); });
    recoloured(() => this.later(0));
  }

  // Another time is in view.
  viewed() { if (this.filters.within) this.all(); }

  all() { for (const name of Object.keys(this.due)) this.due[name] = true; this.later(0); }

  show(name) {
    this.seen = name;
    if (name in this.due) this.due[name] = true; // it had no height before
    this.later(0);
  }

  later(pace = PACE) {
    if (pace === 0) { clearTimeout(this.timer); this.timer = 0; }
    this.timer ||= setTimeout(() => { this.timer = 0; requestAnimationFrame(() => this.draw()); }, pace);
  }

  draw() {
    if (this.due.alerts) { this.due.alerts = false; this.drawAlerts(); } // always: their number is on the tab
    if (this.due.events && this.seen === "events" && !this.paused) { this.due.events = false; this.drawEvents(); }
    if (this.due.stations && this.seen === "stations") { this.due.stations = false; this.drawStations(); }
  }

  how(alert) {
    const { ended = false, lost = [] } = this.store.numbers ?? {};
    if (alert.state === "resolved") return alert.fired === null ? "over before it fired" : stateOf(alert) + judgement(alert);
    const held = [alert.acknowledged && stateOf(alert) === "acknowledged" ? `acknowledged by ${alert.acknowledged}` : stateOf(alert), alert.escalated > 0 && "escalated", alert.assignee && `assigned to ${alert.assignee}`].filter(Boolean).join(", ") + judgement(alert);
    return lost.length ? `${held}, source lost` : ended ? `${held === "firing" ? "" : `${held}, `}active until ${brief(Date.parse(alert.until) * 1000)}` : held;
  }

  // Whether it is of the time that the timeline shows, where only that is wanted.
  within(start, end) {
    const view = this.filters.within ? this.view() : null;
    return !view || (end >= view[0] && start <= view[1]);
  }

  drawAlerts() {
    const all = [...this.store.alerts.values()].reverse().sort(ORDERS[this.filters.sort] ?? ORDERS.gravest); // of those alike the latest change first
    const alerts = all.filter((each) => this.filters.alert(each) && this.within(Date.parse(each.start) * 1000, each.state === "resolved" ? overAt(each) : Date.parse(each.until) * 1000));
    say(by("open-alerts"), counted(all.filter(isActive).length));
    by("no-alerts").hidden = all.length > 0;
    const about = [alerts.length === all.length ? "" : `${counted(alerts.length)} of ${counted(all.length)} alerts pass the filters`, this.store.cut?.alerts].filter(Boolean).join("; ");
    by("alerts-about").hidden = !about;
    say(by("alerts-about"), about);
    this.lists.alerts.put(alerts);
  }

  alert(alert) {
    const at = alert.state === "resolved" ? overAt(alert) : Date.parse(alert.start) * 1000;
    const more = alert.text || alert.instruction;
    return el("li", { class: "alert", "data-severity": alert.severity, "data-state": alert.verdict ? "closed" : stateOf(alert), "data-alert": alert.alert },
      el("button", { type: "button", onclick: () => this.choose({ alert: alert.alert }) },
        el("span", { class: "top" }, alert.status === "Actual" ? null : el("i", { class: "practice" }, alert.status),
          el("b", {}, alert.severity), el("span", {}, this.how(alert)), el("time", { title: moment(at) }, el("span", { class: "absolute" }, `${brief(at)} · `), age(at))),
        el("span", { class: "words" }, el("strong", {}, alert.title), more ? el("span", { class: "text" }, more) : null)));
  }

  drawEvents() {
    const passes = (event) => this.filters.event(event) && this.within(event.start, event.end);
    const events = [];
    const { events: held, withdrawn: gone } = this.store;
    let other = gone.length - 1;
    for (let at = held.length - 1; at >= 0; at--) { // both are in order
      while (other >= 0 && gone[other].order > held[at].order) { if (passes(gone[other])) events.push(gone[other]); other -= 1; }
      if (passes(held[at])) events.push(held[at]);
    }
    for (; other >= 0; other--) if (passes(gone[other])) events.push(gone[other]);
    const { withdrawn = 0 } = this.store.numbers ?? {};
    const total = this.store.derived; // since the server began: the page may hold older ones
    const found = this.filters.set ? `${counted(events.length)} pass the filters; ` : "";
    say(by("events-about"), `${found}the newest ${counted(held.length)}${total > held.length ? ` of ${counted(total)}` : ""}${withdrawn ? `; ${counted(withdrawn)} withdrawn` : ""}${this.store.cut?.events ? `; ${this.store.cut.events}` : ""}`);
    this.lists.events.put(events);
  }

  event(event) {
    const gone = "withdrawn" in event;
    return el("li", gone ? { class: "withdrawn" } : {}, el("button", { type: "button", onclick: () => this.choose({ event: event.id }) },
      el("span", { class: "top" }, swatch(this.kinds.get(event.type) ?? 0), el("b", {}, event.type), gone ? el("i", {}, "withdrawn") : "since" in event ? el("i", {}, "withdrawn since") : null,
        el("time", {}, spanOf(event))),
      el("span", { class: "text" }, values(event))));
  }

  drawStations() {
    const wanted = by("find").value.trim().toLowerCase();
    const alerted = this.alerted = this.store.about();
    const about = this.store.bySubject();
    const found = [...this.store.stations.values()].filter((station) => (!this.filters.thins || this.filters.station(station, this.store.keys.get(station.key) ?? [], about.get(station.key) ?? []))
      && (!wanted || station.key.toLowerCase().includes(wanted) || station.name.toLowerCase().includes(wanted)));
    const rank = (each) => alerted.has(each.key) ? 0 : 1 + ["missing", "event"].indexOf(each.state) || 3;
    found.sort((a, b) => rank(a) - rank(b) || (a.key < b.key ? -1 : 1));
    const missing = this.store.numbers?.unplaced ?? 0;
    const unknown = missing === 1 ? "1 subject has no known place" : `${counted(missing)} subjects have no known place`;
    say(by("stations-about"), !this.store.stations.size && missing ? `No place is known for any of the ${counted(missing)} subjects` : `${counted(found.length)} found${missing ? `; ${unknown}` : ""}`);
    this.lists.stations.put(found);
  }

  station(each) {
    const alert = this.alerted.get(each.key);
    return el("li", {}, el("button", { type: "button", onclick: () => this.choose({ station: each.key }) },
      el("span", { class: "top" }, el("i", { class: `dot ${alert ? "alert" : each.state}`, "data-severity": alert?.severity }), el("b", {}, each.key),
        !alert && each.state === "event" && this.kinds.has(each.event) ? swatch(this.kinds.get(each.event)) : null,
        el("span", {}, alert ? `${alert.severity} alert` : each.state === "event" ? `part of ${each.event}` : each.state === "missing" ? `no data since ${brief(each.last)}` : STATES[each.state])),
      each.name !== each.key ? el("span", { class: "text" }, each.name) : null));
  }

  // What the list that is seen holds, as it is filtered.
  save() {
    if (this.seen === "events") {
      return save("events.csv", this.lists.events.entries.map(({ id, type, key, start, end, open, always, values }) =>
        ({ id, type, subject: key, start: always ? "" : iso(start), end: open ? "" : iso(end), ...Object.fromEntries(Object.entries(values).map(([name, value]) => [`${type}.${name}`, value])) })));
    }
    if (this.seen === "stations") {
      return save("stations.csv", this.lists.stations.entries.map(({ key, name, lat, long, state, event }) => ({ key, name, lat, long, state, event })));
    }
    return save("alerts.csv", this.lists.alerts.entries.map((alert) => ({
      alert: alert.alert, name: alert.name, severity: alert.severity, state: stateOf(alert), title: alert.title, text: alert.text, start: alert.start,
      fired: alert.fired, end: alert.end, until: alert.until, time: alert.time, occurrences: alert.occurrences,
      ...Object.fromEntries(Object.entries(alert.key).map(([name, value]) => [`key.${name}`, value])),
      ...Object.fromEntries(Object.entries(alert.labels).map(([name, value]) => [`label.${name}`, value])),
    })));
  }
}

const iso = (ticks) => new Date(ticks / 1000).toISOString();

// What has a place is called by its name.
const values = (event) => Object.entries(event.values).map(([name, value]) =>
  `${name} ${event.places?.find((place) => place.iri === value)?.name ?? valued(value)}`).join(" · ");

// The latest records of a station, for the panel.
export async function latestRecords(key) {
  return (await (await ask(`api/station?key=${encodeURIComponent(key)}`)).json()).records;
}

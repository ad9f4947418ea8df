// The lists beside the map: alerts, events, stations. Each has so many entries at most, and is renewed only when seen.

import { ask, by, counted, el, say, valued } from "./elements.js";
import { interval, moment } from "./times.js";
import { kind, recoloured } from "./colours.js";
import { isActive, stateOf } from "./store.js";

const ALERTS = 100;
const EVENTS = 150;
const STATIONS = 100;
const STATES = { silent: "no record yet", quiet: "quiet", event: "part of an event" };
const PACE = 250; // milliseconds between two renewals of a list

export class Lists {
  constructor(store, kinds, choose) {
    this.store = store;
    this.kinds = kinds;
    this.choose = choose;
    this.seen = "alerts";
    this.due = { alerts: true, events: true, stations: true };
    this.made = new Map(); // what stands in a list, by id
    this.timer = 0;
    by("find").addEventListener("input", () => { this.due.stations = true; this.later(0); });
    by("pause").addEventListener("click", (event) => {
      this.paused = !this.paused;
      event.currentTarget.setAttribute("aria-pressed", String(this.paused));
      this.later(0);
    });
    let standing = "";
    store.listen((changed) => {
      const now = JSON.stringify([store.numbers?.ended, store.numbers?.lost]);
      if (now !== standing) { standing = now; this.due.alerts = true; }
      if (changed.alerts || changed.all) this.due.alerts = true;
      if (changed.events || changed.all) this.due.events = true;
      if (changed.stations || changed.alerts || changed.all) this.due.stations = true;
      this.later();
    });
    recoloured(() => { this.made.clear(); by("events").replaceChildren(); this.due.events = true; this.later(0); });
  }

  show(name) { this.seen = name; this.later(0); }

  later(pace = PACE) {
    if (pace === 0) { clearTimeout(this.timer); this.timer = 0; }
    this.timer ||= setTimeout(() => { this.timer = 0; requestAnimationFrame(() => this.draw()); }, pace);
  }

  draw() {
    if (this.due.alerts) { this.due.alerts = false; this.drawAlerts(); } // always: their number is on the tab
    if (this.due.events && this.seen === "events" && !this.paused) { this.due.events = false; this.drawEvents(); }
    if (this.due.stations && this.seen === "stations") { this.due.stations = false; this.drawStations(); }
  }

  // Entries stay the same elements, so that the focus stays.
  put(list, entries, id, make) {
    const kept = new Set(list.children);
    let place = list.firstElementChild;
    for (const entry of entries) {
      const name = id(entry);
      let item = this.made.get(name);
      if (!item || !kept.has(item)) { item = make(entry); item.dataset.id = name; this.made.set(name, item); }
      kept.delete(item);
      if (item === place) place = place.nextElementSibling;
      else list.insertBefore(item, place);
    }
    for (const gone of kept) { this.made.delete(gone.dataset.id); gone.remove(); }
  }

  drawAlerts() {
    const rank = (alert) => isActive(alert) ? 0 : alert.state === "resolved" ? 2 : 1;
    const alerts = [...this.store.alerts.values()].reverse().sort((a, b) => rank(a) - rank(b));
    const open = alerts.filter(isActive).length;
    say(by("open-alerts"), counted(open));
    by("no-alerts").hidden = alerts.length > 0;
    const focused = document.activeElement?.closest?.("#alerts li")?.dataset.alert;
    const { ended = false, lost = [] } = this.store.numbers ?? {};
    const how = (alert) => alert.state === "resolved" ? (alert.fired === null ? "over before it fired" : stateOf(alert)) : lost.length ? `${stateOf(alert)}, source lost`
      : ended ? `active until ${moment(Date.parse(alert.until) * 1000)}` : stateOf(alert);
    this.put(by("alerts"), alerts.slice(0, ALERTS), (alert) => `${alert.alert}-${alert.revision}-${how(alert)}`, (alert) =>
      el("li", { class: "alert", "data-severity": alert.severity, "data-state": stateOf(alert), "data-alert": alert.alert },
        el("button", { type: "button", onclick: () => this.choose({ alert: alert.alert }) },
          el("span", { class: "top" }, alert.status === "Actual" ? null : el("i", { class: "practice" }, alert.status),
            el("b", {}, alert.severity), el("span", {}, how(alert)), el("time", {}, moment(Date.parse(alert.time) * 1000))),
          el("strong", {}, alert.title),
          alert.text ? el("span", { class: "text" }, alert.text) : null)));
    if (focused && document.activeElement === document.body) by("alerts").querySelector(`[data-alert="${focused}"] button`)?.focus();
  }

  drawEvents() {
    const last = this.store.events.slice(-EVENTS);
    const gone = this.store.withdrawn.filter((event) => last.length < EVENTS || event.order > last[0].order);
    const events = [...last, ...gone].sort((a, b) => b.order - a.order).slice(0, EVENTS);
    const { derived = {}, withdrawn = 0 } = this.store.numbers ?? {};
    const total = Object.values(derived).reduce((sum, each) => sum + each, 0);
    say(by("events-about"), `the newest ${counted(last.length)} of ${counted(total)}${withdrawn ? `; ${counted(withdrawn)} withdrawn` : ""}`);
    this.put(by("events"), events, (event) => `${event.id}${"withdrawn" in event ? ` ${event.order}` : ""}`, (event) => {
      const mark = el("i", { class: "swatch" });
      mark.style.background = kind(this.kinds.get(event.type) ?? 0);
      const gone = "withdrawn" in event;
      return el("li", gone ? { class: "withdrawn" } : {}, el("button", { type: "button", onclick: () => this.choose({ event: event.id }) },
        el("span", { class: "top" }, mark, el("b", {}, event.type), gone ? el("i", {}, "withdrawn") : null, el("time", {}, interval(event.start, event.end))),
        el("span", { class: "text" }, values(event))));
    });
  }

  drawStations() {
    const wanted = by("find").value.trim().toLowerCase();
    const alerted = this.store.about();
    const found = [];
    let number = 0;
    for (const station of this.store.stations.values()) {
      if (wanted && !station.key.toLowerCase().includes(wanted) && !station.name.toLowerCase().includes(wanted)) continue;
      number += 1;
      found.push(station);
    }
    const rank = (each) => alerted.has(each.key) ? 0 : each.state === "event" ? 1 : 2;
    found.sort((a, b) => rank(a) - rank(b) || (a.key < b.key ? -1 : 1));
    const missing = this.store.numbers?.unplaced ?? 0;
    say(by("stations-about"), `${counted(number)} found${missing ? `; of ${counted(missing)} subjects it is not known where they are` : ""}`);
    this.put(by("stations"), found.slice(0, STATIONS), (each) => `${each.key}\n${each.state}\n${each.event}\n${alerted.get(each.key)?.severity ?? ""}`, (each) => {
      const alert = alerted.get(each.key);
      return el("li", {}, el("button", { type: "button", onclick: () => this.choose({ station: each.key }) },
        el("span", { class: "top" }, el("i", { class: `dot ${alert ? "alert" : each.state}` }), el("b", {}, each.key),
          el("span", {}, alert ? `${alert.severity} alert` : each.state === "event" ? `part of ${each.event}` : STATES[each.state])),
        each.name !== each.key ? el("span", { class: "text" }, each.name) : null));
    });
  }
}

// What has a place is called by its name.
const values = (event) => Object.entries(event.values).map(([name, value]) =>
  `${name} ${event.places?.find((place) => place.iri === value)?.name ?? valued(value)}`).join(" · ");

// The latest records of a station, for the panel.
export async function latestRecords(key) {
  return (await (await ask(`api/station?key=${encodeURIComponent(key)}`)).json()).records;
}

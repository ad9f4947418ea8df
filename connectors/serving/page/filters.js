// The filters that every view obeys: what the legend has off, a subject, a severity, a state, a text.

import { isUnheld, stateOf, subjects } from "./store.js";

export const ALERTS = "all alerts"; // no event is called so
const FIELDS = ["only", "q", "type", "severity", "state", "who", "within"];
export const NOBODY = "-"; // stands for alerts that nobody has

export class Filters {
  constructor(address) {
    this.address = address;
    this.listeners = [];
    this.read();
    address.listen(() => { this.read(); this.tell(); });
  }

  read() {
    this.hidden = new Set((this.address.get("hide") ?? "").split(",").filter(Boolean).map((name) => name === "alerts" ? ALERTS : name));
    for (const name of [...FIELDS, "sort"]) this[name] = this.address.get(name) ?? null;
    this.words = (this.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  }

  listen(listener) { this.listeners.push(listener); }

  tell() { for (const listener of this.listeners) listener(); }

  change(changes) {
    this.address.set(changes);
    this.read();
    this.tell();
  }

  // One switch of the legend.
  turn(name) {
    const hidden = new Set(this.hidden);
    if (!hidden.delete(name)) hidden.add(name);
    this.change({ hide: [...hidden].map((each) => each === ALERTS ? "alerts" : each).join(",") });
  }

  // Whether anything is left out.
  get set() { return Boolean(this.hidden.size || FIELDS.some((name) => this[name])); }

  clear() { this.change({ hide: null, ...Object.fromEntries(FIELDS.map((name) => [name, null])) }); }

  has(text) { return this.words.every((word) => text.includes(word)); }

  event(event) {
    return !this.hidden.has(event.type) && (!this.type || this.type === event.type) && (this.only === null || this.only === (event.key ?? ""))
      && (!this.words.length || this.has(event.said ??= `${event.type} ${Object.values(event.values).join(" ")}`.toLowerCase()));
  }

  // Whether stations are left out: the legend alone leaves none out.
  get thins() { return FIELDS.some((name) => name !== "within" && this[name]); }

  // A station passes by itself, by an event about it or by an alert about it. `events`, `alerts`: those about it.
  station(station, events, alerts) {
    if (this.only !== null && this.only !== station.key) return false;
    if (alerts.some((alert) => this.alert(alert))) return true;
    if (this.severity || this.state || this.who) return false; // only alerts have these
    if (events.some((event) => this.event(event))) return true;
    return !this.type && this.has(`${station.key} ${station.name}`.toLowerCase());
  }

  // By somebody who took it or was given it; by nobody: open, and neither.
  held(alert) { return this.who === NOBODY ? isUnheld(alert) : [alert.acknowledged, alert.assignee].includes(this.who); }

  alert(alert) {
    return !this.hidden.has(ALERTS) && (!this.type || this.type === alert.event) && (this.only === null || subjects(alert).includes(this.only))
      && (!this.severity || this.severity === alert.severity) && (!this.state || this.state === stateOf(alert)) && (!this.who || this.held(alert))
      && (!this.words.length || this.has(`${alert.name} ${alert.title} ${alert.text} ${alert.severity} ${Object.values(alert.labels).join(" ")} ${subjects(alert).join(" ")}`.toLowerCase()));
  }
}

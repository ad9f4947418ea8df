// What the page knows: the newest events, the stations, the alerts, the numbers. Bounded; drawn once a frame.

const EVENTS = 20000;
const SLACK = 500; // more than EVENTS before the oldest are dropped
const WITHDRAWN = 100;
const ALERTS = 500;
const PLACES = 400;
const PACE = 150; // milliseconds between two drawings, where more comes than that

export class Store {
  constructor() {
    this.listeners = [];
    this.frame = 0;
    this.drawn = -PACE;
    this.until = null; // a time that is past, where the page shows that
    this.cut = null; // what is left out there: of alerts, of events
    this.clear();
  }

  clear() {
    this.events = [];
    this.withdrawn = []; // the newest
    this.count = 0;
    this.ids = new Map();
    this.keys = new Map(); // subject: its events
    this.stations = new Map();
    this.alerts = new Map();
    this.places = new Map();
    this.numbers = null;
    this.moved = new Set(); // stations, and subjects with new events, since they were drawn
    this.touched = new Set();
    this.first = Infinity;
    this.last = -Infinity;
    this.changed = { events: true, stations: true, alerts: true, numbers: true, all: true };
  }

  // `listener(changed)`: in an animation frame, some time after something has changed.
  listen(listener) { this.listeners.push(listener); }

  state(state) {
    this.clear();
    this.news({ ...state, withdrawn: [] }); // what was withdrawn may have come again
    for (const event of state.withdrawn ?? []) if (!this.ids.has(event.id)) this.strike(event);
    for (const alert of state.alerts ?? []) this.alert(alert);
  }

  news({ events, withdrawn, stations, numbers }) {
    if (withdrawn?.length) this.withdraw(withdrawn);
    for (const event of events) this.add(event);
    for (const station of stations) {
      this.stations.set(station.key, station);
      this.moved.add(station.key);
    }
    if (events.length) this.changed.events = true;
    if (stations.length) this.changed.stations = true;
    this.numbers = numbers;
    this.changed.numbers = true;
    this.draw();
  }

  // Events that are no more. They are shown as such for a while.
  withdraw(gone) {
    this.remove(gone);
    for (const event of gone) this.strike(event);
  }

  remove(gone) {
    const ids = new Set(gone.map((event) => event.id));
    this.events = this.events.filter((event) => !ids.has(event.id));
    for (const [iri, place] of this.places) if (ids.has(place.event.id)) this.places.delete(iri);
    for (const event of gone) {
      const key = event.key ?? "";
      const mine = this.keys.get(key);
      if (mine) this.keys.set(key, mine.filter((each) => each.id !== event.id));
      this.touched.add(key);
      this.ids.delete(event.id);
    }
    this.changed.events = true;
  }

  strike(event) {
    event.order = this.count++;
    this.withdrawn.push(event);
    if (this.withdrawn.length > WITHDRAWN) this.withdrawn.shift();
  }

  add(event) {
    const known = this.ids.get(event.id);
    if (known && (known.open ? event.end !== null : known.end === event.end)) return this.over(known, event);
    if (known?.open) return;
    if (known) this.remove([event]); // it ends at another time, or has no end any more
    event.order = this.count++;
    if (event.holds) this.lasts(event);
    this.events.push(event);
    this.index(event);
    for (const place of event.places ?? []) {
      this.places.delete(place.iri);
      this.places.set(place.iri, { ...place, event });
      if (this.places.size > PLACES) this.places.delete(this.places.keys().next().value);
    }
    if (this.events.length > EVENTS + SLACK) this.drop();
  }

  // What a fluent still holds goes on to the present, and what it held from the beginning begins with all else.
  lasts(event) {
    event.open = event.end === null;
    event.always = event.start === null;
    if (event.open) Object.defineProperty(event, "end", { get: () => this.present(), configurable: true, enumerable: true });
    if (event.always) Object.defineProperty(event, "start", { get: () => Math.min(this.first, event.end), enumerable: true });
  }

  present() { return Math.max(this.last, Math.min(this.numbers?.watermark ?? this.last, this.last + 6 * 3600e6)); }

  over(known, { end }) {
    if (!known.open || end === null) return;
    Object.defineProperty(known, "end", { value: end });
    known.open = false;
    this.touched.add(known.key ?? "");
    if (end > this.last) this.last = end;
  }

  index(event) {
    this.ids.set(event.id, event);
    const key = event.key ?? "";
    this.touched.add(key);
    const mine = this.keys.get(key);
    if (!mine) this.keys.set(key, [event]);
    else {
      mine.push(event);
      for (let at = mine.length - 1; at > 0 && mine[at - 1].end > event.end; at--) [mine[at - 1], mine[at]] = [event, mine[at - 1]]; // late
    }
    if (!event.always) this.first = Math.min(this.first, event.start);
    if (!event.open) this.last = Math.max(this.last, event.end);
    else if (!event.always) this.last = Math.max(this.last, event.start);
  }

  drop() {
    const gone = new Set(this.events.slice(0, -EVENTS));
    this.events = this.events.slice(-EVENTS);
    for (const { id } of gone) this.ids.delete(id);
    for (const key of new Set([...gone].map((event) => event.key ?? ""))) {
      const mine = this.keys.get(key).filter((event) => !gone.has(event));
      if (mine.length) this.keys.set(key, mine);
      else this.keys.delete(key);
      this.touched.add(key);
    }
    this.first = this.events.reduce((first, event) => event.always ? first : Math.min(first, event.start), Infinity);
    for (const alert of this.alerts.values()) if (isActive(alert)) this.first = Math.min(this.first, Date.parse(alert.start) * 1000);
  }

  alert(change) {
    const known = this.alerts.get(change.alert);
    if (known && known.revision > change.revision) return;
    this.alerts.delete(change.alert);
    this.alerts.set(change.alert, change);
    if (isActive(change) || !this.events.length) this.first = Math.min(this.first, Date.parse(change.start) * 1000);
    this.last = Math.max(this.last, Math.min(Date.parse(change.end), Date.parse(change.time)) * 1000);
    if (this.alerts.size > ALERTS) {
      for (const [id, each] of this.alerts) {
        if (each.state === "resolved") { this.alerts.delete(id); break; }
      }
    }
    this.changed.alerts = true;
    this.draw();
  }

  draw() {
    if (this.frame) return;
    const wait = this.drawn + PACE - performance.now();
    if (wait > 0) { this.frame = setTimeout(() => { this.frame = 0; this.drawn = -PACE; this.draw(); }, wait); return; }
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.drawn = performance.now();
      const changed = { ...this.changed, moved: this.moved, touched: this.touched };
      this.moved = new Set();
      this.touched = new Set();
      this.changed = {};
      for (const listener of this.listeners) listener(changed);
    });
  }

  // How many events were derived since the server began, what holds now included.
  get derived() { return Object.values(this.numbers?.derived ?? {}).reduce((sum, each) => sum + each, this.numbers?.holding ?? 0); }

  // All alerts by the subjects that they are about.
  bySubject() {
    const found = new Map();
    for (const alert of this.alerts.values()) for (const key of subjects(alert)) found.set(key, [...found.get(key) ?? [], alert]);
    return found;
  }

  // The open alerts about a subject, what is in the alert's key, of those that pass.
  about(passes = () => true) {
    const found = new Map();
    for (const alert of this.alerts.values()) {
      if (!isActive(alert) || !passes(alert)) continue;
      for (const value of subjects(alert)) found.set(value, alert);
    }
    return found;
  }
}

// Severities, the gravest first.
export const GRAVE = ["Extreme", "Severe", "Moderate", "Minor", "Unknown"];

// An alert that has fired and is not over.
export const isActive = (alert) => alert.state !== "resolved" && alert.fired !== null;

// An open alert that nobody took or was given.
export const isUnheld = ({ state, acknowledged, assignee }) => state !== "resolved" && !acknowledged && !assignee;

// When an alert that is over was over.
export const overAt = (alert) => Date.parse(alert.over) * 1000;

// The gravest alerts first, those that somebody has already judged last.
export const gravity = (alert) => !isActive(alert) ? 1000 + (alert.state === "resolved" ? 100 : 0)
  : (alert.verdict ? 100 : 0) + 10 * ["firing", "acknowledged", "inhibited", "silenced"].indexOf(stateOf(alert)) + GRAVE.indexOf(alert.severity);

export const subjects = (alert) => {
  const keys = Object.values(alert.key ?? {});
  return (keys.length ? keys : Object.values(alert.values ?? {}).slice(0, 1)).filter((value) => value !== null).map(String);
};

// How an alert is, as people say it: what has fired is firing, however it has changed since.
export const stateOf = (alert) => alert.withdrawn ? "withdrawn" : !isActive(alert) ? alert.state : alert.inhibited ? "inhibited"
  : alert.silenced?.length ? "silenced" : alert.acknowledged ? "acknowledged" : "firing";

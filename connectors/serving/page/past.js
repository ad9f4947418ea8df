// The page as it was at a time: its events from what the page holds, else from the store; its alerts from their changes.

import { ask, by, counted, el } from "./elements.js";
import { age } from "./ages.js";
import { moment, read } from "./times.js";

const MOST = 5000; // events that the store is asked for
const LATELY = 3600e6; // a station is part of an event for so long after one, at a time that is past
const TIME = "http://www.w3.org/2006/time#";
const XSD = "http://www.w3.org/2001/XMLSchema#";
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
    const { events, numbers, first } = this.now;
    const total = Object.values(numbers?.derived ?? {}).reduce((sum, each) => sum + each, 0);
    const [from] = this.timeline.view ?? [at - 86400e6];
    const held = events.filter((event) => event.end === null ? event.start === null || event.start <= at : event.end <= at || (event.holds && event.start <= at))
      .map((event) => event.end !== null && event.end > at ? { ...event, end: null } : event);
    if (events.length >= total || first <= Math.min(from, at - LATELY)) return held;
    const known = new Set(events.map((event) => event.id));
    const older = await this.stored(Math.min(from, at - LATELY), at);
    return [...older.filter((event) => !known.has(event.id)), ...held];
  }

  // From the store: the newest that ended in some time.
  async stored(from, at) {
    const stamp = (ticks) => `"${new Date(ticks / 1000).toISOString()}"^^<${XSD}dateTime>`;
    const rows = async (query) => {
      const answer = await ask("sparql", { method: "POST", body: query, headers: { "Content-Type": "application/sparql-query", Accept: "application/sparql-results+json" } });
      return (await answer.json()).results.bindings;
    };
    const found = [];
    for (const event of this.program.events.filter((each) => each.derived)) {
      const values = event.attributes.map((each, number) => `OPTIONAL { ?e <${each.iri}> ?v${number} }`);
      const query = `SELECT * WHERE { ?e a <${event.iri}> ; <${TIME}hasEnd>/<${TIME}inXSDDateTimeStamp> ?end ; <${TIME}hasBeginning>/<${TIME}inXSDDateTimeStamp> ?start . FILTER(?end >= ${stamp(from)} && ?end <= ${stamp(at)}) ${values.join(" ")} } ORDER BY DESC(?end) LIMIT ${MOST}`;
      const answered = await rows(query);
      if (answered.length === MOST) this.more.push(`of ${event.name} only the newest ${counted(MOST)} before this time`);
      for (const row of answered) found.push(asEvent(row, event));
    }
    return found.sort((a, b) => a.end - b.end);
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

function asEvent(row, event) {
  const values = Object.fromEntries(event.attributes.map((each, number) => {
    const text = row[`v${number}`]?.value ?? null;
    return [each.name, text !== null && ["int", "float"].includes(each.type) ? Number(text) : text !== null && each.type === "bool" ? text === "true" : text];
  }));
  const time = (name) => Date.parse(row[name].value) * 1000;
  return { id: row.e.value.split("/").at(-1), type: event.name, key: event.subject === null ? null : values[event.subject] === null ? null : String(values[event.subject]), values, start: time("start"), end: time("end") };
}

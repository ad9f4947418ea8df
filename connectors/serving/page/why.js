// Why: an event or an alert, the rule that gave it, and the records that it comes from; or why there is none.

import { ask, by, counted, el, facts, narrow, say, valued } from "./elements.js";
import { age } from "./ages.js";
import { AlertView, charted, whole } from "./alert.js";
import { around, behind } from "./behind.js";
import { numeric } from "./readings.js";
import { interval, lasting, moment, spanOf } from "./times.js";
import { code } from "./rules.js";
import { swatch } from "./glyphs.js";
import { latestRecords } from "./lists.js";
import { storedEvent } from "./stored.js";
import { tree, withdrawn } from "./tree.js";
import { Silences } from "./silences.js";
import { WhyNot } from "./whynot.js";

const RECORDS = 200;
const SLOW = 500; // milliseconds until it is said that the server is asked

export class Why {
  constructor(store, kinds, rules, program, places) {
    this.store = store;
    this.kinds = kinds;
    this.rules = rules;
    this.program = program;
    this.places = places; // shows on the map, in the timeline
    this.asked = 0;
    this.trail = []; // what was shown before what is shown
    this.whynot = new WhyNot(store, kinds, program, (what) => this.open(what), (question) => {
      places.asked(question);
      places.shown({ absence: question });
    });
    store.listen((changed) => {
      if (by("why").hidden) return;
      if (changed.alerts) this.view?.renew();
      if (changed.numbers) this.view?.read?.();
    });
    by("why-back").addEventListener("click", () => this.back());
    by("why-close").addEventListener("click", () => this.close());
    window.addEventListener("resize", () => this.veil());
    document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !by("why").hidden) this.close(); });
  }

  leave() {
    if (by("why").hidden) return;
    by("why").hidden = true;
    this.veil();
    this.trail = [];
    this.asked += 1; // what is still asked is not wanted any more
    this.places.alert(null);
    this.places.asked(null);
    this.places.shown(null);
  }

  back() {
    const before = this.trail.at(-2);
    this.trail.splice(-2);
    this.open(before);
  }

  // What is shown, as it is now.
  again() { if (!by("why").hidden) { this.trail.pop(); this.open(this.what); } }

  close() {
    this.leave();
    if (this.from?.isConnected) this.from.focus();
    else (narrow() ? document.querySelector("#tabs [aria-selected=true]") : by("timeline")).focus(); // there the timeline is far below the list
  }

  // `what`: { event }, { alert }, { station } by their names; { silences }: an id, or "all"; { absence: { event, key, at } } as far as it is known.
  async open(what) {
    const { alert, station, absence, silences } = what;
    let { event } = what;
    const active = document.activeElement;
    if (by("why").hidden && active !== document.body) this.from = active;
    if (!by("why").contains(active)) this.trail = []; // what is chosen elsewhere begins anew
    const mine = ++this.asked;
    const parts = [];
    let title = "", view = null;
    const slow = setTimeout(() => { if (mine === this.asked) this.shown("Loading …", [el("p", { class: "none", role: "status" }, "Waiting for the server.")]); }, SLOW);
    if (!absence) this.places.asked(null);
    try {
      if (alert) {
        const past = document.body.hasAttribute("data-past"); // then nobody can do anything
        const full = past ? null : await whole(alert);
        const change = this.store.alerts.get(alert) ?? full?.changes.at(-1); // a link may lead to an old one
        title = change?.title ?? "Unknown alert";
        if (!change) parts.push(el("p", { class: "actions" }, el("button", { type: "button", onclick: () => { this.leave(); this.places.open(); } }, "Show open alerts")));
        if (!change) throw new Error(past ? `There was no alert ${alert} at this time.` : `There is no alert ${alert} here: it is older than what is kept, or of another program.`);
        const found = await this.held(change.last, change.event);
        view = new AlertView(change, full, this.store, this.program, found, (what) => this.open(what), (change) => this.look("map-part", () => this.places.alert(change)), () => { this.leave(); this.places.unheld(); });
        parts.push(...view.parts);
        this.places.alert(change);
        parts.push(...this.cause(change, found));
      }
      if (silences) {
        title = "Silences";
        view = new Silences(this.store, this.program.person, silences, (what) => this.open(what));
        parts.push(view.box);
        await view.load();
      }
      if (station !== undefined) {
        title = this.store.stations.get(station)?.name ?? station;
        if (!this.store.stations.has(station) && !this.store.keys.has(station)) parts.push(el("p", { class: "none" }, `Nothing is known of ${station} here.`));
        parts.push(...await this.station(station));
      }
      if (absence) {
        title = this.whynot.title(absence);
        parts.push(...this.whynot.parts(absence));
      }
      if (event && !alert) {
        const found = await this.held(event);
        if (!found) title ||= "Unknown event";
        title ||= found && "withdrawn" in found ? `${found.type}, withdrawn` : `Why ${found?.type ?? "this event"}?`;
        parts.push(...this.event(found, false));
      }
    } catch (error) {
      parts.unshift(el("p", { class: "wrong" }, error.message));
      title ||= "Unknown";
    }
    clearTimeout(slow);
    if (mine !== this.asked) return; // another one was chosen meanwhile
    this.view = view;
    this.what = what;
    this.trail.push(what);
    this.places.shown(what);
    by("why-back").hidden = this.trail.length < 2;
    this.shown(title, parts);
  }

  shown(title, parts) {
    say(by("why-title"), title);
    by("why-body").replaceChildren(...parts);
    by("why-body").scrollTop = 0;
    by("why").hidden = false;
    this.veil();
    by("why-title").focus({ preventScroll: true });
  }

  // The event with an id, from the page or from the store, which is asked for one of a kind; null: neither has it.
  async held(id, name) {
    if (this.program.events.some((each) => each.name === name && !each.derived)) return null; // records are not kept
    const found = await ask(`api/event/${encodeURIComponent(id)}`).then((answer) => answer.json(), () => null);
    return found ?? (name ? storedEvent(this.program, name, id).catch(() => null) : null);
  }

  // What an alert came from: its latest event, or a record, which has no rules behind it.
  cause(change, found) {
    const input = this.program.events.find((each) => each.name === change.event && !each.derived);
    if (!input) return this.event(found, true);
    return [el("h3", {}, `The record: ${change.event}`), facts(Object.entries(change.values).map(([name, value]) => [name, valued(value)])),
      ...this.giving({ type: `alert ${change.name}` }), el("p", { class: "none" }, `It is on the input event ${change.event}: no other rule led to it.`)];
  }

  // What this lies over cannot be reached meanwhile.
  veil() {
    const over = narrow() && !by("why").hidden;
    for (const part of document.querySelectorAll("body > header, main > section, #tabs, [role=tabpanel]")) part.inert = over;
  }

  // Where this lies over what is to be seen, it goes.
  look(part, show) {
    if (narrow()) { this.leave(); by(part).scrollIntoView(); }
    show();
  }

  async station(key) {
    const station = this.store.stations.get(key);
    const records = await latestRecords(key);
    const events = (this.store.keys.get(key) ?? []).slice(-12).reverse();
    return [
      station ? facts([["subject", key], ["at", `${station.lat.toFixed(4)}, ${station.long.toFixed(4)}`]]) : null,
      el("p", { class: "actions" }, el("button", { type: "button", onclick: () => this.look("timeline-part", () => this.places.only(key)) }, "Only this, everywhere"),
        this.program.events.some((event) => numeric(event, this.program.thresholds).length) ? el("button", { type: "button", onclick: () => this.places.charts(key) }, "Its charts") : null),
      this.program.lineage ? this.whynot.brief(key) : null,
      el("h3", {}, "Latest records"),
      records.length ? table(records) : el("p", { class: "none" }, "None lately."),
      el("h3", {}, "Latest events"),
      events.length ? el("ol", { class: "short" }, ...events.map((each) => this.short(each))) : el("p", { class: "none" }, "None."),
    ].filter(Boolean);
  }

  short(event) {
    return el("li", {}, el("button", { type: "button", onclick: () => this.open({ event: event.id }) },
      el("span", { class: "top" }, swatch(this.kinds.get(event.type) ?? 0), el("b", {}, event.type), el("time", {}, spanOf(event)))));
  }

  event(found, inside) {
    if (!found) return [el("p", { class: "none" }, "Its event is older than what is kept here.")];
    const gone = "withdrawn" in found;
    const length = found.end > found.start ? `, ${lasting(found.end - found.start)}` : "";
    return [
      inside ? el("h3", { id: "because" }, `The latest event: ${found.type}`) : null,
      gone && !this.program.lineage ? el("p", { class: "note" }, `Withdrawn${found.withdrawn === null ? "" : `, when the time of events had come to ${moment(found.withdrawn)}`}: ${found.why}. What led to this no longer exists.`) : null,
      facts([["when", el("span", {}, interval(found.start, found.end) + length, " · ", age(found.end ?? found.start))], ...Object.entries(found.values).map(([name, value]) => [name, valued(value)])]),
      el("p", { class: "actions" }, gone ? null : el("button", { type: "button", onclick: () => this.look("timeline-part", () => this.places.event(found)) }, "Show in the timeline"),
        this.store.stations.has(found.key) ? el("button", { type: "button", onclick: () => this.look("map-part", () => this.places.station(found.key)) }, "Show on the map") : null),
      inside || gone ? null : charted(behind(this.program, found, null), around(found, null, null)),
      gone && !this.program.lineage ? null : el("h3", {}, gone ? "What became of it" : "Because of"),
      ...(gone ? this.program.lineage ? [this.asking(found)] : this.giving(found) : found.because === null ? this.unkept(found) : [this.asking(found)]),
    ].filter(Boolean);
  }

  // The tree, when it is there; else the rules and the records, and why there is no tree.
  asking(found) {
    const address = `why/${encodeURIComponent(found.id)}`;
    const made = el("div", { "aria-busy": "true" }, el("p", { class: "none" }, "Asking the running program …"));
    ask(`${address}?format=json`).then((answer) => answer.json()).then((got) => got.withdrawn ? [
      el("div", { class: "tree" }, ...withdrawn(got)), el("p", {}, "The same ", el("a", { href: `${address}?format=text` }, "as text"), " · ", el("a", { href: `${address}?format=json` }, "as JSON")),
    ] : [
      ...tree(got, this.kinds),
      found.because.length === 0 ? null : el("details", { class: "folded" }, el("summary", {}, `All ${counted(found.because.length)} input ${found.because.length === 1 ? "record" : "records"}`), ...this.records(found)),
      el("p", {}, "The same ", el("a", { href: `${address}?format=text` }, "as text"), " · ", el("a", { href: `${address}?format=json` }, "as JSON"), " · ",
        el("a", { href: `${address}?format=prov` }, "as PROV")),
    ].filter(Boolean), (error) => ["withdrawn" in found ? el("p", { class: "note" }, `Withdrawn: ${found.why}.`) : null, el("p", { class: "none" }, error.message.replace(/^\d+ /, "")), ...(found.because === null ? [] : this.records(found)), ...this.giving(found)].filter(Boolean)).then((parts) => {
      made.replaceChildren(...parts);
      made.removeAttribute("aria-busy");
    });
    return made;
  }

  unkept(found) {
    const hint = this.program.lineage ? "Its origins are not known." : "This server does not keep the origins of events: start it with `cep serve --explain`.";
    return [el("p", { class: "none" }, hint), ...this.giving(found)];
  }

  giving(found) {
    const rules = this.rules.of(found.type);
    return [el("h3", {}, rules.length === 1 ? "The rule" : "The rules that derive it"),
      ...rules.map((rule) => el("figure", {}, el("pre", {}, code(rule.text)),
        el("figcaption", {}, `${rule.name}, fired ${counted(rule.fired)} ${rule.fired === 1 ? "time" : "times"}`)))];
  }

  records(found) {
    const records = [...found.because].sort((a, b) => a.end - b.end || a.start - b.start).map(({ type, start, end, ...rest }) => ({ type, start, end, values: rest }));
    return [el("p", { class: "none" }, `${counted(records.length)} input ${records.length === 1 ? "record" : "records"}${records.length > RECORDS ? `, the last ${RECORDS} shown` : ""}`),
      table(records.slice(-RECORDS))];
  }
}

// Records, those of one type with the same columns in one table.
function table(records) {
  const groups = new Map();
  for (const record of records) groups.set(record.type, [...groups.get(record.type) ?? [], record]);
  const made = [...groups].map(([type, mine]) => {
    const names = [...new Set(mine.flatMap((each) => Object.keys(each.values)))];
    const numeric = new Set(names.filter((name) => mine.every((each) => typeof (each.values[name] ?? 0) === "number")));
    const cell = (name, value) => el("td", { class: numeric.has(name) ? "number" : null }, value === null || value === undefined ? "–" : valued(value));
    return el("table", {}, el("caption", {}, type),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "time"), ...names.map((name) => el("th", { scope: "col", class: numeric.has(name) ? "number" : null }, name)))),
      el("tbody", {}, ...mine.map((each) => el("tr", {}, el("td", {}, interval(each.start, each.end)), ...names.map((name) => cell(name, each.values[name]))))));
  });
  return el("div", { class: "records", tabindex: "0", role: "region", "aria-label": "Records" }, ...made);
}

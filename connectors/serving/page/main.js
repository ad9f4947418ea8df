// The page: what is known (store), who brings it (wire), and the parts that show it.

import { ask, by, counted, el, libraries, say, send } from "./elements.js";
import { choose as colours, dark, recoloured } from "./colours.js";
import { Store } from "./store.js";
import { AGAIN, Wire } from "./wire.js";
import { StationMap } from "./map.js";
import { Timeline } from "./timeline.js";
import { Lists } from "./lists.js";
import { Rules } from "./rules.js";
import { Shadow } from "./shadow.js";
import { Past } from "./past.js";
import { Query } from "./query.js";
import { Charting } from "./charting.js";
import { begin as charts } from "./charts.js";
import { Why } from "./why.js";
import { Tabs } from "./tabs.js";
import { Address } from "./address.js";
import { Filters, NOBODY } from "./filters.js";
import { Searching } from "./searching.js";
import { follow } from "./ages.js";
import { brief, inUTC, moment, written, zone } from "./times.js";

const QUIET = 8000; // milliseconds between two sentences for a screen reader

// The program, when the server can be reached: a train comes out of its tunnel.
async function reached() {
  for (;;) {
    try {
      return await (await ask("api/program")).json();
    } catch (error) {
      if (/^[1-4]/.test(error.message)) throw error; // it can, and says no; a proxy in front of it may not
      connection("broken");
      await new Promise((done) => setTimeout(done, AGAIN));
    }
  }
}

async function begin() {
  theme();
  const program = await reached();
  say(by("program"), program.name.split("/").at(-1));
  document.title = `${program.name.split("/").at(-1)} – semcep`;
  meant(program.status);
  session(program);
  const store = new Store();
  const address = new Address();
  const filters = new Filters(address);
  zones(address);
  follow(store);
  const kinds = new Map(program.events.filter((event) => event.derived).map((event, number) => [event.name, number]));
  const rules = new Rules(store, program);
  program.person.session = program.session;
  const parts = {};
  const why = new Why(store, kinds, rules, program, {
    alert: (alert) => parts.map?.show(alert),
    event: (event) => parts.timeline.show(store.ids.get(event.id) ?? event),
    station: (key) => parts.map?.go(key),
    only: (key) => filters.change({ only: key }),
    open: () => {
      tabs.select("alerts");
      filters.clear();
    },
    unheld: () => {
      tabs.select("alerts");
      filters.clear();
      filters.change({ who: NOBODY });
    },
    asked: (question) => parts.timeline?.ask(question),
    shown: (what) => chosen(address, what),
    charts: (key) => { tabs.select("charts"); charting.about(key); },
  });
  const choose = (what) => why.open(what);
  parts.timeline = new Timeline(store, kinds, filters, { alerting: program.alerts.length > 0, asks: program.lineage }, choose);
  parts.lists = new Lists(store, kinds, filters, () => parts.timeline.range(), choose);
  const searching = new Searching(store, filters, program);
  const charting = new Charting(store, program, filters, address);
  const shadow = new Shadow(program, kinds, choose);
  charts(store, parts.timeline, program);
  new Query(program, store, choose);
  const tabs = new Tabs((name) => {
    if (!address.moving) why.leave();
    address.set({ tab: name === "alerts" ? null : name });
    for (const part of [parts.lists, rules, searching, charting, shadow]) part.show(name);
  });
  searching.show("alerts");
  store.listen(() => {
    if (!now.loading || !store.numbers) return;
    now.loading = false;
    nothing(program, choose);
  });
  by("silences").hidden = !program.handled;
  by("silences").addEventListener("click", () => choose({ silences: "all" }));
  header(store);
  speak(store);
  linked(store, address, why, tabs);
  looked(address, parts);
  mapped(store, program, parts, () => new StationMap(store, program.rights, choose, kinds, filters));
  window.semcep = Object.freeze({ store, parts }); // for a look from the console
  let connections = 0;
  const wire = new Wire(store, program.handled ? program.changes : [], (state, reason) => {
    connection(state, reason);
    if (state === "live" && connections++) permissions(program, why);
  });
  const past = new Past(store, wire, program, address, parts.timeline, () => why.again());
  await wire.begin();
  past.follow();
}

// The server ends the streams of a person with a lower role, so after each new connection the page asks what they may do.
async function permissions(program, why) {
  const { person } = await (await ask("api/program")).json();
  if (person.refused === program.person.refused) return;
  Object.assign(program.person, person);
  why.again();
}

// The map comes with the first thing that has a place; without any its room is the timeline's.
function mapped(store, program, parts, make) {
  let begun = false;
  store.listen(async () => {
    if (begun || !(store.stations.size + store.places.size || [...store.alerts.values()].some((alert) => alert.place?.circle || alert.place?.polygons))) return;
    begun = true;
    document.querySelector("main").dataset.map = "";
    try {
      if (!program.map) throw new Error("it was not fetched");
      await libraries("leaflet.css", "leaflet.js", "topojson-client.js");
      await new Promise(requestAnimationFrame); // a task of its own
      parts.map = make();
    } catch {
      by("map").replaceChildren(el("p", { class: "none" }, "The map library is missing: `make page` fetches it over the network. Everything else works without it."));
      by("map").removeAttribute("role");
    }
  });
}

// What is chosen, in the address: `alert=`, `event=`, `station=`, `silences=`, or `no=` with `about=` and `when=`.
const FIELDS = ["alert", "event", "station", "silences", "no", "about", "when"];

function chosen(address, what) {
  const { alert, event, station, silences, absence } = what ?? {};
  const given = absence ? { no: absence.event ?? "", about: absence.key, when: !Number.isFinite(absence.at) ? null : new Date(absence.at / 1000).toISOString() } : { alert, event: alert ? null : event, station, silences };
  address.set(Object.fromEntries(FIELDS.map((name) => [name, given[name] ?? null])), true);
}

// What the address says was chosen, null: nothing.
function wanted(address) {
  const [alert, event, station, silences, no, about, when] = FIELDS.map((name) => address.get(name));
  if (alert) return { alert };
  if (event) return { event };
  if (station) return { station };
  if (silences) return { silences };
  return no ? { absence: { event: no, key: about ?? "", ...(Date.parse(when) ? { at: Date.parse(when) * 1000 } : {}) } } : null;
}

function linked(store, address, why, tabs) {
  const open = () => {
    address.moving = true; // what is chosen there stays chosen
    tabs.select(address.get("tab") ?? "alerts");
    address.moving = false;
    const what = wanted(address);
    if (what) why.open(what);
    else why.leave();
  };
  let begun = false;
  store.listen(() => {
    if (!begun) open();
    begun = true;
  });
  address.listen(open);
  written(() => { if (!by("why").hidden) open(); });
}

// The time that is in view.
function looked(address, { timeline, lists }) {
  let timer = 0;
  const read = () => {
    const [from, to] = ["from", "to"].map((name) => Date.parse(address.get(name)) * 1000);
    const span = Number(address.get("span") ?? 0);
    timeline.last([...by("span").options].some((each) => Number(each.value) === span) ? span : 0);
    if (to > from) timeline.view = [from, to];
  };
  const write = () => {
    const [from, to] = timeline.view ?? [];
    address.set({ from: from === undefined ? null : new Date(from / 1000).toISOString(), to: to === undefined ? null : new Date(to / 1000).toISOString(), span: timeline.span || null });
  };
  read();
  address.listen(read);
  timeline.look(() => { clearTimeout(timer); timer = setTimeout(() => { write(); lists.viewed(); }, 250); });
}

// Times are in the browser's zone, or in UTC where the address or the reader says so.
function zones(address) {
  const button = by("zone");
  const kept = () => { try { return localStorage.getItem("semcep-zone"); } catch { return null; } };
  const named = () => {
    say(button, zone());
    button.setAttribute("aria-label", `Times are in ${zone()}: show them in ${zone() === "UTC" ? "the browser's zone" : "UTC"}`);
  };
  const read = () => { inUTC((address.get("zone") ?? kept()) === "utc"); named(); };
  button.addEventListener("click", () => {
    const utc = address.get("zone") !== "utc" && kept() !== "utc";
    try { localStorage.setItem("semcep-zone", utc ? "utc" : ""); } catch { /* it is not kept */ }
    address.set({ zone: utc ? "utc" : null });
    read();
  });
  written(named);
  address.listen(read);
  read();
}

function theme() {
  const button = by("theme");
  const named = () => say(button, dark() ? "Light" : "Dark");
  button.addEventListener("click", () => colours(dark() ? "light" : "dark"));
  recoloured(named);
  named();
}

const now = { state: "waiting", why: "", ended: false, lost: "", loading: true, left: null };

function connection(state, why = "") {
  if (state === "broken" && !now.loading) now.left ??= Date.now() * 1000;
  else if (state === "live") now.left = null;
  Object.assign(now, { state, why });
  connected();
}

// Where the input has ended there is nothing live any more, however well it is connected; nor where a source is lost.
function connected() {
  const state = now.state !== "live" ? now.state : now.ended ? "ended" : now.lost ? "lost" : "live";
  const text = { lost: `source lost: ${now.lost}; trying again`, live: "live", waiting: "connecting", broken: "connection lost, trying again", asleep: "paused", past: "not now", ended: "the input has ended" }[state];
  by("connection").dataset.state = state;
  const said = now.why ? `${now.why}; trying again` : text;
  say(by("connection"), said);
  if (now.loading) say(by("no-alerts"), state === "broken" ? "The server cannot be reached, so the open alerts are not known. The page keeps trying." : "Loading …");
  const off = state === "broken" || state === "lost" || state === "ended";
  by("why-connection").hidden = !off; // on a phone the head of the page lies below what is chosen
  say(by("why-connection"), !off ? "" : now.left === null ? said : `${said}. This is from ${brief(now.left)} and may have changed.`);
}

// Who has logged in here can log out.
function session({ session: begun, person }) {
  const button = by("leave");
  button.hidden = !begun;
  button.setAttribute("aria-label", `Log out ${person.name}`);
  button.addEventListener("click", async () => { await send("logout", "POST"); location.reload(); });
}

// Alerts that are for practice are never to be taken for real ones.
function meant(status) {
  if (status === "Actual") return;
  document.title = `${status}: ${document.title}`;
  by("status").hidden = false;
  by("status").replaceChildren(el("b", {}, status), el("span", {}, { Exercise: "alerts are for practice", Test: "alerts only test the system" }[status] ?? ""));
}

// What stands where alerts will.
function nothing(program, choose) {
  const kinds = [...new Set(program.alerts.map((each) => each.event))];
  const text = !kinds.length ? "The program has no ALERT statement, so there are no alerts. What it derives is under Events."
    : `No alert yet. Events that raise one: ${kinds.join(", ")}.`;
  by("no-alerts").replaceChildren(el("p", {}, text));
  const derived = program.events.find((each) => each.derived && kinds.includes(each.name)); // why there is no input is nothing that a rule knows
  if (derived && program.lineage) {
    by("no-alerts").append(el("button", { type: "button", onclick: () => choose({ absence: { event: derived.name } }) }, "Why is there none?"));
  }
}

function header(store) {
  const draw = () => {
    const { records, dead, withdrawn, watermark, ended, lost, ahead } = store.numbers;
    const missing = (lost ?? []).join(", ");
    if (ended !== now.ended || missing !== now.lost) { Object.assign(now, { ended, lost: missing }); connected(); }
    say(by("records"), counted(records));
    say(by("derived"), `${counted(store.derived)}${withdrawn ? `, ${counted(withdrawn)} withdrawn` : ""}`);
    say(by("dead"), `${counted(dead)}${ahead ? `, ${counted(ahead)} ahead of the clock` : ""}`);
    say(by("watermark"), watermark === null ? "–" : moment(watermark + 1));
  };
  store.listen((changed) => { if (changed.numbers && store.numbers) draw(); });
  written(() => { if (store.numbers) draw(); });
}

// For a screen reader: now and then one sentence of what is new, nothing while there is nothing.
function speak(store) {
  let events = 0, alerts = new Set(), timer = 0, known = 0, first = true;
  const heard = () => new Set([...store.alerts.values()].map((each) => each.withdrawn ? each.alert : each.id));
  store.listen((changed) => {
    const total = Object.values(store.numbers?.derived ?? {}).reduce((sum, each) => sum + each, 0);
    if (first) { first = false; known = total; alerts = heard(); return; }
    events = total - known;
    if (!timer && (changed.alerts || events > 0)) {
      timer = setTimeout(() => {
        timer = 0;
        const fresh = [...store.alerts.values()].filter((each) => each.state === "firing" && !alerts.has(each.id));
        for (const each of fresh) alerts.add(each.id);
        if (alerts.size > 5000) alerts = heard();
        const parts = [];
        if (fresh.length) parts.push(`${fresh.length} new ${fresh.length === 1 ? "alert" : "alerts"}, the latest: ${fresh.at(-1).title}`);
        const sum = Object.values(store.numbers?.derived ?? {}).reduce((all, each) => all + each, 0);
        const back = [...store.alerts.values()].filter((each) => each.withdrawn && !alerts.has(each.alert));
        for (const each of back) alerts.add(each.alert);
        if (back.length) parts.push(`${back.length} ${back.length === 1 ? "alert" : "alerts"} withdrawn, the latest: ${back.at(-1).title}`);
        if (fresh.length && sum > known) parts.push(`${counted(sum - known)} new events`);
        known = sum;
        if (parts.length) say(by("said"), parts.join("; "));
      }, QUIET);
    }
  });
}

begin().catch((error) => {
  by("connection").dataset.state = "broken";
  say(by("connection"), `the page cannot start: ${error.message}`);
});

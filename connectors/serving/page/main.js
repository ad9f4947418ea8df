// The page: what is known (store), who brings it (wire), and the parts that show it.

import { ask, by, counted, el, say } from "./elements.js";
import { choose as colours, dark, recoloured } from "./colours.js";
import { Store } from "./store.js";
import { Wire } from "./wire.js";
import { StationMap } from "./map.js";
import { Timeline } from "./timeline.js";
import { Lists } from "./lists.js";
import { Rules } from "./rules.js";
import { Query } from "./query.js";
import { Why } from "./why.js";
import { Tabs } from "./tabs.js";
import { moment } from "./times.js";

const QUIET = 8000; // milliseconds between two sentences for a screen reader

async function script(name) {
  await new Promise((done, failed) => document.head.append(el("script", { src: `page/vendor/${name}`, onload: done, onerror: failed })));
}

async function begin() {
  theme();
  const program = await (await ask("api/program")).json();
  say(by("program"), program.name.split("/").at(-1));
  document.title = `${program.name.split("/").at(-1)} – semcep`;
  meant(program.status);
  const store = new Store();
  const kinds = new Map(program.events.filter((event) => event.derived).map((event, number) => [event.name, number]));
  const rules = new Rules(store, program);
  const parts = {};
  const why = new Why(store, kinds, rules, program, {
    alert: (alert) => parts.map?.show(alert),
    event: (event) => parts.timeline.show(store.ids.get(event.id) ?? event),
    station: (key) => parts.map?.go(key),
    only: (key) => only(parts.timeline, key),
    asked: (question) => parts.timeline?.ask(question),
  });
  const choose = (what) => why.open(what);
  parts.timeline = new Timeline(store, kinds, { alerting: program.events.some((each) => each.alerts), asks: program.lineage }, choose);
  parts.lists = new Lists(store, kinds, choose);
  new Query(program, store, choose);
  new Tabs((name) => { why.leave(); parts.lists.show(name); rules.show(name); });
  nothing(program, choose);
  header(store);
  speak(store);
  linked(store, choose);
  try {
    if (!program.map) throw new Error("it was not fetched");
    await Promise.all([script("leaflet.js"), script("topojson-client.js")]);
    parts.map = new StationMap(store, program.rights, choose, kinds);
  } catch {
    by("map").replaceChildren(el("p", { class: "none" }, "The map library is not here: `make page` fetches it, with a network. The rest works without."));
    by("map").removeAttribute("role");
  }
  window.semcep = Object.freeze({ store, parts }); // for a look from the console
  new Wire(store, program.alerts, connection).begin();
}

// A link to an alert, as an Alertmanager has it: `#alert=` and its name.
function linked(store, choose) {
  const open = () => {
    const alert = /^#alert=([0-9a-f]{32})$/.exec(location.hash)?.[1];
    if (alert) choose({ alert });
  };
  let begun = false;
  store.listen(() => {
    if (!begun) open();
    begun = true;
  });
  addEventListener("hashchange", open);
}

function only(timeline, key) {
  const title = by("timeline-title");
  timeline.filter(key);
  title.replaceChildren("Timeline ");
  if (key !== null) title.append(el("button", { type: "button", onclick: () => only(timeline, null) }, `${key} ×`));
}

function theme() {
  const button = by("theme");
  const named = () => say(button, dark() ? "Light" : "Dark");
  button.addEventListener("click", () => colours(dark() ? "light" : "dark"));
  recoloured(named);
  named();
}

const now = { state: "waiting", why: "", ended: false, lost: "" };

function connection(state, why = "") {
  Object.assign(now, { state, why });
  connected();
}

// Where the input has ended there is nothing live any more, however well it is connected; nor where a source is lost.
function connected() {
  const state = now.state !== "live" ? now.state : now.ended ? "ended" : now.lost ? "lost" : "live";
  const text = { lost: `source lost: ${now.lost}; trying again`, live: "live", waiting: "connecting", broken: "connection lost, trying again", asleep: "paused", ended: "the input has ended" }[state];
  by("connection").dataset.state = state;
  say(by("connection"), now.why ? `${now.why}; trying again` : text);
}

// Alerts that are for practice are never to be taken for real ones.
function meant(status) {
  if (status === "Actual") return;
  document.title = `${status}: ${document.title}`;
  by("status").hidden = false;
  by("status").replaceChildren(el("b", {}, status), el("span", {}, { Exercise: "alerts are for practice", Test: "alerts only try the machinery" }[status] ?? ""));
}

// What stands where alerts will.
function nothing(program, choose) {
  const kinds = [...new Set(program.events.filter((each) => each.alerts).map((each) => each.name))];
  const text = !kinds.length ? "The program has no ALERT statement, so there is nothing to alert to. What it derives is under Events."
    : `No alert yet. Events that give one: ${kinds.join(", ")}.`;
  by("no-alerts").replaceChildren(el("p", {}, text));
  if (kinds.length && program.lineage) {
    by("no-alerts").append(el("button", { type: "button", onclick: () => choose({ absence: { event: kinds[0] } }) }, "Why is there none?"));
  }
}

function header(store) {
  store.listen((changed) => {
    if (!changed.numbers || !store.numbers) return;
    const { records, dead, derived, withdrawn, watermark, ended, lost, ahead } = store.numbers;
    const missing = (lost ?? []).join(", ");
    if (ended !== now.ended || missing !== now.lost) { Object.assign(now, { ended, lost: missing }); connected(); }
    say(by("records"), counted(records));
    const total = Object.values(derived).reduce((sum, each) => sum + each, 0);
    say(by("derived"), `${counted(total)}${withdrawn ? `, ${counted(withdrawn)} withdrawn` : ""}`);
    say(by("dead"), `${counted(dead)}${ahead ? `, ${counted(ahead)} ahead of the clock` : ""}`);
    say(by("watermark"), watermark === null ? "–" : moment(watermark + 1));
  });
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

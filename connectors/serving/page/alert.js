// The view of one alert: what, where, since when, how severe; the readings behind it, and its episodes before.

import { counted, el, facts, valued } from "./elements.js";
import { age } from "./ages.js";
import { around, behind } from "./behind.js";
import { Charts } from "./charts.js";
import { moment } from "./times.js";
import { isActive, stateOf, subjects } from "./store.js";

const EPISODES = 10;

// `found`: its latest event, null where that is not held.
export function alertParts(change, store, program, found, choose) {
  const active = isActive(change);
  const over = change.state === "resolved";
  const time = (text) => { const at = Date.parse(text) * 1000; return el("span", {}, moment(at), " · ", age(at)); };
  const before = [...store.alerts.values()].filter((each) => each.name === change.name && each.alert !== change.alert && String(subjects(each)) === String(subjects(change))).reverse();
  return [
    el("p", { class: "badge", "data-severity": change.severity, "data-state": stateOf(change) },
      change.status === "Actual" ? null : el("i", { class: "practice" }, change.status), `${change.severity}, ${stateOf(change)}`),
    change.note ? el("p", { class: "note" }, change.note)
      : change.withdrawn ? el("p", { class: "note" }, "Taken back because the program was changed. That is no all-clear: what it warned of may go on.") : null,
    change.text ? el("p", { class: "lead" }, change.text) : null,
    change.instruction && active ? el("p", { class: "instruction", "data-severity": change.severity }, change.instruction) : null,
    change.runbook ? el("p", { class: "runbook" }, el("a", { class: "button", href: change.runbook, rel: "noreferrer" }, "Runbook")) : null,
    facts([["alert", change.name], ...Object.entries(change.key).map(([name, value]) => [name, placed(value, store)]), ...judged(change),
      ["since", time(change.start)], ["fired", change.fired === null ? "not yet" : time(change.fired)], ["latest", time(change.end)],
      [change.withdrawn ? "taken back at" : over ? "over at" : "until", time(over ? change.time : change.until)],
      ["occurrences", counted(change.occurrences)], ...Object.entries(change.labels)]),
    charted(behind(program, found, change), around(found, change, store.present())),
    before.length ? el("h3", {}, "Earlier episodes") : null,
    before.length ? el("ol", { class: "short" }, ...before.slice(0, EPISODES).map((each) => el("li", {}, el("button", { type: "button", onclick: () => choose({ alert: each.alert }) },
      el("span", { class: "top" }, el("b", {}, each.severity), el("span", {}, stateOf(each)), el("time", {}, moment(Date.parse(each.start) * 1000))))))) : null,
    el("p", {}, ...(change.fired === null ? [] : [el("a", { href: `feeds/cap/${encodeURIComponent(change.alert)}` }, "as CAP"), " · "]),
      el("a", { href: `feeds/alerts/${encodeURIComponent(change.alert)}` }, "its life as JSON")),
  ].filter(Boolean);
}

// Charts of what is behind it, nothing where there are no numbers.
export const charted = (specs, range) => specs.length ? el("section", { "aria-label": "The readings behind it" }, el("h3", {}, "The readings behind it"), new Charts(specs, range).box) : null;

// A key with the name of the place that it is.
function placed(value, store) {
  const station = store.stations.get(String(value));
  return station && station.name !== station.key ? `${station.key}, ${station.name}` : valued(value);
}

// How soon and how sure, where the program says so.
const judged = ({ urgency, certainty }) => [["urgency", urgency, "Unknown"], ["certainty", certainty, "Observed"]]
  .filter(([, value, usual]) => value && value !== usual).map(([name, value]) => [name, value]);

// The view of one alert: what, where, since when, how severe, who has it; what to do; the readings behind it; its episodes.

import { ask, counted, el, facts, say, valued } from "./elements.js";
import { age, fromNow } from "./ages.js";
import { around, behind, briefly, present } from "./behind.js";
import { Charts } from "./charts.js";
import { Handling } from "./handling.js";
import { latestRecords } from "./lists.js";
import { brief, lasting, moment } from "./times.js";
import { isActive, isUnheld, overAt, stateOf, subjects } from "./store.js";

const PACE = 2000; // milliseconds between two looks for a new reading

// The alert as the server has it, with what people did and other alerts of its key; null: there is none.
export async function whole(alert) {
  try {
    const full = await (await ask(`alerts/${encodeURIComponent(alert)}`)).json();
    [full.silences, full.receivers] = await Promise.all([
      Promise.all((full.silenced ?? []).map(async (id) => (await ask(`silences/${encodeURIComponent(id)}`)).json())), receivers(full)]);
    return full;
  } catch (error) {
    if (error.message.startsWith("404 ")) return null;
    throw error;
  }
}

// The names of those that are sent an alert as severe as it is now, as the file of routes has them, else addresses; null: it is not sent, or who gets it is not told.
async function receivers({ state, labels }) {
  if (!["firing", "kept"].includes(state)) return null;
  const filters = Object.entries(labels).map(([name, value]) => `filter=${encodeURIComponent(`${name}=${JSON.stringify(value)}`)}`);
  const found = await ask(`api/v2/alerts?${filters.join("&")}`).then((answer) => answer.json(), () => []);
  return found[0]?.receivers.map(({ name }) => name) ?? null;
}

const WAYS = { smtp: "mail to", smtps: "mail to", mqtt: "MQTT", mqtts: "MQTT", cloudevents: "webhook at", alertmanager: "Alertmanager at" };

// An address as people read it: mail to a mailbox, a broker with its topic, else a host, or the service alone.
function addressed(address) {
  const [, scheme, host, path] = /^([^:]+):\/\/([^/]*)\/?(.*)$/.exec(address) ?? [null, address, "", ""];
  const way = WAYS[scheme.split("+")[0]];
  return !way ? scheme : scheme.startsWith("smtp") ? `${way} ${path}` : scheme.startsWith("mqtt") ? `${way} ${path} at ${host}` : `${way} ${host}`;
}

// Receivers with their readable addresses; the whole address is told to whoever points there.
function receiving(names, receivers) {
  const every = (receivers[""] ?? []).filter((name) => !names.includes(name)); // they are in no route
  const parts = [...names.filter((name) => name !== "nobody" || !every.length), ...every].map((name) => {
    const addresses = receivers[name];
    return el("span", { title: (addresses ?? [name]).join("\n") }, addresses ? `${name} (${addresses.map(addressed).join(", ")})` : addressed(name));
  });
  return parts.length ? el("span", {}, ...parts.flatMap((part, at) => at ? [", ", part] : [part])) : "nobody";
}

export class AlertView {
  // `change`: its latest, `full`: as `whole` has it, `found`: its latest event, null where that is not held.
  // `shows(change)`: shows it on the map; `unheld()`: lists the alerts that nobody has.
  constructor(change, full, store, program, found, choose, shows, unheld) {
    Object.assign(this, { change, store, program, found, choose, shows, unheld });
    this.others = el("span", {});
    this.present = el("span", {}); // the reading of now
    this.head = el("div", {});
    this.rest = el("div", {});
    this.below = el("div", {});
    this.handling = full ? new Handling(program.person, full, () => this.again()) : null;
    this.charts = charted(behind(program, found, change), around(found, change, store.present()));
    this.draw(change, full);
  }

  get parts() { return [this.head, this.handling?.box, this.rest, this.charts, this.below].filter(Boolean); }

  // It has changed: what is shown of it is renewed, what is being written stays.
  async again() {
    const full = await whole(this.change.alert).catch(() => null);
    if (full) this.draw(this.store.alerts.get(this.change.alert) ?? full.changes.at(-1), full);
  }

  // What is read now, beside what was read when it began.
  async read() {
    const key = this.found?.key ?? subjects(this.change)[0], mark = this.store.numbers?.watermark;
    if (mark === this.mark || performance.now() - this.looked < PACE || document.body.hasAttribute("data-past")) return;
    Object.assign(this, { mark, looked: performance.now() });
    const records = this.change.state !== "resolved" && key !== undefined ? await latestRecords(key).catch(() => []) : [];
    const text = present(this.program, this.found, this.change, records);
    say(this.present, text && `; now ${text}`);
  }

  renew() {
    this.count();
    const now = this.store.alerts.get(this.change.alert);
    if (now && now.revision !== this.change.revision) { this.change = now; this.again(); }
  }

  // Lead to the other alerts that nobody has.
  count() {
    const others = [...this.store.alerts.values()].filter((each) => each.alert !== this.change.alert && isUnheld(each)).length;
    const text = `${counted(others)} ${others === 1 ? "other" : "others"} that nobody has`;
    if (this.others.textContent === ` · ${text}`) return;
    this.others.replaceChildren(...(others ? [" · ", el("button", { type: "button", class: "link", onclick: this.unheld }, text)] : []));
  }

  draw(change, full) {
    this.change = change;
    this.count();
    this.handling?.draw(full);
    const active = isActive(change), over = change.state === "resolved";
    const time = (text) => { const at = Date.parse(text) * 1000; return el("span", {}, timed(at), " · ", age(at)); };
    const labels = Object.entries(change.labels);
    const placed = document.querySelector("main").dataset.map !== undefined && (change.place?.circle || change.place?.polygons || subjects(change).some((key) => this.store.stations.has(key)));
    this.head.replaceChildren(...[
      el("p", { class: "badge", "data-severity": change.severity, "data-state": stateOf(change) },
        change.status === "Actual" ? null : el("i", { class: "practice" }, change.status), `${change.severity}, ${stateOf(change)}${judgement(change)}`),
      change.note ? el("p", { class: "note" }, change.note)
        : change.withdrawn ? el("p", { class: "note" }, "Taken back because the program was changed. This is no all-clear: the condition that it warned of may continue.") : null,
      change.text ? el("p", { class: "lead" }, change.text) : null,
      change.instruction && active ? el("p", { class: "instruction", "data-severity": change.severity }, change.instruction) : null,
      facts([...(over ? [[change.withdrawn ? "taken back at" : "over at", time(new Date(overAt(change) / 1000).toISOString())], ["began", time(change.start)]] : [["since", time(change.start)]]),
        ...this.firing(change, full), ...(change.state === "kept" ? [["condition", el("span", {}, "has ended; the alert is over at ", time(change.until), ", unless it begins again")]] : []),
        ["why", el("span", {}, this.reason(change), this.present)], [over ? "who had it" : "who has it", el("span", {}, el("b", {}, holders(change)), this.others)], ...latest(full?.actions), ...this.next(change, full), ...(full?.silences ?? []).map((each) => ["silenced", this.silence(each)])]),
      change.runbook ? el("p", { class: "actions" }, el("a", { class: "button", href: change.runbook, rel: "noreferrer" }, "Runbook")) : null,
    ].filter(Boolean));
    const values = Object.entries(change.values).filter(([name, value]) => change.key[name] !== value);
    const opened = this.rest.querySelector("details")?.open;
    this.rest.replaceChildren(...[
      placed ? el("p", { class: "actions" }, el("button", { type: "button", onclick: () => this.shows(change) }, "Show on the map")) : null,
      facts([["alert", change.name], ...Object.entries(change.key).map(([name, value]) => [name, stationed(value, this.store)]), ...judged(change),
        ...(change.fired === null || Date.parse(change.fired) - Date.parse(change.start) < 60_000 ? [] : [["fired", time(change.fired)]]), ...(change.verdict ? [["closed as", change.verdict]] : []),
        ...labels.filter(([name, value]) => String(change.key[name]) !== value)]),
      el("details", { class: "folded", open: opened }, el("summary", {}, "All attributes"), facts([
        ...values.map(([name, value]) => [name, valued(value)]), ["latest", time(change.end)], ...(over ? [] : [["until", time(change.until)]]), ["occurrences", counted(change.occurrences)],
        ["event", change.event], ["urgency", change.urgency], ["certainty", change.certainty], ["category", change.category], ...spot(change), ["id", change.id]])),
    ].filter(Boolean));
    this.mark = null;
    this.read();
    const actions = full?.actions ?? [], episodes = full?.episodes ?? [];
    this.below.replaceChildren(...[
      ...(actions.length ? [el("h3", {}, "What people did"), el("ol", { class: "log" }, ...actions.map((each) => el("li", {},
        each.when ? el("time", {}, `${moment(Date.parse(each.when) * 1000)} · `) : null, el("b", {}, each.by), ` ${done(each)}`)))] : []),
      ...(episodes.length ? [el("h3", {}, "Other episodes"), el("ol", { class: "short" }, ...episodes.map((each) => this.episode(each)))] : []),
      el("p", {}, ...(change.fired === null ? [] : [el("a", { href: `feeds/cap/${encodeURIComponent(change.alert)}` }, "as CAP"), " · "]),
        el("a", { href: `feeds/alerts/${encodeURIComponent(change.alert)}` }, "its life as JSON")),
    ]);
  }

  // Why it is there in a few words; the whole of it stands below.
  reason(change) {
    const text = briefly(this.program, this.found, change);
    return this.found === null ? text : el("button", { type: "button", class: "link", onclick: () => document.getElementById("because")?.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" }) }, text);
  }

  // When it would fire that is only pending yet.
  firing(change, full) {
    const rule = this.program.alerts.find(({ name }) => name === change.name);
    if (change.state !== "pending" || !rule) return [];
    const due = Date.parse(full?.changes.find(({ revision }) => revision === 0)?.time ?? change.start) * 1000 + rule.after;
    return [["fires", el("span", {}, ...(rule.lasts ? ["at ", timed(due), " · ", age(due), ", if its condition holds until then"] : ["when it occurs again at ", timed(due), " or later · ", age(due)]))]];
  }

  // How its severity rose and who is told, and what comes if nobody does anything.
  next(change, full) {
    const rule = this.program.alerts.find(({ name }) => name === change.name), { escalated, acknowledged } = change;
    if (!rule || !isActive(change)) return [];
    const fired = Date.parse(change.fired) * 1000, now = Date.now() * 1000, told = full?.changes.findLast((each) => each.when && !each.action);
    const since = Date.parse(full?.changes.findLast(({ state }) => state === "escalated")?.time ?? "") * 1000, rises = fired + rule.rises[escalated];
    const last = Date.parse(told?.when ?? "") * 1000, again = last + Math.max(1, Math.ceil((now - last) / rule.repeat)) * rule.repeat;
    const rows = [];
    if (escalated) rows.push(["escalated", el("span", {}, `from ${rule.severities[escalated - 1]}`, ...(since ? [" at ", timed(since), `, ${lasting(since - fired)} after it fired`] : []))]);
    const hidden = ["inhibited", "silenced"].find((each) => each === stateOf(change));
    if (full?.receivers) rows.push(["sent to", hidden ? `nobody while it is ${hidden}` : receiving(full.receivers, this.program.receivers)]);
    if (acknowledged && (rises || rule.repeat)) rows.push(["next", `nothing while ${acknowledged} has it`]);
    else if (rises) rows.push(["next", el("span", {}, `${rule.severities[escalated + 1]} at `, timed(rises), " · ", age(rises), ", unless somebody acknowledges it")]);
    if (!acknowledged && !hidden && rule.repeat) rows.push(["reminder", el("span", {}, `every ${lasting(rule.repeat)}`, ...(again ? [", the next about ", timed(again), ` · ${fromNow(again)}`] : []))]);
    return rows;
  }

  // A silence that hides it: by whom, until when, and how much else.
  silence({ id, createdBy, endsAt, comment, maintenance, hides }) {
    const until = Date.parse(endsAt) * 1000;
    return el("span", {}, maintenance ? "maintenance" : `by ${createdBy}`, ` until ${brief(until)} · ${fromNow(until)}, hides ${counted(hides)} ${hides === 1 ? "alert" : "alerts"}${comment ? `: ${comment}` : ""} `,
      el("button", { type: "button", class: "link", onclick: () => this.choose({ silences: id }) }, "the silence"));
  }

  episode(each) {
    const start = Date.parse(each.start) * 1000;
    const how = [each.state, each.verdict && `closed as ${each.verdict}`, each.acknowledged && `by ${each.acknowledged}`].filter(Boolean).join(", ");
    return el("li", {}, el("button", { type: "button", onclick: () => this.choose({ alert: each.alert }) },
      el("span", { class: "top" }, el("b", {}, each.severity), el("span", {}, how), el("time", {}, moment(start)))));
  }
}

function done({ action, comment, assignee, verdict }) {
  const what = { assigned: assignee ? `assigned it to ${assignee}` : "assigned it to nobody", closed: `closed it as ${verdict}`, reopened: "reopened it", unacknowledged: "gave it back", acknowledged: "acknowledged it",
    commented: "said", silenced: "silenced it", unsilenced: "ended its silence" }[action] ?? action;
  return comment ? `${what}: ${comment}` : what;
}

// What somebody did with it last, for whoever wants to know if anyone is on it.
const latest = (actions) => (actions ?? []).slice(-1).map((each) => ["last action", `${each.when ? `${brief(Date.parse(each.when) * 1000)} · ` : ""}${each.by} ${done(each)}`]);

// A time, written briefly.
const timed = (ticks) => el("time", { datetime: new Date(ticks / 1000).toISOString(), title: moment(ticks) }, brief(ticks));

// The verdict on it, if there is one.
export const judgement = ({ verdict }) => verdict ? `, closed as ${verdict}` : "";

// Its place, where it is a circle.
const spot = ({ place }) => place?.circle ? [["place", `${place.circle[0].toFixed(4)}, ${place.circle[1].toFixed(4)}${place.circle[2] > 0 ? `, ${counted(Math.round(place.circle[2]))} m around` : ""}`]] : [];

export const holders = ({ acknowledged, assignee, state }) => [acknowledged && `acknowledged by ${acknowledged}`, assignee && `assigned to ${assignee}`, assignee && !acknowledged && state !== "resolved" && "not acknowledged"].filter(Boolean).join(", ") || "nobody";

// Charts of what is behind it, nothing where there are no numbers.
export const charted = (specs, range) => specs.length ? el("section", { "aria-label": "The readings behind it" }, el("h3", {}, "The readings behind it"), new Charts(specs, range).box) : null;

// A key with the name of the place that it is.
function stationed(value, store) {
  const station = store.stations.get(String(value));
  return station && station.name !== station.key ? `${station.key}, ${station.name}` : valued(value);
}

// How soon and how sure, where the program says so.
const judged = ({ urgency, certainty }) => [["urgency", urgency, "Unknown"], ["certainty", certainty, "Observed"]]
  .filter(([, value, usual]) => value && value !== usual).map(([name, value]) => [name, value]);

// The readings behind an event or an alert, as charts: what its rules compare, about whom it was, with its interval.

import { valued } from "./elements.js";
import { numeric } from "./readings.js";
import { subjects } from "./store.js";
import { brief } from "./times.js";

const CHARTS = 4;
const LINES = 4;

// `found`: the event, with what it comes from where that is kept; `alert`: the alert that it gave, if it is about one.
export function behind(program, found, alert) {
  const inputs = program.events.filter((event) => !event.derived);
  const thresholds = decisive(program, found?.type, alert);
  const records = found?.because ?? [];
  const shade = found ? [found.start ?? found.end, found.end ?? found.start] : alert ? [Date.parse(alert.start) * 1000, Date.parse(alert.end) * 1000] : null;
  const specs = [];
  for (const event of inputs) {
    const mine = records.filter((record) => record.type === event.name);
    const rules = thresholds.filter((each) => each.event === event.name);
    if (!mine.length && !rules.length) continue;
    const some = numeric(event, program.thresholds);
    const attributes = some.filter((each) => rules.some((rule) => rule.attribute === each.name));
    const keys = [...new Set(mine.map((record) => String(record[event.subject])))];
    if (!keys.length) keys.push(found?.key ?? subjects(alert)[0] ?? "");
    for (const { name } of attributes.length ? attributes : some) {
      specs.push({
        title: `${name} of ${event.name}`, thresholds: rules.filter((rule) => rule.attribute === name), shade,
        lines: keys.slice(0, LINES).map((key) => ({
          name: key, event: event.name, attribute: name, key,
          points: mine.filter((record) => String(record[event.subject]) === key && typeof record[name] === "number").map((record) => [record.end, record[name]]),
        })),
      });
    }
  }
  return specs.slice(0, CHARTS);
}

// The thresholds that lead to an event or an alert.
function decisive(program, type, alert) {
  const goals = new Set([type ?? alert?.event, ...(alert ? [`alert ${alert.name}`] : [])]);
  return unique(program, program.thresholds.filter((each) => each.leads.some((name) => goals.has(name))));
}

const HOLDS = { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b, "==": (a, b) => a === b, "=": (a, b) => a === b, "!=": (a, b) => a !== b };

// The comparisons that an alert came about by.
export const compared = (program, found, alert) => decisive(program, found?.type, alert).filter((each) => !each.aggregate && !each.name.endsWith(" ends"));

// Why there is an alert, in a few words: what its rules compared with what, else the event that it is on.
export function briefly(program, found, alert) {
  const said = new Map(); // by attribute and side: with what was read rather than without, of several the last, which is the alert's own
  for (const { event, attribute, operator, value } of compared(program, found, alert)) {
    const read = (found?.because ?? []).filter((each) => each.type === event && typeof each[attribute] === "number").map((each) => each[attribute]);
    const seen = read.findLast((each) => HOLDS[operator]?.(each, value)) ?? read.at(-1) ?? (event === alert.event ? alert.values[attribute] : undefined);
    const known = typeof seen === "number", side = `${attribute} ${operator[0]}`;
    if (known ? HOLDS[operator]?.(seen, value) : !said.has(side)) said.set(side, `${attribute}${known ? ` ${valued(seen)}` : ""} ${operator} ${valued(value)}`);
  }
  const keys = new Set(Object.values(alert.key).map(String));
  const values = Object.entries(alert.values).filter(([, value]) => !keys.has(String(value))).map(([name, value]) => `${name} ${valued(value)}`);
  return [alert.event, said.size ? [...said.values()].join(", ") : values.join(", ")].filter(Boolean).join(": ");
}

// What was read last of what its rules compare, if that is later than what it came from; empty: nothing is.
export function present(program, found, alert, records) {
  const since = (type) => Math.max(Date.parse(alert.start) * 1000, ...(found?.because ?? []).filter((each) => each.type === type).map((each) => each.end));
  const names = new Map(compared(program, found, alert).map(({ event, attribute }) => [`${event} ${attribute}`, { event, attribute }]));
  const seen = [...names.values()].map(({ event, attribute }) => ({ attribute, record: records.find(({ type, end, values }) => type === event && end > since(event) && typeof values[attribute] === "number") })).filter(({ record }) => record);
  return seen.map(({ attribute, record }) => `${seen.length > 1 ? `${attribute} ` : ""}${valued(record.values[attribute])} at ${brief(record.end)}`).join(", ");
}

// The time that such charts show at first: some before and some after.
export function around(found, alert, now) {
  const times = [found?.start, found?.end, ...(found?.because ?? []).flatMap((record) => [record.start, record.end]), alert ? Date.parse(alert.start) * 1000 : null,
    alert && alert.state !== "resolved" ? now : null].filter((time) => Number.isFinite(time));
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const room = Math.max((to - from) * 0.4, 60e6);
  return [from - room, to + room * 0.15];
}

// What a threshold decides on, by the rule that compares: `low begins`.
function named({ rules, text }, { line }) {
  const rule = rules.find((each) => each.name && each.line <= line && line <= Math.max(each.end, each.line));
  const word = /^\s*(?:\w+:\s*)?(initiate|terminate)\b/.exec(text.split("\n")[(rule?.line ?? 0) - 1] ?? "")?.[1];
  const event = (rule?.event ?? "").replace(/^(alert|transitions of) /, "");
  return word ? `${event} ${word === "initiate" ? "begins" : "ends"}` : event;
}

// Rules that compare with the same value are one line.
export function unique(program, thresholds) {
  const known = new Map();
  for (const each of thresholds) {
    const name = [each.event, each.attribute, each.operator, each.value, each.aggregate].join(" ");
    if (!known.has(name)) known.set(name, { ...each, name: named(program, each) });
  }
  return [...known.values()];
}

// The readings behind an event or an alert, as charts: what its rules compare, about whom it was, with its interval.

import { numeric } from "./readings.js";
import { subjects } from "./store.js";

const CHARTS = 4;
const LINES = 4;

// `found`: the event, with what it comes from where that is kept; `alert`: the alert that it gave, if it is about one.
export function behind(program, found, alert) {
  const inputs = program.events.filter((event) => !event.derived);
  const goals = new Set([found?.type ?? alert?.event, ...(alert ? [`alert ${alert.name}`] : [])]);
  const compared = unique(program.thresholds.filter((each) => each.leads.some((name) => goals.has(name))));
  const records = found?.because ?? [];
  const specs = [];
  for (const event of inputs) {
    const mine = records.filter((record) => record.type === event.name);
    const rules = compared.filter((each) => each.event === event.name);
    if (!mine.length && !rules.length) continue;
    const some = numeric(event, program.thresholds);
    const attributes = some.filter((each) => rules.some((rule) => rule.attribute === each.name));
    const keys = [...new Set(mine.map((record) => String(record[event.subject])))];
    if (!keys.length) keys.push(found?.key ?? subjects(alert)[0] ?? "");
    for (const { name } of attributes.length ? attributes : some) {
      specs.push({
        title: `${name} of ${event.name}`, thresholds: rules.filter((rule) => rule.attribute === name), shade: found ? [found.start ?? found.end, found.end ?? found.start] : null,
        lines: keys.slice(0, LINES).map((key) => ({
          name: key, event: event.name, attribute: name, key,
          points: mine.filter((record) => String(record[event.subject]) === key && typeof record[name] === "number").map((record) => [record.end, record[name]]),
        })),
      });
    }
  }
  return specs.slice(0, CHARTS);
}

// The time that such charts show at first: some before and some after.
export function around(found, alert, now) {
  const times = [found?.start, found?.end, ...(found?.because ?? []).flatMap((record) => [record.start, record.end]), alert ? Date.parse(alert.start) * 1000 : null,
    alert && alert.state !== "resolved" ? now : null].filter((time) => Number.isFinite(time));
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const room = Math.max((to - from) * 0.25, 1800e6);
  return [from - room, to + room * 0.5];
}

// Rules that compare with the same value are one line.
export function unique(thresholds) {
  const known = new Map();
  for (const each of thresholds) {
    const name = [each.event, each.attribute, each.operator, each.value, each.aggregate].join(" ");
    if (!known.has(name)) known.set(name, each);
  }
  return [...known.values()];
}

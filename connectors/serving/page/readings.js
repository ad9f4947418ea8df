// The numbers of an attribute about a subject: of input events from the server, of derived ones from what the page holds.

import { ask } from "./elements.js";

const NUMBERS = new Set(["int", "float"]);

const PLACE = /^(lat|latitude|long|lon|lng|longitude)$|wgs84_pos#(lat|long)$/i; // where something is

// The attributes of an event that a chart can show: numbers, and what a rule compares with one.
export const numeric = (event, thresholds) => event.subject === null ? [] : event.attributes.filter((each) => each.name !== event.subject && !PLACE.test(each.name) && !PLACE.test(each.iri)
  && (NUMBERS.has(each.type) || thresholds.some((rule) => rule.event === event.name && rule.attribute === each.name)));

// `points`: known besides, [time, value].
export async function readings(store, program, { event, attribute, key, points = [] }, from, to) {
  const all = program.events.find((each) => each.name === event)?.derived ? held(store, event, attribute, key) : await asked(event, attribute, key, from, to);
  const known = new Map(all.times.map((time, at) => [time, all.values[at]]));
  for (const [time, value] of points) if (!known.has(time)) known.set(time, value);
  const both = [...known].filter(([time]) => store.until === null || time <= store.until).sort((a, b) => a[0] - b[0]);
  return { times: both.map(([time]) => time), values: both.map(([, value]) => value) };
}

async function asked(event, attribute, key, from, to) {
  const query = new URLSearchParams({ event, attribute, key, since: Math.floor(from), until: Math.ceil(to) });
  try {
    return await (await ask(`api/series?${query}`)).json();
  } catch {
    return { times: [], values: [] };
  }
}

function held(store, event, attribute, key) {
  const mine = (store.keys.get(key) ?? []).filter((each) => each.type === event && typeof each.values[attribute] === "number");
  return { times: mine.map((each) => each.end), values: mine.map((each) => each.values[attribute]) };
}

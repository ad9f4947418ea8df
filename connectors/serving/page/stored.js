// Events that the page does not hold, from the store.

import { ask } from "./elements.js";

const MOST = 5000; // events that it is asked for
const TIME = "http://www.w3.org/2006/time#";
const XSD = "http://www.w3.org/2001/XMLSchema#";

async function rows(query) {
  const answer = await ask("sparql", { method: "POST", body: query, headers: { "Content-Type": "application/sparql-query", Accept: "application/sparql-results+json" } });
  return (await answer.json()).results.bindings;
}

const values = (event) => event.attributes.map((each, number) => `OPTIONAL { ?e <${each.iri}> ?v${number} }`).join(" ");
const derived = (program) => program.events.filter((each) => each.derived);

// The newest of each kind that ended in some time; `more`: where there are more than it was asked for.
export async function stored(program, from, at) {
  const stamp = (ticks) => `"${new Date(ticks / 1000).toISOString()}"^^<${XSD}dateTime>`;
  const events = [], more = [];
  for (const event of derived(program)) {
    const answered = await rows(`SELECT * WHERE { ?e a <${event.iri}> ; <${TIME}hasEnd>/<${TIME}inXSDDateTimeStamp> ?end ; <${TIME}hasBeginning>/<${TIME}inXSDDateTimeStamp> ?start . FILTER(?end >= ${stamp(from)} && ?end <= ${stamp(at)}) ${values(event)} } ORDER BY DESC(?end) LIMIT ${MOST}`);
    if (answered.length === MOST) more.push(`of ${event.name} only the newest ${MOST} before this time`);
    for (const row of answered) events.push(asEvent(row, event));
  }
  return { events: events.sort((a, b) => a.end - b.end), more };
}

// The event with an id, of a kind; null: the store does not have it either.
export async function storedEvent(program, name, id) {
  const event = derived(program).find((each) => each.name === name);
  if (!event || !/^[0-9a-f]+$/.test(id)) return null;
  const [row] = await rows(`SELECT * WHERE { BIND(<${program.base}event/${id}> AS ?e) ?e a <${event.iri}> OPTIONAL { ?e <${TIME}hasBeginning>/<${TIME}inXSDDateTimeStamp> ?start } OPTIONAL { ?e <${TIME}hasEnd>/<${TIME}inXSDDateTimeStamp> ?end } ${values(event)} } LIMIT 1`);
  return row ? { ...asEvent(row, event), because: null } : null;
}

function asEvent(row, event) {
  const values = Object.fromEntries(event.attributes.map((each, number) => {
    const text = row[`v${number}`]?.value ?? null;
    return [each.name, text !== null && ["int", "float"].includes(each.type) ? Number(text) : text !== null && each.type === "bool" ? text === "true" : text];
  }));
  const time = (name) => row[name] ? Date.parse(row[name].value) * 1000 : null;
  return { id: row.e.value.split("/").at(-1), type: event.name, key: event.subject === null ? null : values[event.subject] === null ? null : String(values[event.subject]), values, start: time("start"), end: time("end") };
}

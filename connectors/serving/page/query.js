// The query box: SPARQL to the endpoint, the answer as a table.

import { by, counted, el, say } from "./elements.js";

const ROWS = 500;
const EVENT = /event\/([0-9a-f]{32})$/;
const TIME = "http://www.w3.org/2006/time#";

export class Query {
  constructor(program, store, choose) {
    this.store = store;
    this.choose = choose;
    this.base = program.base;
    const examples = this.examples(program);
    by("examples").replaceChildren(...examples.map(([name], number) => el("option", { value: number }, name)));
    by("examples").addEventListener("change", (event) => { by("sparql").value = examples[event.target.value][1](); });
    by("sparql").value = examples[0][1]();
    by("sparql").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.run(); }
    });
    by("query").addEventListener("submit", (event) => { event.preventDefault(); this.run(); });
  }

  examples(program) {
    const since = () => this.hourAgo();
    const found = [["the newest events", () => `PREFIX time: <${TIME}>\nSELECT ?event ?class ?end WHERE {\n  ?event a ?class ; time:hasEnd/time:inXSDDateTimeStamp ?end\n}\nORDER BY DESC(?end) LIMIT 20`],
      ["how many of each in the last hour", () => `PREFIX time: <${TIME}>\nPREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\nSELECT ?class (COUNT(*) AS ?events) WHERE {\n  ?event a ?class ; time:hasEnd/time:inXSDDateTimeStamp ?end\n  FILTER(?end > ${since()})\n}\nGROUP BY ?class ORDER BY DESC(?events)`]];
    for (const event of program.events.filter((each) => each.derived).slice(0, 10)) {
      const parts = event.attributes.map((each) => `    <${each.iri}> ?${each.name}`);
      found.push([`events ${event.name}`, () => `SELECT * WHERE {\n  ?event a <${event.iri}>${parts.length ? ` ;\n${parts.join(" ;\n")}` : ""}\n}\nLIMIT 50`]);
    }
    return found;
  }

  // By the time of the events, as far as it has come.
  hourAgo() {
    const reached = this.store.numbers?.watermark ?? this.store.events.at(-1)?.end;
    if (reached === null || reached === undefined) return 'NOW() - "PT1H"^^xsd:dayTimeDuration';
    return `"${new Date(Math.floor(reached / 1000) - 3600e3).toISOString()}"^^xsd:dateTime`;
  }

  async run() {
    const about = by("answer-about");
    say(about, "asking…");
    const began = performance.now();
    try {
      const answer = await fetch("sparql", {
        method: "POST", body: by("sparql").value,
        headers: { "Content-Type": "application/sparql-query", Accept: "application/sparql-results+json, text/turtle;q=0.8" },
      });
      const text = await answer.text();
      const spent = Math.round(performance.now() - began);
      if (!answer.ok) throw new Error(text.slice(0, 2000));
      by("answer").replaceChildren(this.shown(answer.headers.get("content-type") ?? "", text, (said) => say(about, `${said}, ${counted(spent)} ms`)));
    } catch (error) {
      say(about, "refused");
      by("answer").replaceChildren(el("pre", { class: "wrong", role: "alert" }, error.message));
    }
  }

  shown(type, text, report) {
    if (!type.includes("json")) { report("a graph"); return el("pre", {}, text.slice(0, 200000)); }
    const { head, results, boolean } = JSON.parse(text);
    if (!results) { report("answered"); return el("p", { class: "truth" }, boolean ? "yes" : "no"); }
    const rows = results.bindings;
    report(`${counted(rows.length)} ${rows.length === 1 ? "row" : "rows"}${rows.length > ROWS ? `, the first ${ROWS} shown` : ""}`);
    return el("table", {}, el("thead", {}, el("tr", {}, ...head.vars.map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...rows.slice(0, ROWS).map((row) => el("tr", {}, ...head.vars.map((name) => el("td", {}, this.cell(row[name])))))));
  }

  cell(term) {
    if (!term) return "";
    const event = term.type === "uri" && EVENT.exec(term.value);
    if (event) return el("button", { type: "button", class: "link", title: term.value, onclick: () => this.choose({ event: event[1] }) }, `event ${event[1].slice(0, 8)}`);
    const short = term.type === "uri" ? (term.value.startsWith(this.base) ? term.value.slice(this.base.length) : term.value) : term.value;
    return el("span", { title: term.value }, short.length > 300 ? `${short.slice(0, 300)}…` : short);
  }
}

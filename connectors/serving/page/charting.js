// The tab of charts: attributes, one below the other, each with a line for every subject that is chosen.

import { by, el } from "./elements.js";
import { unique } from "./behind.js";
import { Charts } from "./charts.js";
import { numeric } from "./readings.js";

const MOST = 8; // subjects, and attributes

export class Charting {
  constructor(store, program, filters, address) {
    Object.assign(this, { store, program, filters, address });
    this.known = program.events.flatMap((event) => numeric(event, program.thresholds).map((each) => `${event.name}.${each.name}`));
    by("chart-attribute").append(el("option", { value: "" }, "add an attribute"), ...this.known.map((name) => el("option", { value: name }, name)));
    by("chart-attribute").addEventListener("change", (event) => { this.add("chart", event.target.value); event.target.value = ""; });
    by("chart-subject").addEventListener("input", () => this.offer());
    by("chart-subject").addEventListener("focus", () => this.offer());
    by("charting").addEventListener("submit", (event) => { event.preventDefault(); this.add("of", by("chart-subject").value.trim()); by("chart-subject").value = ""; });
    by("chart-subject").addEventListener("change", () => by("charting").requestSubmit());
    address.listen(() => this.draw());
    filters.listen(() => this.draw());
  }

  show(name) { this.seen = name === "charts"; this.draw(); }

  // What is chosen: the address has it.
  chosen(field) { return (this.address.get(field) ?? "").split(",").filter(Boolean).map(decodeURIComponent); }

  choose(field, values) { this.address.set({ [field]: values.slice(-MOST).map(encodeURIComponent).join(",") }); this.draw(); }

  add(field, value) { if (value) this.choose(field, [...new Set([...this.chosen(field), value])]); }

  // Charts of a subject: all its attributes of the events that it has.
  about(key) {
    const types = new Set(this.program.events.filter((event) => !event.derived).map((event) => event.name));
    this.address.set({ of: encodeURIComponent(key), chart: this.known.filter((name) => types.has(name.split(".")[0])).slice(0, MOST).map(encodeURIComponent).join(",") });
    this.draw();
  }

  offer() {
    const wanted = by("chart-subject").value.trim().toLowerCase();
    const found = new Set();
    for (const key of [...this.store.stations.keys(), ...this.store.keys.keys()]) {
      if (key && key.toLowerCase().includes(wanted)) found.add(key);
      if (found.size >= 100) break;
    }
    by("chart-subjects").replaceChildren(...[...found].sort().map((key) => el("option", { value: key })));
  }

  draw() {
    if (!this.seen) return;
    const [attributes, keys] = [this.chosen("chart"), this.chosen("of")];
    const hidden = attributes.filter((name) => this.filters.hidden.has(name.slice(0, name.lastIndexOf("."))));
    const now = JSON.stringify([attributes, keys, hidden]);
    if (now === this.drawn) return;
    this.drawn = now;
    const chip = (field, value, text) => el("button", { type: "button", "aria-label": `Remove ${value}`, onclick: () => this.choose(field, this.chosen(field).filter((each) => each !== value)) }, `${text} ×`);
    by("chart-chosen").replaceChildren(...attributes.map((name) => chip("chart", name, name)), ...keys.map((key) => chip("of", key, key)));
    const shown = attributes.filter((name) => this.known.includes(name) && !hidden.includes(name));
    const unknown = attributes.filter((name) => !this.known.includes(name));
    const none = unknown.length ? `There is no numeric attribute ${unknown.join(", ")} in the program.` : hidden.length ? `${hidden.join(", ")}: switched off in the legend.`
      : !this.known.length ? "No event of the program has a subject and an attribute that is a number." : !shown.length || !keys.length ? "Choose an attribute and a subject." : "";
    const specs = keys.length ? shown.map((name) => {
      const [event, attribute] = [name.slice(0, name.lastIndexOf(".")), name.slice(name.lastIndexOf(".") + 1)];
      return {
        title: `${attribute} of ${event}`, lines: keys.map((key) => ({ name: key, event, attribute, key })),
        thresholds: unique(this.program, this.program.thresholds.filter((each) => each.event === event && each.attribute === attribute && !each.leads.every((lead) => this.filters.hidden.has(lead)))),
      };
    }) : [];
    by("chart-box").replaceChildren(...(none ? [el("p", { class: "none" }, none)] : []), ...(specs.length ? [new Charts(specs, null).box] : []));
  }
}

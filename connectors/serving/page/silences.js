// Silences: for a time receivers are not sent alerts whose labels match. Their form, and the list of them.

import { ask, counted, el, send } from "./elements.js";
import { fromNow } from "./ages.js";
import { interval, moment, read, zone } from "./times.js";
import { spoken } from "./tree.js";

const SPANS = [[3600, "an hour"], [7200, "2 hours"], [28800, "8 hours"], [86400, "a day"], [604800, "a week"]];
const SIGNS = [["=", "is"], ["!=", "is not"], ["=~", "matches"], ["!~", "does not match"]]; // =~ and !~: regular expressions
const STATES = { active: "active", pending: "to come", expired: "ended" };
const NAMED = 5; // alerts that are called by their titles
const TYPING = 300; // milliseconds
const AGAIN = 30_000;
const NOTHING = "Add a label: without any, the silence would hide every alert.";

export const signOf = ({ isRegex, isEqual }) => isRegex ? (isEqual ? "=~" : "!~") : isEqual ? "=" : "!=";

// What the server says where it refuses, without what is for programs.
const refusal = (error) => error.message.replace(/^\d+ /, "").replace(/^(silence|matchers): /, "");

// The labels of an alert by which silences choose it, as far as the page knows them.
const labelsOf = (alert) => ({ alertname: alert.name, severity: alert.severity, ...alert.key, ...alert.labels });

// The fields of a silence. `known`: labels to choose from; `silence`: what it begins with, as the server has silences.
export class SilenceFields {
  constructor(known, silence) {
    this.known = known;
    this.silence = silence;
    this.rows = el("div", { class: "matchers" });
    this.hides = el("p", { class: "hint", "aria-live": "polite" });
    const local = (text) => text ? moment(Date.parse(text) * 1000).slice(0, 16).replace(" ", "T") : "";
    const begins = silence.startsAt && Date.parse(silence.startsAt) > Date.now() ? local(silence.startsAt) : "";
    this.from = el("input", { type: "datetime-local", name: "from", value: begins });
    this.span = el("select", { name: "span" }, ...SPANS.map(([value, text]) => el("option", { value }, text)), el("option", { value: "", selected: Boolean(silence.endsAt) }, "until …"));
    this.until = el("input", { type: "datetime-local", name: "until", value: local(silence.endsAt) });
    const ends = el("label", {}, `Until (${zone()})`, this.until);
    const turned = () => { ends.hidden = this.span.value !== ""; this.until.required = !ends.hidden; };
    this.span.addEventListener("change", turned);
    turned();
    for (const each of silence.matchers) this.add(each);
    this.parts = [
      el("fieldset", {}, el("legend", {}, "Alerts with all of these labels"), this.rows, el("button", { type: "button", class: "more", onclick: () => this.add({ name: "", value: "", isRegex: false, isEqual: true }).focus() }, "Add a label")),
      el("datalist", { id: "silence-names" }, ...[...known.keys()].sort().map((value) => el("option", { value }))), this.hides,
      el("label", {}, `From (${zone()}; empty: now)`, this.from), el("label", {}, "For", this.span), ends,
      el("label", {}, "Comment (optional)", el("textarea", { name: "comment", rows: "2", maxlength: "2000" }, silence.comment ?? "")),
    ];
    this.look();
  }

  add({ name, value, ...rest }) {
    const values = el("datalist", { id: `silence-values-${crypto.getRandomValues(new Uint32Array(1))[0]}` });
    const label = el("input", { "aria-label": "Label", value: name, list: "silence-names", autocomplete: "off", autocapitalize: "off", spellcheck: "false", maxlength: "1000" });
    const sign = el("select", { "aria-label": "How" }, ...SIGNS.map(([mark, text]) => el("option", { value: mark, selected: mark === signOf(rest) }, `${mark} ${text}`)));
    const text = el("input", { "aria-label": "Value", value, list: values.id, autocomplete: "off", autocapitalize: "off", spellcheck: "false", maxlength: "1000" });
    const offer = () => values.replaceChildren(...[...this.known.get(label.value) ?? []].sort().slice(0, 100).map((each) => el("option", { value: each })));
    const row = el("div", {}, label, sign, text, values, el("button", { type: "button", "aria-label": "Without this label", onclick: () => { row.remove(); this.later(); } }, "×"));
    row.matcher = () => ({ name: label.value.trim(), value: text.value, isRegex: sign.value.endsWith("~"), isEqual: sign.value.startsWith("=") });
    for (const each of [label, sign, text]) each.addEventListener("input", () => this.later());
    label.addEventListener("input", offer);
    offer();
    this.rows.append(row);
    return label;
  }

  get matchers() { return [...this.rows.children].map((row) => row.matcher()).filter((each) => each.name); }

  // Names and values as the server takes them. Throws what is missing.
  body(comment) {
    if (!this.matchers.length) throw new Error(NOTHING);
    const begins = this.from.value ? read(this.from.value) / 1000 : Date.now();
    const ends = this.span.value ? begins + 1000 * Number(this.span.value) : read(this.until.value) / 1000;
    return { matchers: this.matchers, ...(this.from.value ? { startsAt: new Date(begins).toISOString() } : {}), endsAt: new Date(ends).toISOString(), comment,
      ...(this.silence.id ? { id: this.silence.id } : {}) };
  }

  later() { clearTimeout(this.timer); this.timer = setTimeout(() => this.look(), TYPING); }

  async look() {
    const mine = this.looked = {};
    let text;
    try {
      if (!this.matchers.length) throw new Error(NOTHING);
      const found = await (await send("silences/preview", "POST", { matchers: this.matchers })).json();
      const names = found.slice(0, 3).map((each) => each.title).join(", ");
      text = `It hides ${counted(found.length)} open ${found.length === 1 ? "alert" : "alerts"} now${found.length ? `: ${names}${found.length > 3 ? ", …" : ""}` : ""}`;
    } catch (error) {
      text = refusal(error);
    }
    if (mine === this.looked) this.hides.textContent = text;
  }
}

// A form around the fields; `done()`: the silence is there; `shut()`: it is not wanted.
export function silenceForm(known, silence, done, shut) {
  const fields = new SilenceFields(known, silence);
  const wrong = el("p", { class: "wrong", role: "alert" });
  const form = el("form", { "aria-label": "Silence", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await send("silences", "POST", fields.body(new FormData(form).get("comment")));
      done();
    } catch (error) {
      wrong.textContent = refusal(error);
    }
  } }, ...fields.parts, wrong, el("div", { class: "buttons" }, el("button", { type: "submit" }, silence.id ? "Change" : "Silence"), el("button", { type: "button", onclick: shut }, "Cancel")));
  return form;
}

// Labels and their values in the alerts that the page has.
export function labels(alerts) {
  const known = new Map();
  for (const alert of alerts) {
    for (const [name, value] of Object.entries(labelsOf(alert))) known.set(name, (known.get(name) ?? new Set()).add(String(value)));
  }
  return known;
}

// The list of silences and maintenance windows.
export class Silences {
  // `first`: the id of the one that stands first, "all": none does.
  constructor(store, person, first, choose) {
    Object.assign(this, { store, person, first, choose });
    this.form = el("div", {});
    this.said = el("p", { class: "wrong", role: "alert" });
    this.list = el("div", {});
    this.box = el("section", { class: "handling silences", "aria-label": "Silences" },
      el("p", { class: "hint" }, "Alerts that a silence hides are shown here, and not sent to receivers."),
      el("div", {}, this.button("New silence", () => this.open({ matchers: [{ name: "alertname", value: "", isRegex: false, isEqual: true }] }), { class: "main" })),
      person.refused ? el("p", { class: "hint" }, ...spoken(person.refused)) : "", this.form, this.said, this.list);
    this.timer = setInterval(() => { if (!this.box.isConnected) clearInterval(this.timer); else if (!document.hidden) this.load(); }, AGAIN);
  }

  button(text, act, attributes = {}) { return el("button", { type: "button", disabled: Boolean(this.person.refused), onclick: act, ...attributes }, text); }

  open(silence) {
    const shut = () => this.form.replaceChildren();
    this.form.replaceChildren(silenceForm(labels(this.store.alerts.values()), silence, () => { shut(); this.load(); }, shut));
    this.form.querySelector("input").focus();
  }

  renew() { this.load(); }

  async load() {
    try {
      const all = await (await ask("silences")).json();
      all.sort((a, b) => (b.id === this.first) - (a.id === this.first));
      const now = all.filter((each) => each.status.state !== "expired" || each.id === this.first), over = all.filter((each) => !now.includes(each));
      const open = this.list.querySelector("details")?.open;
      this.list.replaceChildren(
        now.length ? el("ol", {}, ...now.map((each) => this.item(each))) : el("p", { class: "none" }, "No silence, and no maintenance window in the next 14 days."),
        over.length ? el("details", { open }, el("summary", {}, `${counted(over.length)} ended in the last 5 days`), el("ol", {}, ...over.map((each) => this.item(each)))) : "");
    } catch (error) {
      this.said.textContent = refusal(error);
    }
  }

  item(silence) {
    const { id, status: { state }, matchers, comment, createdBy, maintenance, hides } = silence;
    const [starts, ends] = [silence.startsAt, silence.endsAt].map((each) => Date.parse(each) * 1000);
    const hidden = [...this.store.alerts.values()].filter((each) => each.state !== "resolved" && each.silenced?.includes(id));
    const many = `${counted(hides)} open ${hides === 1 ? "alert" : "alerts"}`;
    const next = { active: ["ends ", fromNow(ends)], pending: ["begins ", fromNow(starts)], expired: ["ended ", fromNow(ends)] }[state];
    return el("li", { "data-state": state, "data-silence": id },
      el("p", { class: "top" }, el("b", {}, STATES[state]), maintenance ? el("i", { class: "tag" }, "maintenance window") : null, el("span", {}, ...next)),
      el("p", {}, ...matchers.flatMap((each) => [el("code", {}, `${each.name}${signOf(each)}"${each.value}"`), " "])),
      el("p", { class: "text" }, interval(starts, ends)),
      comment || createdBy ? el("p", { class: "text" }, createdBy ? el("b", {}, createdBy) : null, createdBy && comment ? ": " : "", comment) : null,
      state !== "active" ? null : el("p", { class: "text" }, `hides ${many}`,
        ...hidden.slice(0, NAMED).flatMap((each, at) => [at ? ", " : ": ", el("button", { type: "button", class: "link", onclick: () => this.choose({ alert: each.alert }) }, each.title)]), hidden.length > NAMED ? ", …" : ""),
      maintenance || state === "expired" ? null : el("div", {}, this.button("Change", () => this.open(silence)), this.button("End", () => this.end(id))));
  }

  async end(id) {
    try {
      await send(`silences/${encodeURIComponent(id)}`, "DELETE");
      this.said.textContent = "";
    } catch (error) {
      this.said.textContent = refusal(error);
    }
    this.load();
  }
}

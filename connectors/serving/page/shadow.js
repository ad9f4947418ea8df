// The shadow: a program that runs beside this one on the same input and tells nobody. How its events differ, why, and its promotion.

import { ask, by, counted, el, send, valued } from "./elements.js";
import { interval } from "./times.js";
import { swatch } from "./glyphs.js";
import { parameters } from "./rules.js";
import { spoken, ticks, tree } from "./tree.js";
import { refusals } from "./refusals.js";

const SHOWN = 10; // differences of each kind and event, the last
const PACE = 10_000; // milliseconds
const KINDS = [["gone", "only old"], ["appeared", "only new"], ["moved", "moved"]]; // old: the program that runs, new: the shadow
const time = (text) => text === null ? NaN : ticks(text);

export class Shadow {
  constructor(program, kinds, choose) {
    Object.assign(this, { program, kinds, choose });
    this.counts = el("div", {});
    this.list = el("div", {});
    this.form = el("div", {});
    this.said = el("pre", { class: "wrong", role: "alert" });
    by("shadow").append(el("h3", {}, "Shadow program"), this.counts, this.form, this.said, this.list);
  }

  show(name) {
    clearInterval(this.timer);
    if (name !== "rules") return;
    this.timer = setInterval(() => { if (!document.hidden) this.load(); }, PACE);
    this.load();
  }

  async asked(reasons) { return (await ask(`api/shadow?limit=${SHOWN}&reasons=${reasons}`)).json(); }

  async load() {
    try {
      this.draw(await this.asked(0));
    } catch (error) {
      this.said.textContent = error.message.replace(/^\d+ /, "");
    }
  }

  draw({ shadow, refused }) {
    this.said.textContent = "";
    if (!shadow) {
      this.counts.replaceChildren(el("p", { class: "hint" }, "No shadow program runs beside this one. ", el("code", {}, "cep serve --shadow new.cep"), " runs one on the same input without notifying anybody. Its different results are then listed here."));
      for (const part of [this.list, this.form]) part.replaceChildren();
      return;
    }
    const events = Object.entries(shadow.events), sum = (kind) => events.reduce((all, [, each]) => all + each[kind], 0);
    const differ = KINDS.reduce((all, [kind]) => all + sum(kind), 0);
    const numbers = (each) => [...KINDS.map(([kind]) => kind), "same"].map((kind) => el("td", { class: "number" }, counted(each[kind])));
    const left = sum("left_out");
    this.counts.replaceChildren(...[
      el("p", {}, differ ? el("b", {}, `${counted(differ)} ${differ === 1 ? "event differs" : "events differ"}`) : el("b", {}, "No event differs"),
        ` ${shadow.since === null ? "since it began" : `since ${interval(time(shadow.since), time(shadow.since))}`}${differ || sum("same") ? `; ${counted(sum("same"))} are the same` : ": neither program has derived any yet"}. Old: the program that runs; new: the shadow, which notifies nobody.`),
      shadow.failed === null ? null : el("p", { class: "wrong" }, `It has stopped: ${shadow.failed}`),
      el("table", {}, el("thead", {}, el("tr", {}, ...["event", ...KINDS.map(([, text]) => text), "same"].map((text, at) => el("th", { scope: "col", class: at ? "number" : null }, text)))),
        el("tbody", {}, ...events.map(([name, each]) => el("tr", {}, el("td", {}, name), ...numbers(each))))),
      left ? el("p", { class: "hint" }, `${counted(left)} older differences are no longer counted.`) : null,
      el("p", { class: "actions" }, el("button", { type: "button", disabled: Boolean(refused) || shadow.failed !== null, onclick: () => this.confirm(differ) }, "Promote"),
        differ && shadow.explained && !this.reasoned ? el("button", { type: "button", onclick: () => this.reasons() }, "Show the reasons") : null,
        this.reasoned ? el("button", { type: "button", onclick: () => { this.reasoned = false; this.load(); } }, "Show the latest") : null),
      refused ? el("p", { class: "hint" }, ...spoken(refused)) : null,
      el("div", {}, ...parameters(shadow.parameters)),
      differ && !shadow.explained ? el("p", { class: "hint" }, "Reasons are kept with ", el("code", {}, "cep serve --explain"), ".") : null,
    ].filter(Boolean));
    if (!this.reasoned) this.entries(shadow.differences);
  }

  // The last differences with their reasons. They stay until somebody wants the latest.
  async reasons() {
    try {
      const found = await this.asked(SHOWN);
      this.reasoned = Boolean(found.shadow);
      this.draw(found);
      if (found.shadow) this.entries(found.shadow.differences);
    } catch (error) {
      this.said.textContent = error.message.replace(/^\d+ /, "");
    }
  }

  entries(differences) {
    const last = (each) => each.new ?? each.old;
    const sorted = [...differences].sort((a, b) => ((last(b).end ?? "~") > (last(a).end ?? "~") ? 1 : -1));
    this.list.replaceChildren(el("ol", { class: "differences" }, ...sorted.map((each) => this.entry(each))));
  }

  entry({ kind, event, old, new: now, reasons }) {
    const row = (each, who) => el("p", {}, el("time", {}, who, interval(time(each.start), time(each.end))), el("span", { class: "text" }, Object.entries(each.values).map(([name, value]) => `${name} ${valued(value)}`).join(" · ")));
    return el("li", { "data-kind": kind }, el("p", { class: "top" }, swatch(this.kinds.get(event) ?? 0), el("b", {}, event), el("span", { class: "tag" }, KINDS.find(([name]) => name === kind)[1])),
      ...(kind === "moved" ? [row(old, "old: "), row(now, "new: ")] : [row(old ?? now, "")]),
      reasons === undefined ? null : reasons === null ? el("p", { class: "hint" }, "Its reason is no longer kept.")
        : el("div", {}, ...this.reason("Old", reasons.old), ...this.reason("New", reasons.new)));
  }

  reason(who, told) {
    if (!told) return [el("p", { class: "hint" }, `${who}: has no such event.`)];
    const parts = "asked" in told ? refusals(told, this.kinds, this.choose).parts : tree(told, this.kinds);
    return [el("details", {}, el("summary", {}, `${who}: why ${"asked" in told && !told.exists ? "not" : "so"}`), ...parts)];
  }

  confirm(differ) {
    const shut = () => this.form.replaceChildren();
    const form = el("form", { "aria-label": "Promote the shadow", onsubmit: async (event) => {
      event.preventDefault();
      this.said.textContent = "";
      form.querySelector("[type=submit]").disabled = true;
      try {
        await send("shadow/promote", "POST");
        location.reload(); // its rules are others
      } catch (error) {
        shut();
        this.said.textContent = error.message.replace(/^\d+ /, "");
      }
    } }, el("p", {}, `The shadow takes the place of the running program from now on${differ ? `; ${counted(differ)} events would have been otherwise` : ""}. Alerts and receivers follow its rules. The program before stays in the history and can be restored.`),
    el("div", { class: "buttons" }, el("button", { type: "submit" }, "Promote it"), el("button", { type: "button", onclick: shut }, "Cancel")));
    this.form.replaceChildren(form);
    form.querySelector("[type=submit]").focus();
  }
}

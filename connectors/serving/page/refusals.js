// Why there is no event: each rule with how near it came, and what failed.

import { counted, el } from "./elements.js";
import { interval, moment } from "./times.js";
import { code } from "./rules.js";
import { swatch } from "./glyphs.js";
import { Maker, bound, rule, spoken as pieces, ticks, withdrawn } from "./tree.js";

const OPEN = 2; // how deep what is missing itself is unfolded at first

// `answer`: of /why-not. Its parts, and a sentence for who hears them.
export function refusals(answer, kinds, choose) {
  const maker = new Refusals(kinds, choose);
  const at = answer.at ? ` at ${[...new Set(answer.at.map((each) => moment(ticks(each))))].join(" to ")}` : "";
  if (answer.exists) {
    return { said: "It is there.", parts: [el("p", { class: "verdict", "data-there": "" }, "It is there: ", code(answer.asked), el("span", {}, at)),
      el("ul", { class: "near" }, ...answer.found.map((each) => maker.near("", each)))] };
  }
  const number = answer.rules.length;
  const verdict = answer.fluent ? [code(answer.asked), " does not hold", el("span", {}, at)] : ["There is no ", code(answer.asked), el("span", {}, at)];
  const gone = (answer.withdrawn ?? []).map((each) => el("div", { class: "tree" }, el("p", {}, "There was ", code(each.text), el("time", {}, interval(ticks(each.start), ticks(each.end)))), ...withdrawn(each)));
  const parts = [el("p", { class: "verdict" }, ...verdict), ...gone, maker.around(answer), answer.ended ? maker.turn(answer.ended, 1) : null];
  if (!number) parts.push(el("p", { class: "none" }, "No rule derives it: it is read from the input."));
  parts.push(...answer.rules.map((each) => maker.refusal(each, 0)));
  const first = answer.rules[0];
  const said = number === 1 ? `It is not there: ${first.failure.told}.` : `It is not there; ${counted(number)} rules could derive it.`;
  return { parts: parts.filter(Boolean), said };
}

class Refusals extends Maker {
  constructor(kinds, choose) { super(kinds); this.choose = choose; }

  refusal(answer, depth) {
    const { failure } = answer;
    const held = answer.conditions.filter((each) => each.holds);
    const lines = [
      ...answer.parts.map((each) => el("li", {}, "there is ", this.named(each))),
      ...held.map((each) => this.condition(each)),
      ...this.failed(failure),
    ];
    const below = answer.because ?? [];
    return el("section", { class: "refusal", "aria-label": `the rule in line ${answer.rule.line}` },
      rule(answer.rule), bound(answer.variables), el("ul", { class: "conditions" }, ...lines, ...(answer.gaps ?? []).map((each) => this.gap(each, depth))),
      answer.ended ? this.turn(answer.ended, depth + 1) : null,
      below.length ? el("details", { class: "node", open: depth < OPEN },
        el("summary", {}, `why there is no such event: ${below.length === 1 ? "its rule" : `its ${counted(below.length)} rules`}`),
        ...below.map((each) => this.refusal(each, depth + 1))) : null);
  }

  // What is missing of a formula.
  gap(answer, depth) {
    const over = (answer.intervals ?? []).map((each) => interval(ticks(each.start), ticks(each.end))).join(", ");
    const values = Object.entries(answer.values ?? {}).map(([name, value]) => `${name} = ${value}`).join(", ");
    const inside = [...(answer.conditions ?? []).map((each) => this.condition(each)), ...(answer.gaps ?? []).map((each) => this.gap(each, depth + 1))];
    const below = answer.because ?? [];
    return el("li", { class: "failed" }, el("span", { class: "sentence" }, ...pieces(answer.told)),
      values ? el("span", { class: "values" }, values) : null, over ? el("p", { class: "aside" }, `It holds ${over}.`) : null,
      inside.length ? el("ul", { class: "conditions" }, ...inside) : null, this.around(answer), answer.ended ? this.turn(answer.ended, depth + 1) : null,
      below.length ? el("details", { class: "node", open: depth < OPEN }, el("summary", {}, "why it does not"), ...below.map((each) => this.refusal(each, depth + 1))) : null);
  }

  // A sentence with what belongs to it; where conditions failed they say so themselves.
  failed(failure) {
    const conditions = (failure.conditions ?? []).map((each) => this.condition(each));
    const around = this.around(failure);
    if (failure.kind === "condition") return [...conditions, around ? el("li", { class: "aside" }, around) : null].filter(Boolean);
    return [el("li", { class: "failed" }, el("span", { class: "sentence" }, ...spoken(failure)), conditions.length ? el("ul", { class: "conditions" }, ...conditions) : null, around)];
  }

  around(answer) {
    const found = [["the latest before", answer.before], ["the next after", answer.after]].filter(([, one]) => one);
    return found.length ? el("ul", { class: "near" }, ...found.map(([text, one]) => this.near(`${text}: `, one))) : null;
  }

  near(text, one) { return el("li", {}, text, this.named(one)); }

  // An event that rules gave leads to why it is.
  named(one) {
    const time = el("time", {}, interval(ticks(one.start), ticks(one.end)));
    if (!this.kinds.has(one.event) || one.record) return el("span", { class: "named" }, code(one.text), " ", time);
    return el("span", { class: "named" }, swatch(this.kinds.get(one.event)), el("button", { type: "button", class: "link", onclick: () => this.choose({ event: one.id }) }, code(one.text)), " ", time);
  }
}

// The failure in a sentence, with what is of the program as that, and times as people read them.
function spoken({ kind: failed, told: text }) {
  const missing = failed === "missing" && /^there is no ([^`].*?)( since \S+)?$/s.exec(text);
  if (missing) return ["there is no ", code(missing[1]), ...pieces(missing[2] ?? "")];
  return pieces(text);
}

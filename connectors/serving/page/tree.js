// Why, as a tree: each event with the rule that made it, the conditions with what they rest on, and what it was made of.

import { counted, el, valued } from "./elements.js";
import { interval, moment } from "./times.js";
import { code } from "./rules.js";
import { swatch } from "./glyphs.js";

const OPEN = 2; // levels that are open at first
const MANY = 8; // constituents of one event that are shown at first
const EDGE = /^(BEGIN|END) OF /; // an end of what holds, which is no event of a rule
export const ticks = (time) => time === null ? null : typeof time === "number" ? time * 1e6 : Date.parse(time) * 1000;

// `answer`: of /why. `kinds`: the colours of events, by name.
export function tree(answer, kinds) {
  const maker = new Maker(kinds);
  const made = el("div", { class: "tree" }, ...changes(answer), ...maker.body(answer, 0));
  const folds = [...made.querySelectorAll("details")];
  if (folds.length < 3) return [made];
  const all = (open) => () => { for (const each of made.querySelectorAll("details")) each.open = open; };
  return [el("p", { class: "folds" }, el("button", { type: "button", class: "link", onclick: all(true) }, "unfold all"),
    el("button", { type: "button", class: "link", onclick: all(false) }, "fold all")), made];
}

// What became of an event that is no more, and the records that it came from.
export function withdrawn(answer) {
  return [...changes(answer), answer.because.length ? el("p", { class: "aside" }, "It came from:") : null,
    answer.because.length ? el("ul", { class: "parts" }, ...answer.because.map((each) => el("li", {}, ...spoken(each)))) : null].filter(Boolean);
}

const WORDS = { add: "Added", withdraw: "Withdrawn", revise: "Otherwise" };

// What late, corrected and withdrawn records made of an event.
function changes(answer) {
  if (!answer.changes?.length) return [];
  return [el("ul", { class: "changes" }, ...answer.changes.map(({ change, at, told, record, end, because }) => {
    const since = because ? ` it comes from ${because.length === 1 ? "another record" : "other records"} since` : change === "revise" ? end === null ? " it has no end yet" : " it ends at another time" : "";
    return el("li", {}, el("b", {}, WORDS[change]), ` at ${moment(ticks(at))}:${since}${since && told ? ": " : " "}`, ...spoken(told ?? ""),
      record ? el("span", { class: "place" }, record.file === "-" ? `line ${record.line}` : `${record.file}:${record.line}`) : null);
  }))];
}

export class Maker {
  constructor(kinds) { this.kinds = kinds; this.rule = null; }

  node(answer, depth) {
    if (answer.record) return this.record(answer);
    const body = this.body(answer, depth);
    const head = this.head(answer);
    if (!body.length) return el("div", { class: "node" }, head);
    return el("details", { class: "node", open: depth <= OPEN }, el("summary", {}, head), ...body);
  }

  head(answer) {
    return el("span", { class: "head" }, swatch(this.kinds.get(answer.event) ?? 0), code(answer.text), answer.again ? el("span", { class: "aside" }, "see above") : null,
      el("time", {}, interval(ticks(answer.start), ticks(answer.end))));
  }

  record(answer) {
    const { file, line } = answer.record;
    const values = Object.entries(answer.arguments).map(([name, value]) => `${name} ${valued(value)}`).join(" · ");
    return el("div", { class: "node record" }, el("span", { class: "head" }, el("b", {}, answer.event), el("time", {}, interval(ticks(answer.start), ticks(answer.end)))),
      ...["late", "replaces"].filter((each) => answer[each]).map((each) => el("span", { class: "aside" }, ...spoken(answer[each].told))),
      el("span", { class: "text" }, values, file ? el("span", { class: "place" }, file === "-" ? `line ${line}` : `${file}:${line}`) : null));
  }

  // What stands below an event.
  body(answer, depth, rule = null) {
    const parts = answer.parts ?? [];
    const lost = parts.length && !answer.bounds && !EDGE.test(answer.text ?? "");
    const made = answer.rule ? this.made(answer, rule) : lost ? [el("p", { class: "aside" }, "By a rule that is no longer known, from:")] : [];
    if (parts.length) made.push(this.list(parts.map((part) => () => this.node(part, depth + 1))));
    made.push(...this.held(answer, depth), ...(answer.formulas ?? []).map((each) => this.formula(each, depth + 1)));
    if (answer.chain) made.push(this.chain(answer, depth));
    if (answer.left_out) made.push(el("p", { class: "aside" }, `and ${counted(answer.left_out)} more, with their origins`));
    return made;
  }

  // How a fluent began, and what has ended it.
  held(answer, depth) {
    const made = [answer.began, answer.ended].filter(Boolean).map((each) => this.turn(each, depth));
    if (answer.began && !answer.ended && answer.end === null) {
      made.push(el("p", { class: "aside" }, "Nothing has ended it since.", answer.deadline ? ` It ends at ${moment(ticks(answer.deadline.time))} if nothing else does.` : ""));
      if (answer.deadline?.statement) made.push(rule(answer.deadline.statement));
    }
    return made;
  }

  turn(answer, depth) {
    const by = answer.by.map((each) => () => each.rule ? el("div", { class: "node" }, ...this.body(each, depth + 1)) : this.node(each, depth + 1));
    return el("section", { class: "turn" }, el("p", { class: "aside" }, ...spoken(answer.told)), answer.statement ? rule(answer.statement) : null, by.length ? this.list(by) : null);
  }

  // A formula with the intervals of its parts.
  formula(answer, depth) {
    const parts = answer.parts.map((part) => () => part.formula ? this.formula(part, depth + 1) : this.node(part, depth + 1));
    const conditions = (answer.conditions ?? []).map((each) => this.condition(each));
    const over = answer.intervals.map((each) => interval(ticks(each.start), ticks(each.end))).join(", ");
    const below = [
      answer.rule ? rule(answer.rule) : null, answer.rule ? bound(answer.variables) : null,
      conditions.length ? el("ul", { class: "conditions" }, ...conditions) : null,
      parts.length ? this.list(parts) : null,
      answer.left_out ? el("p", { class: "aside" }, `and ${counted(answer.left_out)} more`) : null,
    ].filter(Boolean);
    if (answer.rule) return el("div", { class: "node" }, ...below);
    const head = el("span", { class: "head" }, code(answer.formula), answer.negated ? el("span", { class: "aside" }, "does not hold then") : null, over ? el("time", {}, answer.negated ? `only ${over}` : over) : null);
    return below.length ? el("details", { class: "node", open: depth <= OPEN }, el("summary", {}, head), ...below) : el("div", { class: "node" }, head);
  }

  made(answer, before) {
    const { line, column } = answer.rule;
    const same = before && before.line === line && before.column === column;
    const lines = [
      ...(answer.conditions ?? []).map((each) => this.condition(each)),
      ...(answer.absent ?? []).map((each) => each.until === undefined ? el("li", {}, code(each.pattern), ` does not hold at ${moment(ticks(each.at))}`) : el("li", {}, "no ", code(each.pattern), ` until ${typeof each.until === "number" ? each.until : interval(ticks(each.until), ticks(each.until))}`)),
    ];
    return [
      same ? null : rule(answer.rule, answer.also),
      bound(answer.variables),
      lines.length ? el("ul", { class: "conditions" }, ...lines) : null,
    ].filter(Boolean);
  }

  chain(answer, depth) {
    let rule = answer.rule;
    const links = answer.chain.map((link) => {
      const before = rule;
      rule = link.rule ?? rule;
      return () => link.record ? this.record(link)
        : el("details", { class: "node", open: false }, el("summary", {}, this.head(link)), ...this.body(link, depth + 1, before));
    });
    const number = answer.chain.length;
    return el("details", { class: "node chain", open: depth < OPEN && number <= MANY },
      el("summary", {}, `this ${answer.event} continues ${number === 1 ? "an earlier one" : `${counted(number)} earlier ones, the latest first`}`), this.list(links));
  }

  // The first ones; the others are made when they are asked for.
  list(makers) {
    const made = el("ul", { class: "parts" }, ...makers.slice(0, MANY).map((make) => el("li", {}, make())));
    const rest = makers.slice(MANY);
    if (rest.length) {
      const more = el("li", {}, el("button", { type: "button", class: "link", onclick: () => {
        const items = rest.map((make) => el("li", {}, make()));
        more.replaceWith(...items);
        items[0].querySelector("summary, a, button")?.focus();
      } }, `${counted(rest.length)} more`));
      made.append(more);
    }
    return made;
  }

  condition(answer) {
    const values = answer.told !== undefined ? (answer.told === answer.text ? "" : answer.told)
      : Object.entries(answer.values ?? {}).map(([name, value]) => `${name} = ${shown(value)}`).join(", ");
    const line = [code(answer.text), values ? el("span", { class: "values" }, values) : null, answer.holds ? null : el("span", { class: "wrong" }, "does not hold")];
    const below = [...(answer.because ?? []).map((each) => this.condition(each)), ...(answer.triples ?? []).map((each) => this.triple(each))];
    const failed = { class: answer.holds ? null : "failed" };
    if (!below.length) return el("li", failed, ...line);
    return el("li", failed, el("details", { class: "known" }, el("summary", {}, ...line), el("ul", { class: "conditions" }, ...below)));
  }

  triple({ triple, proof }) {
    if (!proof.length) return el("li", { class: "triple" }, el("code", {}, triple));
    const [first, ...lines] = proof;
    const rule = first.split("   ").at(-1);
    return el("li", { class: "triple" }, el("details", { class: "known" },
      el("summary", {}, el("code", {}, triple), el("span", { class: "values" }, `inferred by ${rule}`)), steps(lines, 1)));
  }
}

const SPOKEN = /`([^`]*)`|(-?\d{4,}-\d\d-\d\dT[\d:.]+Z)/g;

// A sentence, with what is of the program as that, and times as people read them.
export function spoken(text) {
  const made = [];
  let done = 0;
  for (const match of text.matchAll(SPOKEN)) {
    made.push(text.slice(done, match.index), match[1] !== undefined ? code(match[1]) : moment(ticks(match[2])));
    done = match.index + match[0].length;
  }
  return [...made, text.slice(done)];
}

// Where a rule stands: of a program of several files in which.
const place = ({ line, file, line_of_file: own }) => file ? `${file}:${own}` : `line ${line}`;

// Nothing of a rule that nobody wrote.
export const rule = (own, also = []) => !own.text ? null : el("figure", {}, el("pre", {}, code(own.text)),
  el("figcaption", {}, [place(own), ...also.map((each) => `also by ${place(each)}`)].join(", ")));

export function bound(variables) {
  const found = Object.entries(variables ?? {});
  return found.length ? el("p", { class: "bound" }, ...found.flatMap(([name, value]) => [code(`${name} = ${shown(value)}`), " "])) : null;
}

// Lines of a proof, the premises of each indented below it by two blanks.
function steps(lines, depth) {
  const made = el("ul", { class: "conditions" });
  for (let at = 0; at < lines.length;) {
    let end = at + 1;
    while (end < lines.length && lines[end].search(/\S/) > 2 * depth) end += 1;
    const [triple, rule] = lines[at].trim().split("   ");
    made.append(el("li", { class: "triple" }, el("code", {}, triple), el("span", { class: "values" }, rule ?? ""), end > at + 1 ? steps(lines.slice(at + 1, end), depth + 1) : null));
    at = end;
  }
  return made;
}

const shown = (value) => typeof value === "string" ? JSON.stringify(value) : valued(value);

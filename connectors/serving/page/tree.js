// Why, as a tree: each event with the rule that made it, the conditions with what they rest on, and what it was made of.

import { counted, el, valued } from "./elements.js";
import { interval } from "./times.js";
import { code } from "./rules.js";
import { kind } from "./colours.js";

const OPEN = 2; // levels that are open at first
const MANY = 8; // constituents of one event that are shown at first
export const ticks = (time) => typeof time === "number" ? time * 1e6 : Date.parse(time) * 1000;

// `told`: as /why gives it. `kinds`: the colours of events, by name.
export function tree(told, kinds) {
  const maker = new Maker(kinds);
  const made = el("div", { class: "tree" }, ...maker.body(told, 0));
  const folds = [...made.querySelectorAll("details")];
  if (folds.length < 3) return [made];
  const all = (open) => () => { for (const each of made.querySelectorAll("details")) each.open = open; };
  return [el("p", { class: "folds" }, el("button", { type: "button", class: "link", onclick: all(true) }, "unfold all"),
    el("button", { type: "button", class: "link", onclick: all(false) }, "fold all")), made];
}

export class Maker {
  constructor(kinds) { this.kinds = kinds; this.rule = null; }

  node(told, depth) {
    if (told.record) return this.record(told);
    const body = this.body(told, depth);
    const head = this.head(told);
    if (!body.length) return el("div", { class: "node" }, head);
    return el("details", { class: "node", open: depth <= OPEN }, el("summary", {}, head), ...body);
  }

  head(told) {
    const mark = el("i", { class: "swatch" });
    mark.style.background = kind(this.kinds.get(told.event) ?? 0);
    return el("span", { class: "head" }, mark, code(told.text), told.again ? el("span", { class: "told" }, "see above") : null,
      el("time", {}, interval(ticks(told.start), ticks(told.end))));
  }

  record(told) {
    const { file, line } = told.record;
    const values = Object.entries(told.arguments).map(([name, value]) => `${name} ${valued(value)}`).join(" · ");
    return el("div", { class: "node record" }, el("span", { class: "head" }, el("b", {}, told.event), el("time", {}, interval(ticks(told.start), ticks(told.end)))),
      el("span", { class: "text" }, values, file ? el("span", { class: "place" }, file === "-" ? `line ${line}` : `${file}:${line}`) : null));
  }

  // What stands below an event.
  body(told, depth, rule = null) {
    const parts = told.parts ?? [];
    const made = told.rule ? this.made(told, rule) : parts.length ? [el("p", { class: "told" }, "By a rule that can no longer be told, from:")] : [];
    if (parts.length) made.push(this.list(parts.map((part) => () => this.node(part, depth + 1))));
    if (told.chain) made.push(this.chain(told, depth));
    if (told.left_out) made.push(el("p", { class: "told" }, `and ${counted(told.left_out)} more, with what they come from`));
    return made;
  }

  made(told, before) {
    const { line, column } = told.rule;
    const same = before && before.line === line && before.column === column;
    const lines = [
      ...(told.conditions ?? []).map((each) => this.condition(each)),
      ...(told.absent ?? []).map((each) => el("li", {}, "no ", code(each.pattern), ` until ${typeof each.until === "number" ? each.until : interval(ticks(each.until), ticks(each.until))}`)),
    ];
    return [
      same ? null : rule(told.rule, told.also),
      bound(told.variables),
      lines.length ? el("ul", { class: "conditions" }, ...lines) : null,
    ].filter(Boolean);
  }

  chain(told, depth) {
    let rule = told.rule;
    const links = told.chain.map((link) => {
      const before = rule;
      rule = link.rule ?? rule;
      return () => link.record ? this.record(link)
        : el("details", { class: "node", open: false }, el("summary", {}, this.head(link)), ...this.body(link, depth + 1, before));
    });
    const number = told.chain.length;
    return el("details", { class: "node chain", open: depth < OPEN && number <= MANY },
      el("summary", {}, `it goes on from ${number === 1 ? "one" : counted(number)} before it, the latest first`), this.list(links));
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

  condition(told) {
    const values = told.told !== undefined ? (told.told === told.text ? "" : told.told)
      : Object.entries(told.values ?? {}).map(([name, value]) => `${name} = ${shown(value)}`).join(", ");
    const line = [code(told.text), values ? el("span", { class: "values" }, values) : null, told.holds ? null : el("span", { class: "wrong" }, "does not hold")];
    const below = [...(told.because ?? []).map((each) => this.condition(each)), ...(told.triples ?? []).map((each) => this.triple(each))];
    const failed = { class: told.holds ? null : "failed" };
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

export const rule = ({ text, line }, also = []) => el("figure", {}, el("pre", {}, code(text)),
  el("figcaption", {}, [`line ${line}`, ...also.map((each) => `also by line ${each.line}`)].join(", ")));

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

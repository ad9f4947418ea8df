// The program with live numbers: at each rule how often it fired and how many wait in its goals.

import { ask, by, counted, el, facts, say, valued } from "./elements.js";

// What is coloured; `words`: the keywords, which the server lists.
let TOKEN;
function speak(words) {
  TOKEN = new RegExp(String.raw`(<[^\s<>"]*:[^\s<>"]*>|#[^\n]*)|("(?:[^"\\\n]|\\.)*")|(<-|:-)|\b(${words.join("|")})\b|\b(\d+(?:\.\d+)?(?: (?:ms|s|min|h|d|weeks?)\b)?)`, "g");
}

const LONG = 8; // lines between rules that are folded
const MOST = 20; // partial matches that are listed

// Text of the language, coloured.
export function code(text) {
  const made = el("code");
  let done = 0;
  for (const match of text.matchAll(TOKEN)) {
    if (match.index > done) made.append(text.slice(done, match.index));
    const name = match[1] ? (match[1][0] === "#" ? "comment" : "iri") : match[2] ? "string" : match[3] ? "arrow" : match[4] ? "word" : "number";
    made.append(el("span", { class: name }, match[0]));
    done = match.index + match[0].length;
  }
  made.append(text.slice(done));
  return made;
}

// Text between rules: whole lines of comment as prose, the rest as it stands.
function proseAndCode(text) {
  const blocks = [];
  for (const paragraph of text.split(/\n\s*\n/)) {
    let last = null;
    for (const line of paragraph.split("\n")) {
      const prose = /^# \S/.test(line);
      if (last?.prose === prose) last.lines.push(line);
      else blocks.push(last = { prose, lines: [line] });
    }
  }
  return blocks.map(({ prose, lines }) => prose ? el("p", { class: "prose" }, lines.map((line) => line.slice(2)).join(" "))
    : el("pre", { class: "plain" }, code(lines.join("\n"))));
}

// The values that the program runs with, and its own where they are others.
export const parameters = (all) => all.length ? [el("h3", {}, "Parameters"), facts(all.map(({ name, value, default: own }) =>
  [name, el("span", {}, code(value), ...(value === own ? [] : [" on the command line; the program has ", code(own)]))]))] : [];

// Written by the author as a rule: not what a fluent or the end of an alert adds.
const written = ({ name, event }) => name && !/^alert .* ends$/.test(event);

export class Rules {
  constructor(store, program) {
    this.store = store;
    this.program = program;
    this.badges = [];
    this.seen = false;
    speak(program.words);
    by("parameters").replaceChildren(...parameters(program.parameters));
    by("rules").replaceChildren(...this.parts());
    store.listen((changed) => { if (changed.numbers) this.later(); });
  }

  show(name) { this.seen = name === "rules"; this.later(); }

  // The text cut where rules begin and end.
  parts() {
    const lines = this.program.text.split("\n");
    const parts = [];
    const plain = (from, to) => {
      const text = lines.slice(from, to).join("\n").replace(/^\n+|\s+$/g, "");
      if (!text) return;
      const height = text.split("\n").length;
      if (height > LONG && /^\s*[^#\s]/m.test(text)) parts.push(el("details", { class: "folded" }, el("summary", {}, `${height} lines of text and declarations`), ...proseAndCode(text)));
      else parts.push(...proseAndCode(text));
    };
    const rules = this.program.rules.filter(written).sort((a, b) => a.line - b.line);
    let line = 0;
    for (let at = 0; at < rules.length; at++) {
      const first = rules[at];
      if (first.line - 1 < line) { parts.push(this.foot(first)); continue; } // two rules on one line
      plain(line, first.line - 1);
      const end = Math.max(first.end, first.line);
      parts.push(el("section", { class: "rule", "data-event": first.event, "data-line": first.line, "aria-label": `rule of ${first.event}, line ${first.line}` },
        el("pre", {}, code(lines.slice(first.line - 1, end).join("\n"))), this.foot(first)));
      line = end;
    }
    plain(line, lines.length);
    return parts;
  }

  foot(rule) {
    const fired = el("b", {}, "0"), wait = el("b", {}, "0");
    const bar = el("i", { class: "share" });
    const goals = rule.goals.map((number) => ({ number, made: el("td", {}, "0"), wait: el("td", {}, "0"), ...this.program.goals[number] }));
    this.badges.push({ rule, fired, wait, goals, bar });
    const waits = el("ul", { class: "waits", "aria-live": "polite" });
    return el("details", { class: "counts" },
      el("summary", {}, el("span", {}, "fired ", fired), el("span", {}, "waiting ", wait), el("span", { class: "bar-of" }, bar)),
      el("table", {},
        el("caption", { class: "unseen" }, `goals of the rule in line ${rule.line}`),
        el("thead", {}, el("tr", {}, ...["goal", "made", "wait"].map((each) => el("th", { scope: "col" }, each)))),
        el("tbody", {}, ...goals.map((goal) => el("tr", {}, el("td", {}, code(goal.text)), goal.made, goal.wait)))),
      el("button", { type: "button", onclick: () => this.ask(rule.event, waits) }, "What waits?"), waits);
  }

  // The partial matches of an event, those that lack least first.
  async ask(event, list) {
    try {
      const { matches, more } = await (await ask(`partial?event=${encodeURIComponent(event)}&limit=${MOST}`)).json();
      const rows = matches.map((each) => el("li", {}, el("b", {}, `${each.have} of ${each.of}`), " ", code(each.constituents.join(", ")),
        ` at ${valued(each.end)} waits for `, code(each.waits_for), each.until ? ` until ${valued(each.until)}` : ""));
      if (more) rows.push(el("li", {}, `and ${counted(more)} more`));
      list.replaceChildren(...rows.length ? rows : [el("li", {}, `Nothing waits for ${event}.`)]);
    } catch (error) {
      list.replaceChildren(el("li", {}, error.message.replace(/^\d+ /, "")));
    }
  }

  later() {
    if (this.timer || !this.seen) return;
    this.timer = setTimeout(() => { this.timer = 0; requestAnimationFrame(() => this.draw()); }, this.drawn ? 250 : 0);
  }

  draw() {
    this.drawn = true;
    const { made = {}, waiting = {} } = this.store.numbers ?? {};
    const most = Math.max(1, ...this.badges.map((each) => made[each.rule.node] ?? 0));
    for (const { rule, fired, wait, goals, bar } of this.badges) {
      const times = made[rule.node] ?? 0;
      say(fired, counted(times));
      bar.style.width = `${times ? 4 + 96 * Math.log1p(times) / Math.log1p(most) : 0}%`;
      say(wait, counted(rule.goals.reduce((sum, goal) => sum + (waiting[goal] ?? 0), 0)));
      for (const goal of goals) {
        say(goal.made, counted(made[goal.number] ?? 0));
        say(goal.wait, counted(waiting[goal.number] ?? 0));
      }
    }
  }

  // The text of the rules that derive an event.
  of(event) {
    const lines = this.program.text.split("\n");
    return this.program.rules.filter((rule) => written(rule) && [event, `transitions of ${event}`].includes(rule.event)).map((rule) => ({
      ...rule, text: lines.slice(rule.line - 1, Math.max(rule.end, rule.line)).join("\n"),
      fired: this.store.numbers?.made?.[rule.node] ?? 0,
    }));
  }
}

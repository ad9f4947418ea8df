// Why not: a question for an event that is not there: which, about whom, when. Asked, and the answer shown.

import { ask, by, el, say } from "./elements.js";
import { moment, read, zone } from "./times.js";
import { refusals } from "./refusals.js";

const OFFERED = 100; // subjects in the list to choose from
const BACK = [["", "automatic"], ["1h", "one hour"], ["6h", "6 hours"], ["1d", "one day"], ["7d", "7 days"], ["30d", "30 days"]];

export class WhyNot {
  constructor(store, kinds, program, choose, marked) {
    this.store = store;
    this.kinds = kinds;
    this.choose = choose;
    this.marked = marked; // called with what is asked, for the timeline
    this.events = program.events.filter((event) => event.derived);
    this.usual = (this.events.find((event) => program.alerts.some((alert) => alert.event === event.name)) ?? this.events[0])?.name;
    this.asked = 0;
  }

  // Now, by the time of events; in whole seconds, as people say times.
  now() {
    const { watermark } = this.store.numbers ?? {};
    const last = Number.isFinite(this.store.last) ? this.store.last : Date.now() * 1000;
    const ticks = watermark !== null && watermark !== undefined ? watermark + 1 : last;
    return Math.round(ticks / 1e6) * 1e6;
  }

  title({ event, key }) { return `Why no ${this.of(event)?.name ?? this.usual}${key ? ` at ${key}` : ""}?`; }

  // A short one: which event, here and now.
  brief(key) {
    const event = this.choice(this.usual);
    const go = (pressed) => { pressed.preventDefault(); this.choose({ absence: { event: event.value, key } }); };
    return el("form", { class: "brief", onsubmit: go }, el("label", {}, "Why is there no ", event, " here now?"), el("button", { type: "submit" }, "Ask"));
  }

  // The whole question, with what is known of it, and its answer.
  parts(given) {
    const shown = moment(given.at ?? this.now());
    const event = this.choice(this.of(given.event)?.name ?? this.usual);
    const offered = el("datalist", { id: "subjects" });
    const about = el("input", { type: "text", list: "subjects", value: given.key ?? "", autocomplete: "off", spellcheck: "false", maxlength: "300", placeholder: "any" });
    const named = el("span", {}, "");
    const time = el("input", { type: "text", required: true, value: shown, autocomplete: "off", spellcheck: "false", maxlength: "60" });
    const back = el("select", {}, ...BACK.map(([value, text]) => el("option", { value, selected: value === (given.back ?? "") }, text)));
    const answer = el("div", { class: "refused" });
    const whom = () => {
      const subject = this.of(event.value).subject;
      say(named, subject ?? "about");
      about.disabled = subject === null;
    };
    event.addEventListener("change", whom);
    about.addEventListener("input", () => offered.replaceChildren(...this.subjects(about.value).map((key) => el("option", { value: key }))));
    offered.append(...this.subjects("").map((key) => el("option", { value: key })));
    whom();
    const go = () => {
      if (time.value !== shown || given.at === undefined) given.at = read(time.value);
      Object.assign(given, { event: event.value, key: about.disabled ? "" : about.value.trim(), back: back.value }); // Back leads to it
      this.put(given, Number.isNaN(given.at) ? time.value : exact(given.at), answer);
    };
    const form = el("form", { class: "question", onsubmit: (pressed) => { pressed.preventDefault(); go(); } },
      el("label", {}, el("span", {}, "event"), event), el("label", {}, named, about),
      el("label", {}, el("span", {}, `at (${zone()})`), time), el("label", {}, el("span", {}, "looking back"), back),
      offered, el("button", { type: "submit" }, "Ask"));
    go();
    return [form, answer];
  }

  choice(chosen) {
    return el("select", {}, ...this.events.map(({ name }) => el("option", { value: name, selected: name === chosen }, name)));
  }

  of(name) { return this.events.find((event) => event.name === name); }

  // Those that begin with a text first; stations, and what events were about.
  subjects(text) {
    const wanted = text.trim().toLowerCase();
    const found = new Set();
    for (const key of [...this.store.stations.keys(), ...this.store.keys.keys()]) {
      if (key && key.toLowerCase().startsWith(wanted)) found.add(key);
      if (found.size >= OFFERED) break;
    }
    return [...found].sort();
  }

  put({ event, key, at, back }, time, answer) {
    const mine = ++this.asked;
    const address = `why-not?${new URLSearchParams({ event: this.spelt(event, key), at: time, ...(back ? { back } : {}) })}`;
    this.marked({ event, key, at });
    say(by("why-title"), this.title({ event, key }));
    answer.setAttribute("aria-busy", "true");
    answer.replaceChildren(el("p", { class: "none" }, "Asking the running program …"));
    ask(`${address}&format=json`).then((got) => got.json()).then((found) => {
      const { parts, said } = refusals(found, this.kinds, this.choose);
      return [[...parts, el("p", { class: "same" }, "The same ", el("a", { href: `${address}&format=text` }, "as text"), " · ", el("a", { href: `${address}&format=json` }, "as JSON"))], said];
    }, (error) => { const said = error.message.replace(/^\d+ /, ""); return [[el("p", { class: "wrong" }, said)], said]; }).then(([parts, said]) => {
      if (mine !== this.asked) return; // another one was asked meanwhile
      answer.replaceChildren(...parts);
      answer.removeAttribute("aria-busy");
      say(by("chosen"), `${said} Asked for ${time}.`);
    });
  }

  // The event as a rule writes it.
  spelt(name, key) {
    const { subject, attributes } = this.of(name);
    if (!key || subject === null) return name;
    const type = attributes.find((each) => each.name === subject).type;
    return `${name}(${subject}: ${type === "int" && /^-?\d+$/.test(key) ? key : text(key)})`;
  }
}

// A time to the microsecond.
function exact(ticks) {
  const seconds = Math.floor(ticks / 1e6), rest = Math.round(ticks - seconds * 1e6);
  return `${new Date(seconds * 1000).toISOString().slice(0, 19)}${rest ? `.${String(rest).padStart(6, "0")}` : ""}Z`;
}

// What JSON leaves as it is and a program does not take in a string.
const text = (value) => JSON.stringify(value).replace(/[\u007f-\u00a0\u2028\u2029]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);

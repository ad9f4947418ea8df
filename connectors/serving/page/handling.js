// What people do with an alert: take it, assign it, comment, silence, close. Each is asked of the server, which says no where it must.

import { el, send } from "./elements.js";
import { silenceForm } from "./silences.js";
import { spoken } from "./tree.js";

const VERDICTS = [["true", "true: it was so"], ["false", "false: it was not so"], ["duplicate", "duplicate of another"], ["test", "only a test"]];

// `full`: the alert as the server has it now; `done()`: called when something has changed.
export class Handling {
  constructor(person, full, done) {
    Object.assign(this, { person, full, done });
    this.said = el("p", { class: "wrong", role: "alert" });
    this.box = el("section", { class: "handling", "aria-label": "What to do with it" });
    this.draw(full);
  }

  draw(full) {
    this.full = full;
    const { refused } = this.person;
    const over = ["resolved", "withdrawn"].includes(full.state);
    const button = (text, act, attributes = {}) => el("button", { type: "button", disabled: Boolean(refused), onclick: act, ...attributes }, text);
    const own = full.acknowledged ? button("Give back", () => this.send("acknowledge", "DELETE")) : button("Acknowledge", () => this.send("acknowledge", "POST", {}), { class: "main" });
    const silences = (full.silences ?? []).filter((each) => !each.maintenance).map(({ id }) => button("End the silence", () => this.unsilence(id)));
    this.box.replaceChildren(
      el("div", { class: "doing" }, over ? null : own, over ? null : button("Assign", () => this.open(this.assigning())), button("Comment", () => this.open(this.commenting())),
        ...(over ? [] : full.silenced?.length ? silences : [button("Silence", () => this.open(this.silencing()))]), full.verdict ? button("Reopen", () => this.send("close", "DELETE")) : null, button(full.verdict ? "Change verdict" : "Close alert …", () => this.open(this.closing()))),
      ...(refused ? [el("p", { class: "hint" }, ...spoken(refused), ...(this.person.session ? [" ", el("button", { type: "button", class: "link", onclick: another }, "Log in as somebody else")] : []))] : []), this.said, ...(this.form ? [this.form] : []));
  }

  open(form) {
    this.form?.remove();
    this.form = form;
    this.said.textContent = "";
    this.box.append(form);
    form.querySelector("input, select, textarea").focus();
  }

  shut() {
    this.form?.remove();
    this.form = null;
    this.box.querySelector("button")?.focus();
  }

  // A form of `fields`, labelled elements by name; `act(values)` is what it sends.
  made(title, fields, act) {
    const form = el("form", { "aria-label": title, onsubmit: (event) => {
      event.preventDefault();
      act(Object.fromEntries(new FormData(form)));
    } }, ...fields, el("div", { class: "buttons" }, el("button", { type: "submit" }, title), el("button", { type: "button", onclick: () => this.shut() }, "Cancel")));
    return form;
  }

  assigning() {
    return this.made("Assign", [
      el("label", {}, "To (empty: nobody)", el("input", { name: "to", value: this.full.assignee || this.person.name, maxlength: "64", autocomplete: "off" })), remark(),
    ], ({ to, comment }) => this.send("assign", "POST", { to: to.trim() || null, comment }));
  }

  commenting() {
    return this.made("Comment", [remark(true)], ({ comment }) => this.send("comment", "POST", { comment }));
  }

  closing() {
    return this.made("Close alert", [
      el("label", {}, "What it was", el("select", { name: "verdict", required: true }, el("option", { value: "" }, "choose"), ...VERDICTS.map(([value, text]) => el("option", { value, selected: value === this.full.verdict }, text)))), remark(),
    ], ({ verdict, comment }) => this.send("close", "POST", { verdict, comment }));
  }

  // A silence, at first of the name and the key of the alert.
  silencing() {
    const keys = new Set(["alertname", ...Object.keys(this.full.key).map((name) => name.replace(/[^a-zA-Z0-9_]/g, "_"))]);
    const labels = Object.entries(this.full.labels);
    const matchers = labels.filter(([name]) => keys.has(name)).map(([name, value]) => ({ name, value, isRegex: false, isEqual: true }));
    return silenceForm(new Map(labels.map(([name, value]) => [name, new Set([value])])), { matchers }, () => { this.shut(); this.done(); }, () => this.shut());
  }

  unsilence(id) { return this.asking(() => send(`silences/${encodeURIComponent(id)}`, "DELETE")); }

  send(what, method, body) { return this.asking(() => send(`alerts/${encodeURIComponent(this.full.alert)}/${what}`, method, body)); }

  async asking(act) {
    try {
      await act();
      this.said.textContent = "";
      if (this.form) this.shut();
      this.done();
    } catch (error) {
      this.said.textContent = error.message.replace(/^\d+ /, "");
    }
  }
}

// The form to log in says which role is wanted, and leads back to the alert.
async function another() {
  await send("logout", "POST");
  location.assign(`./?role=responder${location.hash}`);
}

const remark = (required = false) => el("label", {}, required ? "Comment" : "Comment (optional)", el("textarea", { name: "comment", rows: "2", maxlength: "2000", required }));

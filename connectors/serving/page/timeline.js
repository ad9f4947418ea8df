// The timeline: a row for each subject, in it a lane for each event that is shown; bars on a canvas, only those in view.

import { by, counted, el, say, valued } from "./elements.js";
import { colour, kind, recoloured, severity } from "./colours.js";
import { interval, lasting, marks } from "./times.js";
import { subjects } from "./store.js";

const AXIS = 24;
const LANE = 7;
const GAP = 2;
const PAD = 6;
const NAMES = 96; // pixels for the subjects
const alertLane = (name) => `alert ${name}`; // no event is called so

export class Timeline {
  constructor(store, kinds, choose) {
    this.store = store;
    this.kinds = kinds;
    this.choose = choose;
    this.hidden = new Set();
    this.box = by("timeline");
    this.canvas = by("bars");
    this.pen = this.canvas.getContext("2d");
    this.rows = [];
    this.span = 0; // seconds; 0: all
    this.view = null; // [from, to] where somebody has zoomed
    this.row = 0;
    this.event = null;
    this.only = null;
    this.wanted = false;
    this.legend();
    new ResizeObserver(() => this.later()).observe(this.box);
    this.box.addEventListener("scroll", () => this.later(), { passive: true });
    this.box.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.box.addEventListener("pointermove", (event) => this.move(event));
    this.box.addEventListener("pointerleave", () => this.tip(null));
    this.box.addEventListener("pointerdown", (event) => this.grab(event));
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("focus", () => this.later());
    this.box.addEventListener("blur", () => this.later());
    by("span").addEventListener("change", (event) => { this.span = Number(event.target.value); this.view = null; this.later(); });
    by("closer").addEventListener("click", () => this.zoom(0.6));
    by("farther").addEventListener("click", () => this.zoom(1 / 0.6));
    this.laid = new Map(); // rows by subject, until they change
    store.listen((changed) => {
      if (changed.all || changed.alerts) this.laid.clear();
      for (const key of changed.touched) this.laid.delete(key);
      if (changed.events || changed.alerts || changed.all) this.stale = true;
      this.later();
    });
    recoloured(() => { this.legend(); this.later(); });
  }

  legend() {
    by("kinds").replaceChildren(...[...this.kinds].map(([name, number]) => {
      const mark = el("i", { class: "swatch" });
      mark.style.background = kind(number);
      return el("button", {
        type: "button", "aria-pressed": String(!this.hidden.has(name)),
        onclick: (event) => {
          if (!this.hidden.delete(name)) this.hidden.add(name);
          event.currentTarget.setAttribute("aria-pressed", String(!this.hidden.has(name)));
          this.laid.clear();
          this.stale = true;
          this.later();
        },
      }, mark, name);
    }));
  }

  later() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => { this.wanted = false; this.draw(); });
  }

  range() {
    if (this.view) return this.view;
    const { first, last, numbers } = this.store;
    if (!(last >= first)) return [0, 1];
    const now = Math.max(last, Math.min(numbers?.watermark ?? last, last + 6 * 3600e6));
    if (this.span) return [now - this.span * 1e6, now + this.span * 2e4];
    const room = Math.max(1e6, now - first) * 0.02;
    return [first - room, now + room];
  }

  layout() {
    this.stale = false;
    this.lanes = [...this.kinds.keys()].filter((name) => !this.hidden.has(name));
    this.alerts = new Map();
    for (const alert of this.store.alerts.values()) {
      for (const key of subjects(alert)) this.alerts.set(key, [...this.alerts.get(key) ?? [], alert]);
    }
    if (this.sorted?.length !== this.store.keys.size || this.sorted.some((key) => !this.store.keys.has(key))) {
      this.sorted = [...this.store.keys.keys()].sort();
    }
    const keys = this.only === null ? this.sorted : [this.only];
    this.rows = [];
    for (const key of keys) {
      let row = this.laid.get(key);
      if (!row) this.laid.set(key, row = this.lay(key));
      if (row.events.length) this.rows.push(row);
    }
    let top = AXIS;
    for (const row of this.rows) {
      row.top = top;
      top += row.height;
    }
    by("rows").style.height = `${top}px`;
  }

  // A row has the lanes that it needs.
  lay(key) {
    const events = (this.store.keys.get(key) ?? []).filter((event) => this.lanes.includes(event.type));
    const used = new Set(events.map((event) => event.type));
    const alerts = this.alerts.get(key) ?? [];
    const lanes = new Map();
    for (const { name } of alerts) if (!lanes.has(alertLane(name))) lanes.set(alertLane(name), lanes.size);
    for (const name of this.lanes) if (used.has(name)) lanes.set(name, lanes.size);
    return { key, events, alerts, lanes, height: Math.max(22, lanes.size * (LANE + GAP) + 2 * PAD - GAP) };
  }

  draw() {
    if (this.stale !== false) this.layout();
    const { clientWidth: width, clientHeight: height } = this.box;
    if (!width || !height) return;
    const scale = Math.min(window.devicePixelRatio || 1, 2);
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const pen = this.pen;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.fillStyle = colour("panel");
    pen.fillRect(0, 0, width, height);
    pen.font = "12px Inter, system-ui, sans-serif";
    pen.textBaseline = "middle";
    if (!this.rows.length) {
      pen.fillStyle = colour("muted");
      pen.fillText("Nothing derived yet.", 14, height / 2);
      return;
    }
    const [from, to] = this.range();
    this.shown = { from, to, width: width - NAMES };
    const x = (ticks) => NAMES + ((ticks - from) / (to - from)) * (width - NAMES);
    const ticks = marks(from, to, width - NAMES);
    pen.strokeStyle = colour("grid");
    pen.lineWidth = 1;
    pen.beginPath();
    for (const [at] of ticks) { const place = Math.round(x(at)) + 0.5; pen.moveTo(place, AXIS); pen.lineTo(place, height); }
    pen.stroke();
    const scroll = this.box.scrollTop;
    let low = 0, high = this.rows.length;
    while (low < high) { const middle = (low + high) >> 1; if (this.rows[middle].top + this.rows[middle].height > scroll + AXIS) high = middle; else low = middle + 1; }
    for (let number = low; number < this.rows.length && this.rows[number].top - scroll < height; number++) {
      this.drawRow(this.rows[number], number, this.rows[number].top - scroll, x, from, to, width);
    }
    pen.fillStyle = colour("panel");
    pen.fillRect(0, 0, width, AXIS);
    pen.fillStyle = colour("muted");
    pen.textAlign = "center";
    for (const [at, text] of ticks) if (x(at) > NAMES + 20 && x(at) < width - 26) pen.fillText(text, x(at), AXIS / 2 + 1);
    pen.textAlign = "left";
    pen.strokeStyle = colour("line");
    pen.beginPath(); pen.moveTo(0, AXIS - 0.5); pen.lineTo(width, AXIS - 0.5); pen.stroke();
    const mark = this.store.numbers?.watermark;
    if (mark !== null && mark !== undefined && mark >= from && mark <= to) {
      pen.strokeStyle = colour("accent");
      pen.setLineDash([3, 3]);
      pen.beginPath(); pen.moveTo(x(mark), AXIS); pen.lineTo(x(mark), height); pen.stroke();
      pen.setLineDash([]);
    }
  }

  drawRow(row, number, top, x, from, to, width) {
    const pen = this.pen;
    if (number % 2) { pen.fillStyle = colour("stripe"); pen.fillRect(0, top, width, row.height); }
    pen.save();
    pen.beginPath(); pen.rect(NAMES, top, width - NAMES, row.height); pen.clip();
    for (const alert of row.alerts) {
      const [a, b] = [x(Date.parse(alert.start) * 1000), x(Date.parse(alert.state === "resolved" ? alert.time : alert.until) * 1000)];
      if (b < NAMES || a > width) continue;
      pen.fillStyle = severity(alert.severity);
      pen.globalAlpha = alert.state === "resolved" ? 0.45 : 1;
      pen.fillRect(a, top + PAD + row.lanes.get(alertLane(alert.name)) * (LANE + GAP), Math.max(3, b - a), LANE);
    }
    let last = null, edge = -1;
    for (const event of row.events) {
      if (event.end < from || event.start > to) continue;
      const a = x(event.start), b = x(event.end);
      const y = top + PAD + row.lanes.get(event.type) * (LANE + GAP);
      if (event.start === event.end || b - a < 3) {
        if (last === event.type && Math.abs(b - edge) < 0.7) continue; // one over the other
        pen.globalAlpha = 0.95;
        pen.fillStyle = kind(this.kinds.get(event.type));
        pen.fillRect(b - 1.5, y, 3, LANE);
      } else {
        pen.globalAlpha = 0.38;
        pen.fillStyle = kind(this.kinds.get(event.type));
        pen.fillRect(a, y, b - a, LANE);
        pen.globalAlpha = 1;
        pen.fillRect(b - 2, y, 2, LANE);
      }
      last = event.type;
      edge = b;
    }
    pen.globalAlpha = 1;
    if (this.event && row.events.includes(this.event)) {
      const a = x(this.event.start), b = x(this.event.end);
      const y = top + PAD + row.lanes.get(this.event.type) * (LANE + GAP);
      pen.strokeStyle = colour("ink");
      pen.lineWidth = 2;
      pen.strokeRect(Math.min(a, b - 4) - 2, y - 2, Math.max(4, b - a) + 4, LANE + 4);
      pen.lineWidth = 1;
    }
    pen.restore();
    const chosen = number === this.row && document.activeElement === this.box;
    pen.fillStyle = chosen ? colour("accent") : colour("ink");
    pen.font = `${chosen ? "600 " : ""}12px Inter, system-ui, sans-serif`;
    const name = this.short(row.key || "no subject");
    pen.fillText(name, 12, top + row.height / 2);
    pen.strokeStyle = colour("grid");
    pen.beginPath(); pen.moveTo(0, top + row.height - 0.5); pen.lineTo(width, top + row.height - 0.5); pen.stroke();
  }

  short(text) {
    let cut = text.length > 40 ? `…${text.slice(-38)}` : text;
    while (cut.length > 2 && this.pen.measureText(cut).width > NAMES - 20) cut = `…${cut.slice(2)}`;
    return cut;
  }

  // --- by mouse ---

  at(event) {
    const box = this.box.getBoundingClientRect();
    const y = event.clientY - box.top + this.box.scrollTop;
    const px = event.clientX - box.left;
    if (!this.shown || px < NAMES || event.clientY - box.top < AXIS) return null;
    const number = this.rows.findIndex((row) => y >= row.top && y < row.top + row.height);
    const row = this.rows[number];
    if (!row) return null;
    const { from, to, width } = this.shown;
    const per = (to - from) / width;
    const time = from + (px - NAMES) * per;
    const lane = Math.floor((y - row.top - PAD + GAP / 2) / (LANE + GAP));
    if (row.alerts.some((each) => row.lanes.get(alertLane(each.name)) === lane)) {
      const alert = row.alerts.findLast((each) => row.lanes.get(alertLane(each.name)) === lane && Date.parse(each.start) * 1000 <= time && Date.parse(each.state === "resolved" ? each.time : each.until) * 1000 >= time);
      return alert ? { alert, number } : { number, time };
    }
    let best = null;
    for (const each of row.events) {
      if (row.lanes.get(each.type) !== lane || each.start - 4 * per > time || each.end + 4 * per < time) continue;
      if (!best || each.end - each.start <= best.end - best.start) best = each;
    }
    return { event: best, number, time };
  }

  move(event) {
    if (this.held) {
      const moved = ((this.held.x - event.clientX) / this.shown.width) * (this.held.view[1] - this.held.view[0]);
      if (Math.abs(this.held.x - event.clientX) > 3) this.held.moved = true;
      if (this.held.moved) { this.view = [this.held.view[0] + moved, this.held.view[1] + moved]; this.later(); }
      return;
    }
    this.tip(this.at(event), event);
  }

  tip(found, event) {
    const tip = by("tip");
    const text = found?.event ? describe(found.event) : found?.alert ? `${found.alert.severity}: ${found.alert.title}` : "";
    tip.hidden = !text;
    this.box.style.cursor = text ? "pointer" : "";
    if (!text) return;
    say(tip, text);
    const box = this.box.getBoundingClientRect();
    tip.style.left = `${Math.min(event.clientX - box.left + 12, box.width - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY - box.top + this.box.scrollTop + 14}px`;
  }

  grab(event) {
    if (event.button || !this.shown) return;
    this.held = { x: event.clientX, view: [this.shown.from, this.shown.to], moved: false };
    const done = (up) => {
      window.removeEventListener("pointerup", done);
      const moved = this.held.moved;
      this.held = null;
      const found = moved ? null : this.at(up);
      if (found?.alert) this.choose({ alert: found.alert.alert });
      if (found?.event) { this.row = found.number; this.mark(found.event); this.choose({ event: found.event.id }); }
    };
    window.addEventListener("pointerup", done);
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return; // it scrolls
    event.preventDefault();
    if (!this.shown) return;
    const { from, to, width } = this.shown;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const moved = (event.deltaX / width) * (to - from);
      this.view = [from + moved, to + moved];
    } else {
      const share = (event.clientX - this.box.getBoundingClientRect().left - NAMES) / width;
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, from + share * (to - from));
    }
    this.later();
  }

  zoom(by, around) {
    if (!this.shown) return;
    const { from, to } = this.shown;
    const middle = around ?? (this.event && this.event.end >= from && this.event.end <= to ? this.event.end : (from + to) / 2);
    const [a, b] = [middle - (middle - from) * by, middle + (to - middle) * by];
    if (b - a < 1000 || b - a > 4e16) return;
    this.view = [a, b];
    this.later();
  }

  // --- by keyboard ---

  key(event) {
    const row = this.rows[this.row];
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || !row) return;
    if (step) {
      const sorted = [...row.events].sort((a, b) => a.end - b.end || a.start - b.start);
      const here = sorted.indexOf(this.event);
      const next = here < 0 ? (step > 0 ? 0 : sorted.length - 1) : Math.min(Math.max(here + step, 0), sorted.length - 1);
      this.mark(sorted[next]);
      say(by("chosen"), `${describe(this.event)}, ${counted(next + 1)} of ${counted(sorted.length)}`);
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      this.row = Math.min(Math.max(this.row + (event.key === "ArrowDown" ? 1 : -1), 0), this.rows.length - 1);
      const now = this.rows[this.row];
      this.event = null;
      say(by("chosen"), `row ${now.key}, ${counted(now.events.length)} events`);
      if (now.top - AXIS < this.box.scrollTop) this.box.scrollTop = now.top - AXIS;
      if (now.top + now.height > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = now.top + now.height - this.box.clientHeight;
    } else if (event.key === "Enter" && this.event) this.choose({ event: this.event.id });
    else if (event.key === "+" || event.key === "=") this.zoom(0.6);
    else if (event.key === "-") this.zoom(1 / 0.6);
    else if (event.key === "Home") { this.view = null; this.span = 0; by("span").value = "0"; }
    else return;
    event.preventDefault();
    this.later();
  }

  mark(event) {
    this.event = event;
    if (this.shown && (event.end < this.shown.from || event.start > this.shown.to)) {
      const half = (this.shown.to - this.shown.from) / 2;
      this.view = [event.end - half, event.end + half];
    }
    this.later();
  }

  // The row and the time of an event, with some room.
  show(event) {
    if (this.only !== null && this.only !== (event.key ?? "")) this.filter(null);
    if (this.stale !== false) this.layout();
    this.row = Math.max(0, this.rows.findIndex((row) => row.key === (event.key ?? "")));
    const room = Math.max(event.end - event.start, 3600e6);
    this.view = [event.start - 2 * room, event.end + 2 * room];
    this.event = event;
    if (this.rows[this.row]) this.box.scrollTop = this.rows[this.row].top - AXIS;
    this.later();
  }

  filter(key) {
    this.only = key;
    this.stale = true;
    this.later();
  }
}

export const describe = (event) => {
  const values = Object.entries(event.values).map(([name, value]) => `${name} ${valued(value)}`).join(", ");
  const length = event.end > event.start ? ` (${lasting(event.end - event.start)})` : "";
  return `${event.type}: ${values}; ${interval(event.start, event.end)}${length}`.slice(0, 400);
};

// The timeline by mouse and by keyboard: what is pointed at, and what is chosen.

import { by, counted, say, valued } from "./elements.js";
import { lasting, moment, spanOf } from "./times.js";
import { overAt, stateOf } from "./store.js";
import { AXIS, GAP, LANE, NAMES, PAD, alertLane } from "./bars.js";

export class Pointing {
  constructor(line) {
    this.line = line;
    this.held = null; // where it was taken, to be moved
    const { box } = line;
    box.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    box.addEventListener("pointermove", (event) => this.move(event));
    box.addEventListener("pointerleave", () => this.tip(null));
    box.addEventListener("pointerdown", (event) => this.grab(event));
    box.addEventListener("keydown", (event) => this.key(event));
  }

  at(event) {
    const box = this.line.box.getBoundingClientRect();
    const y = event.clientY - box.top + this.line.box.scrollTop;
    const px = event.clientX - box.left;
    if (!this.line.shown || px < NAMES || event.clientY - box.top < AXIS) return null;
    const number = this.line.rows.findIndex((row) => y >= row.top && y < row.top + row.height);
    const row = this.line.rows[number];
    if (!row) return null;
    const { from, to, width } = this.line.shown;
    const per = (to - from) / width;
    const time = from + (px - NAMES) * per;
    const lane = Math.floor((y - row.top - PAD + GAP / 2) / (LANE + GAP));
    const absence = { event: [...row.lanes].find(([, each]) => each === lane)?.[0], key: row.key, at: rounded(time, per) };
    if (row.alerts.some((each) => row.lanes.get(alertLane(each.name)) === lane)) {
      const alert = row.alerts.findLast((each) => row.lanes.get(alertLane(each.name)) === lane && Date.parse(each.start) * 1000 <= time && (each.state === "resolved" ? overAt(each) : Math.max(this.line.store.present(), Date.parse(each.until) * 1000)) >= time);
      absence.event = row.alerts.find((each) => row.lanes.get(alertLane(each.name)) === lane).event;
      return alert ? { alert, number } : { absence, number };
    }
    let best = null;
    for (const each of row.events) {
      if (row.lanes.get(each.type) !== lane || each.start - 4 * per > time || each.end + 4 * per < time) continue;
      if (!best || each.end - each.start <= best.end - best.start) best = each;
    }
    return best ? { event: best, number } : { absence, number };
  }

  move(event) {
    if (this.held) {
      const moved = ((this.held.x - event.clientX) / this.line.shown.width) * (this.held.view[1] - this.held.view[0]);
      if (Math.abs(this.held.x - event.clientX) > 3) this.held.moved = true;
      if (this.held.moved) { this.line.view = [this.held.view[0] + moved, this.held.view[1] + moved]; this.line.later(); }
      return;
    }
    this.tip(this.at(event), event);
  }

  tip(found, event) {
    const tip = by("tip");
    const text = found?.event ? describe(found.event) : found?.alert ? `${found.alert.severity}, ${stateOf(found.alert)}: ${found.alert.title}`
      : found && this.line.asks ? `${moment(found.absence.at)}: why ${found.absence.event ? `no ${found.absence.event}` : "nothing"} here?` : "";
    tip.hidden = !text;
    this.line.box.style.cursor = !text ? "" : found.absence ? "help" : "pointer";
    tip.classList.toggle("empty", Boolean(found?.absence));
    if (!text) return;
    say(tip, text);
    const box = this.line.box.getBoundingClientRect();
    tip.style.left = `${Math.min(event.clientX - box.left + 12, box.width - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY - box.top + this.line.box.scrollTop + 14}px`;
  }

  grab(event) {
    if (event.button || !this.line.shown) return;
    this.held = { x: event.clientX, view: [this.line.shown.from, this.line.shown.to], moved: false };
    const done = (up) => {
      window.removeEventListener("pointerup", done);
      window.removeEventListener("pointercancel", done);
      const moved = this.held.moved || up.type === "pointercancel"; // the browser scrolls
      this.held = null;
      const found = moved ? null : this.at(up);
      if (found?.alert) this.line.choose({ alert: found.alert.alert });
      if (found?.absence && this.line.asks) { this.line.row = found.number; this.line.event = null; this.line.choose({ absence: found.absence }); }
      if (found?.event) { this.line.row = found.number; this.line.mark(found.event); this.line.choose({ event: found.event.id }); }
    };
    window.addEventListener("pointerup", done);
    window.addEventListener("pointercancel", done);
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return; // it scrolls
    event.preventDefault();
    if (!this.line.shown) return;
    const { from, to, width } = this.line.shown;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const moved = (event.deltaX / width) * (to - from);
      this.line.view = [from + moved, to + moved];
    } else {
      const share = (event.clientX - this.line.box.getBoundingClientRect().left - NAMES) / width;
      this.line.zoom(event.deltaY > 0 ? 1.25 : 0.8, from + share * (to - from));
    }
    this.line.later();
  }

  key(event) {
    const row = this.line.rows[this.line.row];
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || !row) return;
    if (step) {
      const sorted = [...row.events].sort((a, b) => a.end - b.end || a.start - b.start);
      const here = sorted.indexOf(this.line.event);
      const next = here < 0 ? (step > 0 ? 0 : sorted.length - 1) : Math.min(Math.max(here + step, 0), sorted.length - 1);
      this.line.mark(sorted[next]);
      say(by("chosen"), `${describe(this.line.event)}, ${counted(next + 1)} of ${counted(sorted.length)}`);
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      this.line.row = Math.min(Math.max(this.line.row + (event.key === "ArrowDown" ? 1 : -1), 0), this.line.rows.length - 1);
      const now = this.line.rows[this.line.row];
      this.line.event = null;
      say(by("chosen"), `row ${now.key}, ${counted(now.events.length)} events`);
      if (now.top - AXIS < this.line.box.scrollTop) this.line.box.scrollTop = now.top - AXIS;
      if (now.top + now.height > this.line.box.scrollTop + this.line.box.clientHeight) this.line.box.scrollTop = now.top + now.height - this.line.box.clientHeight;
    } else if (event.key === "Enter" && this.line.event) this.line.choose({ event: this.line.event.id });
    else if (event.key.toLowerCase() === "n" && this.line.asks) this.line.choose({ absence: { event: this.line.event?.type, key: row.key, at: this.line.event ? undefined : this.middle() } });
    else if (event.key === "+" || event.key === "=") this.line.zoom(0.6);
    else if (event.key === "-") this.line.zoom(1 / 0.6);
    else if (event.key === "Home") this.line.last(0);
    else return;
    event.preventDefault();
    this.line.later();
  }

  // A time in view to ask about: now where that is seen, else what is in the middle.
  middle() {
    const { from, to, width } = this.line.shown;
    const now = this.line.store.numbers?.watermark;
    return now >= from && now <= to ? undefined : rounded((from + to) / 2, (to - from) / width);
  }
}

// A time as exact as it can be pointed at, `per` ticks to a pixel.
const UNITS = [3600e6, 600e6, 60e6, 10e6, 1e6, 1e3];
function rounded(time, per) {
  const unit = UNITS.find((each) => each <= 3 * per) ?? 1;
  return Math.round(time / unit) * unit;
}

const describe = (event) => {
  const values = Object.entries(event.values).map(([name, value]) => `${name} ${valued(value)}`).join(", ");
  const length = event.end > event.start ? ` (${lasting(event.end - event.start)})` : "";
  return `${event.type}: ${values}; ${spanOf(event)}${length}${event.open ? " so far" : ""}`.slice(0, 400);
};

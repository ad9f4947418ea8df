// The bars of the timeline, on its canvas: only those in view.

import { colour, severity } from "./colours.js";
import { stamp, tone } from "./glyphs.js";
import { marks } from "./times.js";
import { isActive, overAt, stateOf } from "./store.js";

export const AXIS = 24;
export const LANE = 9;
export const GAP = 2;
export const PAD = 6;
export const NAMES = 96; // pixels for the subjects
export const alertLane = (name) => `alert ${name}`; // no event is called so

export function paint(line) {
  const { clientWidth: width, clientHeight: height } = line.box;
  if (!width || !height) return;
  const scale = line.scale = Math.min(window.devicePixelRatio || 1, 2);
  if (line.canvas.width !== Math.round(width * scale) || line.canvas.height !== Math.round(height * scale)) {
    line.canvas.width = Math.round(width * scale);
    line.canvas.height = Math.round(height * scale);
    line.canvas.style.width = `${width}px`;
    line.canvas.style.height = `${height}px`;
  }
  const pen = line.pen;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.fillStyle = colour("panel");
  pen.fillRect(0, 0, width, height);
  pen.font = "12px Inter, system-ui, sans-serif";
  pen.textBaseline = "middle";
  if (!line.rows.length) {
    pen.fillStyle = colour("muted");
    pen.fillText(line.filters.set ? "Nothing passes the filters." : "Nothing derived yet.", 14, 22);
    return;
  }
  const [from, to] = line.range();
  line.shown = { from, to, width: width - NAMES };
  const x = (ticks) => NAMES + ((ticks - from) / (to - from)) * (width - NAMES);
  const ticks = marks(from, to, width - NAMES);
  pen.strokeStyle = colour("grid");
  pen.lineWidth = 1;
  pen.beginPath();
  for (const [at] of ticks) { const place = Math.round(x(at)) + 0.5; pen.moveTo(place, AXIS); pen.lineTo(place, height); }
  pen.stroke();
  const scroll = line.box.scrollTop;
  let low = 0, high = line.rows.length;
  while (low < high) { const middle = (low + high) >> 1; if (line.rows[middle].top + line.rows[middle].height > scroll + AXIS) high = middle; else low = middle + 1; }
  for (let number = low; number < line.rows.length && line.rows[number].top - scroll < height; number++) {
    paintRow(line, line.rows[number], number, line.rows[number].top - scroll, { x, from, to, width });
  }
  pen.fillStyle = colour("panel");
  pen.fillRect(0, 0, width, AXIS);
  pen.fillStyle = colour("muted");
  pen.textAlign = "center";
  for (const [at, text] of ticks) if (x(at) > NAMES + 20 && x(at) < width - 26) pen.fillText(text, x(at), AXIS / 2 + 1);
  pen.textAlign = "left";
  pen.strokeStyle = colour("line");
  pen.beginPath(); pen.moveTo(0, AXIS - 0.5); pen.lineTo(width, AXIS - 0.5); pen.stroke();
  const mark = line.store.numbers?.watermark;
  if (mark !== null && mark !== undefined && mark >= from && mark <= to) {
    pen.strokeStyle = colour("accent");
    pen.setLineDash([3, 3]);
    pen.beginPath(); pen.moveTo(x(mark), AXIS); pen.lineTo(x(mark), height); pen.stroke();
    pen.setLineDash([]);
  }
}

function paintRow(line, row, number, top, { x, from, to, width }) {
  const pen = line.pen;
  if (number % 2) { pen.fillStyle = colour("stripe"); pen.fillRect(0, top, width, row.height); }
  pen.save();
  pen.beginPath(); pen.rect(NAMES, top, width - NAMES, row.height); pen.clip();
  for (const alert of row.alerts) {
    const [a, b] = [x(Date.parse(alert.start) * 1000), x(alert.state === "resolved" ? overAt(alert) : Math.max(line.store.present(), Date.parse(alert.until) * 1000))];
    if (b < NAMES || a > width) continue;
    const y = top + PAD + row.lanes.get(alertLane(alert.name)) * (LANE + GAP);
    pen.fillStyle = pen.strokeStyle = severity(alert.severity);
    pen.globalAlpha = isActive(alert) ? 1 : 0.45;
    if (stateOf(alert) === "withdrawn") pen.strokeRect(a + 0.5, y + 0.5, Math.max(3, b - a) - 1, LANE - 1);
    else pen.fillRect(a, y, Math.max(3, b - a), LANE);
  }
  let last = null, edge = -1;
  for (const event of row.events) {
    if (event.end < from || event.start > to) continue;
    const a = x(event.start), b = x(event.end);
    const y = top + PAD + row.lanes.get(event.type) * (LANE + GAP);
    if (event.start === event.end || b - a < 3) {
      if (last === event.type && Math.abs(b - edge) < 1.5) continue; // one over the other
      pen.globalAlpha = 1;
      stamp(pen, line.kinds.get(event.type), b, y + LANE / 2, LANE, line.scale);
    } else {
      pen.globalAlpha = 0.6;
      pen.fillStyle = colour(tone(line.kinds.get(event.type)));
      pen.fillRect(a, y, b - a, LANE);
      pen.globalAlpha = 1;
      if (!event.open) stamp(pen, line.kinds.get(event.type), b, y + LANE / 2, LANE, line.scale); // what still holds has no end
    }
    last = event.type;
    edge = b;
  }
  pen.globalAlpha = 1;
  if (line.event && row.events.includes(line.event)) {
    const a = x(line.event.start), b = x(line.event.end);
    const y = top + PAD + row.lanes.get(line.event.type) * (LANE + GAP);
    pen.strokeStyle = colour("ink");
    pen.lineWidth = 2;
    pen.strokeRect(Math.min(a, b - 4) - 2, y - 2, Math.max(4, b - a) + 4, LANE + 4);
    pen.lineWidth = 1;
  }
  if (line.asked && (line.asked.key || row.key) === row.key && line.asked.at >= from && line.asked.at <= to) {
    const place = Math.round(x(line.asked.at)) + 0.5;
    pen.strokeStyle = pen.fillStyle = colour("ink");
    pen.lineWidth = 1.5;
    pen.beginPath(); pen.moveTo(place, top); pen.lineTo(place, top + row.height); pen.stroke();
    pen.beginPath(); pen.arc(place, top + row.height / 2, 8, 0, 7); pen.fill();
    pen.fillStyle = colour("panel");
    pen.font = "700 12px Inter, system-ui, sans-serif";
    pen.textAlign = "center";
    pen.fillText("?", place, top + row.height / 2 + 0.5);
    pen.textAlign = "left";
    pen.lineWidth = 1;
  }
  pen.restore();
  const chosen = number === line.row && document.activeElement === line.box;
  pen.fillStyle = chosen ? colour("accent") : colour("ink");
  pen.font = `${chosen ? "600 " : ""}12px Inter, system-ui, sans-serif`;
  const name = short(pen, row.key || "no subject");
  pen.fillText(name, 12, top + row.height / 2);
  pen.strokeStyle = colour("grid");
  pen.beginPath(); pen.moveTo(0, top + row.height - 0.5); pen.lineTo(width, top + row.height - 0.5); pen.stroke();
}

function short(pen, text) {
  let cut = text.length > 40 ? `…${text.slice(-38)}` : text;
  while (cut.length > 2 && pen.measureText(cut).width > NAMES - 20) cut = `…${cut.slice(2)}`;
  return cut;
}

// A chart: the numbers of one attribute over time, a line for each subject, with thresholds and the interval of an event.

import { el, libraries, say, valued } from "./elements.js";
import { colour } from "./colours.js";
import { tone } from "./glyphs.js";
import { moment, zone } from "./times.js";

const HEIGHT = 168;
const RULES = 6; // thresholds that are lines
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
const SVG = "http://www.w3.org/2000/svg";

// Thresholds in words: `avg > 30`.
const worded = ({ operator, value, aggregate }) => `${aggregate ? `${aggregate} ` : ""}${operator} ${valued(value)}`;

export class Chart {
  // `lines`: [{ name, load(since, until) }]; `shade`: [from, to] or null; `zoom(range)`: called where somebody drags.
  constructor({ title, lines, thresholds = [], shade = null }, zoom) {
    Object.assign(this, { lines, shade, zoom, thresholds: thresholds.length > RULES ? [] : thresholds });
    this.found = lines.map(() => ({ times: [], values: [] }));
    this.plot = el("div", { class: "plot", "aria-hidden": "true" });
    this.about = el("output", { class: "about" });
    this.latest = lines.map(() => el("b", {}));
    const compared = thresholds.length > RULES ? `compared with ${thresholds.length} values` : `compared: ${thresholds.map((each) => `${worded(each)} (${each.name ? `${each.name}, ` : ""}line ${each.line})`).join(", ")}`;
    this.box = el("div", { class: "chart" },
      el("p", {}, el("b", {}, title), this.about, thresholds.length ? el("span", { class: "aside" }, compared) : null),
      lines.length > 1 ? el("ul", { class: "legend" }, ...lines.map((line, number) => el("li", {}, sample(number), `${line.name} `, this.latest[number]))) : null, this.plot);
    new ResizeObserver(() => { if (this.plot.clientWidth) this.made?.setSize({ width: this.plot.clientWidth, height: HEIGHT }); }).observe(this.plot);
  }

  async load([from, to]) {
    const found = await Promise.all(this.lines.map((line) => line.load(from, to)));
    this.found = found;
    const [{ times, values }] = found;
    found.forEach((each, number) => say(this.latest[number], each.values.length ? valued(each.values.at(-1)) : "–"));
    this.said = found.length > 1 ? "" : times.length ? `${valued(values.at(-1))} at ${moment(times.at(-1))}` : "no readings held";
    say(this.about, this.said);
    this.draw();
  }

  see(range) {
    this.range = range;
    this.made?.setScale("x", { min: range[0] / 1e6, max: range[1] / 1e6 });
  }

  again() {
    this.made?.destroy();
    this.made = null;
    this.draw();
  }

  draw() {
    const data = this.found.map(({ times, values }) => [times.map((time) => time / 1e6), values]);
    const joined = data.length > 1 ? window.uPlot.join(data) : data[0];
    if (this.made) this.made.setData(joined, false);
    else if (this.plot.clientWidth) this.made = this.make(joined);
    if (this.made) this.see(this.range);
  }

  make(data) {
    const axis = { stroke: colour("muted"), grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("line"), width: 1, size: 4 }, font: "11px Inter, system-ui, sans-serif" };
    const series = this.lines.map((line, number) => ({
      label: line.name, stroke: colour(tone(number)), width: 1.75, dash: DASHES[number % DASHES.length], spanGaps: true,
      points: { show: (plot, at, from, to) => to - from < plot.width / 12, size: 5, fill: colour(tone(number)) },
    }));
    return new window.uPlot({
      width: this.plot.clientWidth, height: HEIGHT, legend: { show: false }, padding: [10, 12, 0, 0],
      tzDate: (seconds) => zone() === "UTC" ? window.uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000),
      cursor: { drag: { x: true, y: false, setScale: false }, y: false },
      scales: { x: { time: true }, y: { range: (plot, low, high) => this.height(low, high) } },
      axes: [{ ...axis, space: 70, size: 30, values: clock }, { ...axis, size: 46 }],
      series: [{}, ...series],
      hooks: {
        drawClear: [(plot) => this.ground(plot)], draw: [(plot) => this.rules(plot)], setCursor: [(plot) => this.point(plot)],
        setSelect: [(plot) => {
          const { left, width } = plot.select;
          if (width > 4) this.zoom([plot.posToVal(left, "x") * 1e6, plot.posToVal(left + width, "x") * 1e6]);
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        }],
      },
    }, data, this.plot);
  }

  // All of the values, and the thresholds.
  height(low, high) {
    const all = [...this.thresholds.map((each) => each.value), ...(low === null ? [] : [low, high])];
    if (!all.length) return [0, 1];
    const [least, most] = [Math.min(...all), Math.max(...all)];
    const room = (most - least || Math.abs(most) || 1) * 0.08;
    return [least - room, most + room];
  }

  ground(plot) {
    if (!this.shade) return;
    const { ctx: pen, bbox } = plot;
    const [a, b] = this.shade.map((time) => plot.valToPos(time / 1e6, "x", true));
    const left = Math.max(a, bbox.left), right = Math.min(Math.max(b, a + 3), bbox.left + bbox.width);
    if (right <= left) return;
    pen.save();
    pen.fillStyle = colour("accent");
    pen.globalAlpha = 0.16;
    pen.fillRect(left, bbox.top, right - left, bbox.height);
    pen.restore();
  }

  rules(plot) {
    const { ctx: pen, bbox } = plot;
    const scale = window.devicePixelRatio || 1;
    pen.save();
    pen.strokeStyle = pen.fillStyle = colour("severe");
    pen.lineWidth = 1.25 * scale;
    pen.setLineDash([5 * scale, 4 * scale]);
    pen.font = `${11 * scale}px Inter, system-ui, sans-serif`;
    pen.textAlign = "left"; // the newest readings are on the right
    let above = -Infinity; // labels do not lie over each other
    for (const each of [...this.thresholds].sort((a, b) => b.value - a.value)) {
      const y = plot.valToPos(each.value, "y", true);
      pen.beginPath();
      pen.moveTo(bbox.left, y);
      pen.lineTo(bbox.left + bbox.width, y);
      pen.stroke();
      pen.textBaseline = "middle";
      above = Math.max(y + (each.operator.startsWith("<") ? 8 : -7) * scale, above + 12 * scale);
      const words = `${worded(each)} ${each.name}`.trim();
      pen.save(); // no line crosses the words
      pen.setLineDash([]);
      pen.lineWidth = 4 * scale;
      pen.lineJoin = "round";
      pen.strokeStyle = colour("panel");
      pen.strokeText(words, bbox.left + 4 * scale, above);
      pen.restore();
      pen.fillText(words, bbox.left + 4 * scale, above);
    }
    pen.restore();
  }

  point(plot) {
    const at = plot.cursor.idx;
    if (at === null || at === undefined || plot.cursor.left < 0) return say(this.about, this.said ?? "");
    const there = this.lines.map((line, number) => [line, plot.data[number + 1][at]]).filter(([, value]) => value !== null && value !== undefined);
    say(this.about, `${moment(plot.data[0][at] * 1e6)}: ${there.map(([line, value]) => `${this.lines.length > 1 ? `${line.name} ` : ""}${valued(value)}`).join(", ")}`);
  }
}

// The marks of the axis, written as the page writes times.
function clock(plot, marks) {
  const days = (plot.scales.x.max - plot.scales.x.min) > 2 * 86400;
  return marks.map((mark) => { const text = moment(mark * 1e6); return days ? text.slice(5, 10) : text.slice(11); });
}

// A piece of a line, for a legend.
function sample(number) {
  const made = document.createElementNS(SVG, "svg");
  made.setAttribute("viewBox", "0 0 24 8");
  made.setAttribute("class", `sample line-${number % 8}`);
  made.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "path");
  line.setAttribute("d", "M0 4h24");
  line.setAttribute("stroke-dasharray", DASHES[number % DASHES.length].join(" "));
  made.append(line);
  return made;
}

// The library, when the first chart is wanted.
let library = null;
export const loaded = () => library ??= libraries("uplot.css", "uplot.js");

export const noLibrary = () => el("p", { class: "none" }, "The library of charts is missing: `make page` fetches it over the network. Everything else works without it.");


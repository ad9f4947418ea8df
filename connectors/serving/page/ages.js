// How long ago a time is: by the clock; where the input is of another time, by how far the time of events has come.

import { el, say } from "./elements.js";
import { lasting } from "./times.js";

const DAY = 86400e6;
const PACE = 10_000; // milliseconds
let reached = () => null;

// `watermark()`: how far the time of events has come, null: not known.
export function follow(watermark) {
  reached = watermark;
  setInterval(() => { for (const each of document.querySelectorAll(".age")) say(each, text(Number(each.dataset.at))); }, PACE);
}

function text(ticks) {
  const clock = Date.now() * 1000, mark = reached();
  const live = mark === null || Math.abs(clock - mark) < DAY;
  const passed = (live ? clock : mark) - ticks;
  if (!Number.isFinite(passed)) return "";
  if (Math.abs(passed) < 1e6) return live ? "just now" : "latest";
  return live ? passed > 0 ? `${lasting(passed)} ago` : `in ${lasting(-passed)}` : `${lasting(Math.abs(passed))} ${passed > 0 ? "earlier" : "later"}`;
}

export const age = (ticks) => el("span", { class: "age", "data-at": ticks }, text(ticks));

// How long ago a time is: by the clock; where the input is of another time, by how far the time of events has come.

import { el, say } from "./elements.js";
import { lasting } from "./times.js";

const DAY = 86400e6;
const PACE = 10_000; // milliseconds
let reached = () => null;

export function follow(store) {
  reached = () => store.numbers?.watermark ?? null;
  const renew = () => { for (const each of document.querySelectorAll(".age")) say(each, text(Number(each.dataset.at))); };
  setInterval(renew, PACE);
  let live = null;
  store.listen(() => { if (live !== (live = isLive())) renew(); });
}

function isLive() {
  const mark = reached();
  return mark === null || Math.abs(Date.now() * 1000 - mark) < DAY;
}

function text(ticks) {
  const live = isLive();
  const passed = (live ? Date.now() * 1000 : reached()) - ticks;
  if (!Number.isFinite(passed)) return "";
  if (Math.abs(passed) < 1e6) return live ? "just now" : "latest";
  return live ? passed > 0 ? `${lasting(passed)} ago` : `in ${lasting(-passed)}` : `${lasting(Math.abs(passed))} ${passed > 0 ? "earlier" : "later"}`;
}

// How far a time of the clock is from now, whatever time the input is of.
export function fromNow(ticks) {
  const passed = Date.now() * 1000 - ticks;
  return Math.abs(passed) < 5e6 ? "just now" : passed > 0 ? `${lasting(passed)} ago` : `in ${lasting(-passed)}`;
}

export const age = (ticks) => el("span", { class: "age", "data-at": ticks }, text(ticks));

// Colours for canvases, as the style sheet has them now.

const probe = document.createElement("i");
let known = new Map();

export function colour(name) {
  let found = known.get(name);
  if (found === undefined) {
    if (!probe.isConnected) { probe.hidden = true; document.body.append(probe); }
    probe.style.color = `var(--${name})`;
    found = getComputedStyle(probe).color;
    known.set(name, found);
  }
  return found;
}

export const severity = (text) => colour({ Extreme: "extreme", Severe: "severe", Moderate: "moderate", Minor: "minor" }[text] ?? "unknown");

const listeners = [];
export const recoloured = (listener) => listeners.push(listener);

export function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function renew() {
  known = new Map();
  for (const listener of listeners) listener();
}

export function choose(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("semcep-theme", theme); } catch { /* it is not kept */ }
  renew();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", renew);

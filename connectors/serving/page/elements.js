// Elements of the page. Text is only ever set as text, never as markup: names come from strangers.

import { moment } from "./times.js";

export const by = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined).map((child) => child instanceof Node ? child : String(child)));
  return made;
}

export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Scripts and style sheets of libraries, once they are there; our own style comes behind theirs.
export const libraries = (...names) => Promise.all(names.map((name) => new Promise((onload, onerror) => {
  const from = `page/vendor/${name}`;
  document.querySelector("[href='page/style.css']").before(name.endsWith(".css") ? el("link", { rel: "stylesheet", href: from, onload, onerror }) : el("script", { src: from, onload, onerror }));
})));

// Names with values, each a text or an element.
export const facts = (pairs) => el("dl", { class: "facts" }, ...pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));

const numbers = new Intl.NumberFormat("en");
export const counted = (number) => numbers.format(number);

// A value of an event in as many digits as people read; a time as the page writes times.
export const valued = (value) => value === null || value === undefined ? "unknown" : typeof value === "number" ? String(Number(value.toPrecision(7)))
  : /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(value) ? moment(Date.parse(value) * 1000) : String(value);

// Whether one part stands below the other, and what is chosen lies over all.
export const narrow = () => matchMedia("(max-width: 900px)").matches;

// Something is sent that changes what the server has.
export const send = (address, method, body) => ask(address, { method, ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }) });

export async function ask(address, options) {
  const answer = await fetch(address, options).catch((error) => {
    document.dispatchEvent(new Event("unreachable"));
    throw error.name === "AbortError" ? error : new Error("The server cannot be reached. Is the network there? Try again when the page says `live`.");
  });
  if (answer.status === 401) location.reload(); // the form to log in stands there
  if (!answer.ok) throw new Error(`${answer.status} ${(await answer.text()).slice(0, 2000)}`);
  return answer;
}

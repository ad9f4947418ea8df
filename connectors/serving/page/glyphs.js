// A colour and a shape for each event: of 56 no two have both, and those of one shape differ also for the colour-blind.

import { colour, recoloured } from "./colours.js";

const COLOURS = 8;
const SHAPES = [ // in a square of 10
  "M5 .4a4.6 4.6 0 1 0 .01 0z",
  "M.9 .9h8.2v8.2H.9z",
  "M5 .2 10 9.4H0z",
  "M5-.2 10.2 5 5 10.2-.2 5z",
  "M3.3 .2h3.4v3.1h3.1v3.4H6.7v3.1H3.3V6.7H.2V3.3h3.1z",
  "M5 9.8 0 .6h10z",
  "M5 .2a4.8 4.8 0 1 0 .01 0zM5 3.1a1.9 1.9 0 1 1-.01 0z",
];
export const NO_DATA = -2; // instead of the number of an event
const CROSS = "M2.6 1.2 5 3.6 7.4 1.2 8.8 2.6 6.4 5 8.8 7.4 7.4 8.8 5 6.4 2.6 8.8 1.2 7.4 3.6 5 1.2 2.6z";
const shapeOf = (number) => number === NO_DATA ? CROSS : SHAPES[number % SHAPES.length];
const SVG = "http://www.w3.org/2000/svg";
let sprites = new Map();
recoloured(() => { sprites = new Map(); });

export const tone = (number) => `kind-${number % COLOURS}`;

// In a text, a list, a legend; its colour is the style sheet's.
export function swatch(number) {
  const made = document.createElementNS(SVG, "svg");
  made.setAttribute("viewBox", "0 0 10 10");
  made.setAttribute("class", `swatch ${tone(number)}`);
  made.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS(SVG, "path");
  shape.setAttribute("d", shapeOf(number));
  made.append(shape);
  return made;
}

// On a canvas, `size` pixels wide around a place; `tint`: in another colour than its own.
export function stamp(pen, number, x, y, size, scale, tint = colour(tone(number))) {
  const name = `${number} ${size} ${scale} ${tint}`;
  let sprite = sprites.get(name);
  if (!sprite) {
    sprite = document.createElement("canvas");
    sprite.width = sprite.height = Math.ceil((size + 2) * scale);
    const own = sprite.getContext("2d");
    own.scale((size * scale) / 10, (size * scale) / 10);
    own.translate(10 / size, 10 / size);
    own.fillStyle = tint;
    own.fill(new Path2D(shapeOf(number)));
    sprites.set(name, sprite);
  }
  pen.drawImage(sprite, x - size / 2 - 1, y - size / 2 - 1, size + 2, size + 2);
}

// Stations as the map shows them: where there are many, those that would lie over each other are one circle with a number.

const CELL = 46; // pixels
export const LONE = 11; // from this zoom on nothing is put together

// `project([lat, long])`: pixels at the map's zoom. `alone(station)`: it is never put together with others.
export class Clusters {
  constructor(project, alone) {
    Object.assign(this, { project, alone });
    this.clear(Infinity);
  }

  clear(zoom) {
    this.zoom = zoom;
    this.cells = new Map(); // the keys of stations by cell
    this.cellOf = new Map();
    this.changed = new Set(); // cells to be drawn
  }

  put(station) {
    const cell = this.cell(station), before = this.cellOf.get(station.key);
    if (before !== undefined && before !== cell) this.drop(station.key);
    if (before !== cell) {
      this.cellOf.set(station.key, cell);
      if (!this.cells.has(cell)) this.cells.set(cell, new Set());
      this.cells.get(cell).add(station.key);
    }
    this.changed.add(cell);
  }

  drop(key) {
    const cell = this.cellOf.get(key), keys = this.cells.get(cell);
    if (!keys) return;
    this.cellOf.delete(key);
    keys.delete(key);
    if (!keys.size) this.cells.delete(cell);
    this.changed.add(cell);
  }

  cell(station) {
    if (this.zoom >= LONE || this.alone(station)) return `of ${station.key}`;
    const { x, y } = this.project([station.lat, station.long]);
    return `${Math.floor(x / CELL)} ${Math.floor(y / CELL)}`;
  }

  // The cells that are to be drawn anew.
  taken() {
    const cells = this.changed;
    this.changed = new Set();
    return cells;
  }
}

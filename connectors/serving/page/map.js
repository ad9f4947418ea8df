// The map: land and borders that came with the page, stations by state, places, the areas of open alerts.

import { by, el } from "./elements.js";
import { Clusters, LONE } from "./clusters.js";
import { colour, recoloured, severity } from "./colours.js";
import { NO_DATA, stamp, tone } from "./glyphs.js";
import { GRAVE, isActive, subjects } from "./store.js";

const NAMED = 60; // stations whose names are always shown
const AT_ONCE = 400;
const MANY = 100; // more stations than these are put together where they lie over each other
const USA = "840"; // its states are drawn in finer outlines

export class StationMap {
  // `kinds`: a number for each event and fluent, which is its colour.
  constructor(store, rights, choose, kinds, filters) {
    Object.assign(this, { store, kinds, filters });
    this.choose = choose; // {station}, {alert}, {event}
    this.markers = new Map(); // of stations that stand alone
    this.circles = new Map(); // of several, by cell
    this.many = false;
    this.named = true;
    this.dots = new Map();
    this.areas = new Map();
    this.fitted = false;
    this.drawn = false; // the outlines, all of them
    this.placed = new Promise((done) => { this.settled = done; }); // it shows where the stations are
    this.due = new Set(); // stations to draw
    this.alerted = new Map();
    const L = window.L;
    this.map = L.map(by("map"), {
      zoomControl: false, attributionControl: false, worldCopyJump: true, minZoom: 2, maxZoom: 13, zoomSnap: 0.25,
      zoomAnimation: !matchMedia("(prefers-reduced-motion: reduce)").matches, fadeAnimation: false,
    }).setView([25, 0], 2);
    L.control.zoom({ position: "bottomright" }).addTo(this.map);
    by("map").append(el("p", { class: "rights" }, ...linked(["Outlines: Natural Earth, US Census Bureau", ...rights].join(". "))));
    for (const [name, level] of [["base", 200], ["areas", 350], ["places", 380], ["dots", 400]]) {
      this.map.createPane(name).style.zIndex = String(level);
    }
    this.clusters = new Clusters((place) => this.map.project(place), (station) => this.alerted.has(station.key) && this.alerted.size <= NAMED);
    this.Numbered = numbered(L);
    this.Shaped = shaped(L);
    this.renderers = Object.fromEntries(["base", "areas", "places", "dots"].map((pane) => [pane, L.canvas({ pane, padding: 0.2 })]));
    this.map.getPane("base").style.pointerEvents = "none";
    this.outlines();
    by("fit").addEventListener("click", () => this.fit());
    this.map.on("zoomend", () => { if (this.many) this.again(); else if (this.named) this.part(); this.drawAreas(); });
    filters.listen(() => this.draw({ alerts: true, events: true, stations: true, moved: store.stations.keys() }));
    this.map.on("dragstart zoomstart", (event) => { if (event.originalEvent) this.fitted = true; });
    new ResizeObserver(() => this.map.invalidateSize({ animate: false })).observe(by("map"));
    store.listen((changed) => this.draw(changed));
    recoloured(() => this.recolour());
    this.draw({ all: true, alerts: true, events: true, stations: true, moved: store.stations.keys() });
  }

  async outlines() {
    const [L, topojson] = [window.L, window.topojson];
    const load = async (name) => (await fetch(`page/vendor/${name}`)).json();
    this.base = [];
    await this.placed; // else all outlines were drawn twice, the second time at once
    const put = (features) => {
      for (const { geometry } of features.features) {
        for (const polygon of geometry?.type === "Polygon" ? [geometry.coordinates] : geometry?.coordinates ?? []) polygon.forEach(unwrapped);
      }
      const layer = L.geoJSON(features, { interactive: false, pane: "base", renderer: this.renderers.base, style: () => this.ground(), smoothFactor: 0.8 });
      this.base.push(layer.addTo(this.map));
    };
    const countries = await load("countries.json");
    const all = countries.objects.countries.geometries.filter((each) => each.id !== USA);
    for (let at = 0; at < all.length; at += 20) { // some at a time: the page stays quick
      put(topojson.feature(countries, { type: "GeometryCollection", geometries: all.slice(at, at + 20) }));
      await new Promise(requestAnimationFrame);
    }
    const states = await load("states.json");
    put(topojson.feature(states, states.objects.states));
    this.drawn = true;
  }

  ground() {
    return { color: colour("border"), weight: 0.8, fillColor: colour("land"), fillOpacity: 1, opacity: 1 };
  }

  recolour() {
    for (const layer of this.base ?? []) layer.setStyle(this.ground());
    for (const cell of this.clusters.cells.keys()) this.drawCell(cell);
    for (const dot of this.dots.values()) dot.setStyle({ color: colour("panel"), fillColor: colour("ink") });
    this.drawAreas();
  }

  draw(changed) {
    if (changed.all || (this.store.stations.size > MANY) !== this.many) this.again();
    if (changed.alerts) {
      const thinned = this.filters.thins ? [...this.about?.keys() ?? []] : [];
      this.about = this.store.bySubject();
      if (this.filters.thins) for (const key of [...thinned, ...this.about.keys()]) this.due.add(key);
      const before = this.alerted;
      this.alerted = this.store.about((alert) => this.filters.alert(alert));
      for (const key of new Set([...before.keys(), ...this.alerted.keys()])) {
        if (before.get(key)?.severity !== this.alerted.get(key)?.severity || before.get(key)?.event !== this.alerted.get(key)?.event) this.due.add(key);
      }
      if (this.many && before.size > NAMED !== this.alerted.size > NAMED) for (const key of this.alerted.keys()) this.due.add(key);
      this.drawAreas();
    }
    for (const key of changed.moved) this.due.add(key);
    if (this.filters.thins) for (const key of changed.touched ?? []) this.due.add(key);
    this.work();
    if (changed.stations && !this.fitted && this.store.stations.size) this.fit(false);
    if (changed.events) this.drawPlaces();
    if (this.store.numbers !== null) this.settled();
  }

  // So many stations at a time: the page stays quick when there are thousands.
  work() {
    let left = AT_ONCE;
    for (const key of this.due) {
      this.due.delete(key);
      const station = this.store.stations.get(key);
      if (station && this.passes(station)) this.clusters.put(station);
      else { this.clusters.drop(key); this.unmark(key); }
      if (--left === 0) { this.working ||= requestAnimationFrame(() => { this.working = 0; this.work(); }); break; }
    }
    for (const cell of this.clusters.taken()) this.drawCell(cell);
    by("legend-clusters").hidden = !this.circles.size;
    if (this.named) this.part();
  }

  // Names do not lie over each other: those of alerts stand, then the first.
  part() {
    const taken = [];
    for (const [, marker] of [...this.markers].sort(([a], [b]) => this.alerted.has(b) - this.alerted.has(a))) {
      const name = marker.getTooltip()?.getElement();
      if (!name) continue;
      const { x, y } = this.map.latLngToLayerPoint(marker.getLatLng()), end = x + 16 + 7.5 * name.textContent.length;
      name.hidden = taken.some((each) => Math.abs(each.y - y) < 14 && x < each.end && each.x < end);
      if (!name.hidden) taken.push({ x, y, end });
    }
  }

  passes(station) {
    return !this.filters.thins || this.filters.station(station, this.store.keys.get(station.key) ?? [], this.about?.get(station.key) ?? []);
  }

  empty() {
    this.due.clear();
    for (const layer of [...this.markers.values(), ...this.circles.values(), ...this.dots.values()]) layer.remove();
    for (const layers of [this.markers, this.circles, this.dots]) layers.clear();
    this.clusters.clear(this.many ? this.map.getZoom() : Infinity);
  }

  // At another zoom other stations lie over each other.
  again() {
    this.many = this.store.stations.size > MANY;
    this.empty();
    for (const key of this.store.stations.keys()) this.due.add(key);
    this.work();
    this.drawPlaces();
  }

  drawCell(cell) {
    const keys = [...this.clusters.cells.get(cell) ?? []];
    const circle = this.circles.get(cell);
    if (keys.length > 1) {
      for (const key of keys) this.unmark(key);
      this.drawCircle(cell, keys.map((key) => this.store.stations.get(key)), circle);
    } else {
      circle?.remove();
      this.circles.delete(cell);
      if (keys.length) this.mark(keys[0]);
    }
  }

  unmark(key) {
    this.markers.get(key)?.remove();
    this.markers.delete(key);
  }

  drawCircle(cell, stations, known) {
    const states = new Set(stations.map((each) => this.state(each)));
    const worst = stations.map((each) => this.alerted.get(each.key)?.severity).filter(Boolean).sort((a, b) => GRAVE.indexOf(a) - GRAVE.indexOf(b))[0];
    const middle = ["lat", "long"].map((name) => stations.reduce((sum, each) => sum + each[name], 0) / stations.length);
    const style = { radius: 9 + 3.5 * Math.log10(stations.length), number: stations.length, fillColor: worst ? severity(worst) : colour(["event", "quiet", "missing"].find((state) => states.has(state)) ?? "quiet"), color: colour("panel"), weight: 2, fillOpacity: 1 };
    if (known) {
      if (known.options.number !== style.number || known.options.fillColor !== style.fillColor || known.options.color !== style.color) known.setLatLng(middle).setStyle(style).setRadius(style.radius);
      return;
    }
    const made = new this.Numbered(middle, { ...style, pane: "dots", renderer: this.renderers.dots });
    made.on("click", () => this.see(window.L.latLngBounds([...this.clusters.cells.get(cell)].map((key) => this.store.stations.get(key)).map((each) => [each.lat, each.long])), true));
    made.bindTooltip(() => el("span", {}, el("b", {}, `${made.options.number} stations`), " a click shows them"), { className: "station-tip", direction: "right", offset: [12, 0] });
    made.addTo(this.map);
    this.circles.set(cell, made);
  }

  // What the legend has off is not there.
  state(station) {
    if (this.alerted.has(station.key)) return "alert";
    if (station.state === "missing") return "missing";
    return station.state === "event" && this.filters.hidden.has(station.event) ? "quiet" : station.state;
  }

  style(station) {
    const alert = this.alerted.get(station.key);
    const state = this.state(station);
    if (state === "missing") return { glyph: NO_DATA, tint: colour("muted"), radius: 6.5, color: colour("muted"), weight: 1.5, fillColor: colour("panel"), fillOpacity: 1, opacity: 1 };
    const holds = station.holds?.findLast((name) => !this.filters.hidden.has(name)); // a fluent, the latest of those that hold there
    const glyph = this.kinds.get(alert ? alert.event : holds ?? (state === "event" ? station.event : "")) ?? -1;
    if (!alert && glyph >= 0) { // a ring around the shape of the event or the fluent
      return { radius: 8, color: holds ? colour(tone(glyph)) : colour("event"), weight: 2, fillColor: colour("panel"), fillOpacity: 1, opacity: 1, glyph, tint: colour(tone(glyph)) };
    }
    return {
      glyph,
      tint: colour("panel"),
      radius: { alert: 9, event: 6.5, quiet: 5, silent: 4.5 }[state],
      color: state === "silent" ? colour("muted") : colour("panel"),
      weight: state === "silent" ? 1.5 : alert ? 2 : 1.25,
      fillColor: alert ? severity(alert.severity) : colour(state === "silent" ? "panel" : state),
      fillOpacity: 1,
      opacity: 1,
    };
  }

  mark(key) {
    const station = this.store.stations.get(key);
    const style = this.style(station);
    const marker = this.markers.get(key);
    if (marker) {
      const at = marker.getLatLng();
      if (at.lat !== station.lat || at.lng !== station.long) marker.setLatLng([station.lat, station.long]);
      if (marker.options.radius === style.radius && marker.options.fillColor === style.fillColor && marker.options.color === style.color && marker.options.glyph === style.glyph) return;
      marker.setStyle(style);
      marker.setRadius(style.radius);
      if (style.fillColor !== colour("quiet")) marker.bringToFront();
      return;
    }
    const made = new this.Shaped([station.lat, station.long], { ...style, pane: "dots", renderer: this.renderers.dots });
    made.on("click", () => this.choose({ station: key }));
    made.addTo(this.map);
    this.markers.set(key, made);
    if (this.store.stations.size <= NAMED) this.name(made, station, true);
    else made.once("mouseover", () => { this.name(made, this.store.stations.get(key), false); made.openTooltip(); });
    if (this.store.stations.size > NAMED && this.named) {
      this.named = false;
      for (const [other, each] of this.markers) if (each !== made) this.name(each, this.store.stations.get(other), false);
    }
  }

  name(marker, station, permanent) {
    marker.unbindTooltip();
    const text = el("span", {}, el("b", {}, station.key.length > 24 ? station.name : station.key));
    if (!permanent && station.name !== station.key) text.append(` ${station.name}`);
    marker.bindTooltip(text, { permanent, direction: "right", offset: [9, 0], className: permanent ? "station-name" : "station-tip" });
  }

  drawPlaces() {
    const L = window.L;
    by("legend-places").hidden = !this.store.places.size;
    for (const [iri, dot] of this.dots) {
      if (this.store.places.get(iri)?.event === dot.place.event && this.filters.event(dot.place.event)) continue;
      dot.remove();
      this.dots.delete(iri);
    }
    for (const [iri, place] of this.store.places) {
      if (this.dots.has(iri) || !this.filters.event(place.event)) continue;
      const dot = L.circleMarker([place.lat, place.long], {
        pane: "places", renderer: this.renderers.places, radius: 2.6, weight: 0.6, color: colour("panel"), opacity: 0.8,
        fillColor: colour("ink"), fillOpacity: 0.5,
      });
      dot.place = place;
      dot.bindTooltip(el("span", {}, el("b", {}, place.name), ` ${place.event.type}`), { className: "station-tip", direction: "right", offset: [6, 0] });
      dot.on("click", () => this.choose({ event: place.event.id }));
      dot.addTo(this.map);
      this.dots.set(iri, dot);
    }
  }

  drawAreas() {
    const wanted = new Map(), crowded = this.alerted.size > NAMED;
    for (const alert of this.store.alerts.values()) {
      if (!(isActive(alert) && this.filters.alert(alert)) && alert.alert !== this.chosen) continue;
      wanted.set(alert.alert, [alert, [severity(alert.severity), isActive(alert), alert.alert === this.chosen, alert.title, JSON.stringify(alert.place), this.tiny(alert), crowded].join()]);
    }
    for (const [id, layers] of this.areas) { // those that stay as they are are not drawn anew
      if (wanted.get(id)?.[1] === layers.looks) { wanted.delete(id); continue; }
      for (const layer of layers) layer.remove();
      this.areas.delete(id);
    }
    for (const [alert, looks] of wanted.values()) this.drawArea(alert, looks);
    by("legend-areas").hidden = ![...this.areas.values()].some((layers) => layers.length);
  }

  // A circle that would be smaller than a station's mark: that is enough.
  tiny({ place }) {
    return Boolean(place?.circle) && place.circle[2] * 2 ** (this.map.getZoom() + 8) / (40075016 * Math.cos(place.circle[0] * Math.PI / 180)) < 9;
  }

  drawArea(alert, looks) {
    const L = window.L;
    const tone = severity(alert.severity);
    const past = !isActive(alert);
    const style = {
      pane: "areas", renderer: this.renderers.areas, color: tone, weight: alert.alert === this.chosen ? 3 : 1.75,
      stroke: this.alerted.size <= NAMED || alert.alert === this.chosen, // many outlines would be a tangle
      fillColor: tone, fillOpacity: past ? 0.06 : 0.16, dashArray: past ? "6 5" : null,
    };
    const made = [];
    const { circle, polygons } = alert.place ?? {};
    if (circle && !this.tiny(alert)) made.push(L.circle([circle[0], circle[1]], { ...style, radius: circle[2] }));
    else if (circle && !subjects(alert).some((key) => this.store.stations.has(key))) made.push(L.circleMarker([circle[0], circle[1]], { ...style, pane: "dots", renderer: this.renderers.dots, radius: 7, color: colour("panel"), fillOpacity: past ? 0.4 : 1, dashArray: null }));
    for (const polygon of polygons ?? []) made.push(L.polygon(polygon, style));
    for (const layer of made) {
      layer.bindTooltip(el("span", {}, el("b", {}, alert.severity), ` ${alert.title}`), { sticky: true, className: "station-tip" });
      layer.on("click", () => this.choose({ alert: alert.alert }));
      layer.addTo(this.map);
    }
    made.looks = looks;
    this.areas.set(alert.alert, made);
  }

  show(alert) {
    this.chosen = alert?.alert;
    this.drawAreas();
    const layers = alert ? this.areas.get(alert.alert) ?? [] : [];
    const bounds = window.L.latLngBounds([]);
    for (const layer of layers) bounds.extend(layer.getBounds?.() ?? layer.getLatLng());
    if (bounds.isValid()) this.see(bounds);
    else if (alert) for (const key of subjects(alert)) this.go(key);
  }

  see(bounds, closer = false) {
    if (closer) this.fitted = true;
    if (closer) this.map.fitBounds(bounds.pad(0.2), { maxZoom: Math.max(LONE, this.map.getZoom()) });
    else if (!this.map.getBounds().contains(bounds)) this.map.fitBounds(bounds.pad(0.4), { maxZoom: 9 });
  }

  go(key) {
    const station = this.store.stations.get(key);
    if (!station) return;
    this.fitted = true;
    this.map.setView([station.lat, station.long], Math.max(this.map.getZoom(), 8));
    this.markers.get(key)?.openTooltip();
  }

  fit(animate = true) {
    const stations = [...this.store.stations.values()].filter((each) => this.passes(each));
    if (!stations.length) return;
    const bounds = window.L.latLngBounds(stations.map((each) => [each.lat, each.long]));
    for (const layers of this.areas.values()) for (const layer of layers) bounds.extend(layer.getBounds?.() ?? layer.getLatLng());
    this.map.fitBounds(bounds.pad(0.12), { maxZoom: 8.5, animate });
  }
}

// A circle with a number in it.
const numbered = (L) => L.CircleMarker.extend({
  _updatePath() {
    L.CircleMarker.prototype._updatePath.call(this);
    if (!this._renderer._drawing || this._empty()) return;
    const pen = this._renderer._ctx;
    pen.fillStyle = colour(this.options.fillColor === colour("event") ? "on-event" : "panel");
    pen.font = "650 11px Inter, system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(String(this.options.number), this._point.x, this._point.y + 0.5);
  },
});

// A circle with the shape of an event in it.
const shaped = (L) => L.CircleMarker.extend({
  _updatePath() {
    L.CircleMarker.prototype._updatePath.call(this);
    if (!this._renderer._drawing || this._empty() || this.options.glyph === -1) return;
    stamp(this._renderer._ctx, this.options.glyph, this._point.x, this._point.y, 9, 2, this.options.tint);
  },
});

// A ring over the 180th meridian goes on beyond it, and not once around the world; around a pole it stays as it is.
function unwrapped(ring) {
  const jumps = ring.filter((place, at) => at > 0 && Math.abs(place[0] - ring[at - 1][0]) > 180).length;
  if (!jumps || jumps % 2) return;
  for (let at = 1; at < ring.length; at++) ring[at] = [ring[at][0] - 360 * Math.round((ring[at][0] - ring[at - 1][0]) / 360), ring[at][1]];
}

// `GeoNames (https://www.geonames.org/)` as a link.
function linked(text) {
  const made = [];
  let done = 0;
  for (const match of text.matchAll(/(\S+) \((https?:\/\/[^\s)]+)\)/g)) {
    made.push(text.slice(done, match.index), el("a", { href: match[2], target: "_blank", rel: "noopener noreferrer" }, match[1]));
    done = match.index + match[0].length;
  }
  return [...made, text.slice(done)];
}

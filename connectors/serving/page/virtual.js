// A list of thousands of entries of one height: only those in view stand on the page.

const ROOM = 6; // entries above and below what is in view

export class VirtualList {
  // `make(entry)`: its element. `id(entry)`: another one where the element would be another. `key(entry)`: the same while it is the same entry.
  constructor(list, height, key, id, make) {
    Object.assign(this, { list, height, key, id, make, entries: [], items: new Map(), first: null });
    this.box = list.parentElement;
    list.classList.add("virtual");
    this.box.addEventListener("scroll", () => this.later(), { passive: true });
    new ResizeObserver(() => this.later()).observe(this.box);
    list.addEventListener("keydown", (event) => this.pressed(event));
  }

  // The reader's place stays, unless it is the beginning.
  put(entries) {
    this.list.style.height = `${entries.length * this.height}px`;
    if (this.first !== null && this.box.scrollTop > this.list.offsetTop + this.height) {
      const before = Math.floor((this.box.scrollTop - this.list.offsetTop) / this.height);
      const name = this.entries[before] && this.key(this.entries[before]);
      const now = entries.findIndex((entry) => this.key(entry) === name);
      if (now > before) this.box.scrollTop += (now - before) * this.height;
    }
    this.entries = entries;
    this.draw();
  }

  again() { for (const item of this.items.values()) item.remove(); this.items.clear(); this.draw(); }

  later() { this.wanted ||= requestAnimationFrame(() => { this.wanted = 0; this.draw(); }); }

  draw() {
    const top = this.box.scrollTop - this.list.offsetTop;
    const from = Math.max(0, Math.floor(top / this.height) - ROOM);
    const to = Math.min(this.entries.length, Math.ceil((top + this.box.clientHeight) / this.height) + ROOM);
    this.first = from;
    const button = this.list.contains(document.activeElement) ? document.activeElement : null;
    const focused = button?.closest("li");
    const held = focused ? this.entries.findIndex((entry) => this.key(entry) === focused.dataset.key) : -1; // the focus stays on the page
    const wanted = new Set(this.entries.slice(from, to).map(this.id));
    if (held >= 0) wanted.add(this.id(this.entries[held]));
    for (const [name, item] of this.items) if (!wanted.has(name)) { item.remove(); this.items.delete(name); }
    let before = null;
    const stand = (at) => {
      const entry = this.entries[at], name = this.id(entry);
      let item = this.items.get(name);
      if (!item) { item = this.make(entry); item.dataset.key = this.key(entry); this.items.set(name, item); }
      const place = `${at * this.height}px`;
      if (item.style.top !== place) item.style.top = place;
      item.style.height = `${this.height}px`;
      item.ariaSetSize = String(this.entries.length);
      item.ariaPosInSet = String(at + 1);
      item.dataset.at = at;
      if (item.parentElement !== this.list || item.previousElementSibling !== before) before ? before.after(item) : this.list.prepend(item);
      before = item;
    };
    if (held >= 0 && held < from) stand(held);
    for (let at = from; at < to; at++) stand(at);
    if (held >= to) stand(held);
    if (held >= 0 && document.activeElement !== button) this.focus(held); // it was moved, or is another element
  }

  focus(at) { this.items.get(this.id(this.entries[at]))?.querySelector("button")?.focus({ preventScroll: true }); }

  pressed(event) {
    const here = Number(event.target.closest("li")?.dataset.at ?? -1);
    const last = this.entries.length - 1;
    const next = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: last }[event.key];
    if (here < 0 || next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const at = Math.min(Math.max(next, 0), last);
    const top = at * this.height + this.list.offsetTop;
    if (top < this.box.scrollTop) this.box.scrollTop = top - this.list.offsetTop;
    if (top + this.height > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + this.height - this.box.clientHeight;
    this.draw();
    this.focus(at);
  }
}

// The address says what is shown, behind its `#`, as a form's fields: a reload and a shared link show the same.

export class Address {
  constructor() {
    this.listeners = [];
    this.fields = read();
    for (const event of ["popstate", "hashchange"]) addEventListener(event, () => this.moved());
  }

  get(name) { return this.fields.get(name); }

  // Fields that change, null: no more. `step`: Back of the browser leads to what was before.
  set(changes, step = false) {
    const fields = new URLSearchParams(this.fields);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined || value === "") fields.delete(name);
      else fields.set(name, value);
    }
    fields.sort();
    if (String(fields) === String(this.fields)) return;
    this.fields = fields;
    const text = String(fields);
    history[step ? "pushState" : "replaceState"](null, "", text ? `#${text}` : location.pathname + location.search);
  }

  // `listener()`: the address was changed by the reader.
  listen(listener) { this.listeners.push(listener); }

  moved() {
    const fields = read();
    if (String(fields) === String(this.fields)) return;
    this.fields = fields;
    for (const listener of this.listeners) listener();
  }
}

function read() {
  const fields = new URLSearchParams(location.hash.slice(1));
  fields.sort();
  return fields;
}

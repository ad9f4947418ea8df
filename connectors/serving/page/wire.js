// The connection: all as it is now, then what changes. A break is made good by itself, from where it was.

import { ask } from "./elements.js";

export class Wire {
  constructor(store, alerts, told) {
    this.store = store;
    this.alerts = alerts;
    this.told = told; // "live", "broken", "waiting"
    this.sources = [];
  }

  async begin() {
    for (const source of this.sources) source.close();
    this.sources = [];
    this.told("waiting");
    let state;
    try {
      state = await (await ask("/api/state")).json();
    } catch {
      this.told("broken");
      setTimeout(() => this.begin(), 2000);
      return;
    }
    this.store.state(state);
    const news = this.open(`/api/stream?after=${encodeURIComponent(state.at)}`);
    news.addEventListener("news", (message) => this.store.news(JSON.parse(message.data)));
    news.addEventListener("reset", () => this.begin());
    news.addEventListener("open", () => this.told("live"));
    news.addEventListener("error", () => this.broken(news));
    if (this.alerts) {
      const feed = this.open(`/feeds/events?after=${state.alerts_at}`);
      for (const kind of ["firing", "updated", "resolved"]) {
        feed.addEventListener(kind, (message) => this.store.alert(JSON.parse(message.data)));
      }
    }
  }

  open(address) {
    const source = new EventSource(address);
    this.sources.push(source);
    return source;
  }

  // The browser tries again by itself, unless it was answered with an error.
  broken(source) {
    this.told("broken");
    if (source.readyState === EventSource.CLOSED && this.sources.includes(source)) setTimeout(() => this.begin(), 2000);
  }
}

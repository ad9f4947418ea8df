// The connection: all as it is now, then what changes. A break is made good by itself, from where it was.
// A page that nobody sees gives its connections back: a browser has few of them for all its pages of one server.

import { ask } from "./elements.js";

export const AGAIN = 2000; // milliseconds
const UNSEEN = 5000;
const SILENT = 40_000; // the server says something every 15 s

export class Wire {
  // `changes`: the words for changes of alerts, none: there are no alerts.
  constructor(store, changes, report) {
    this.store = store;
    this.changes = changes;
    this.report = report; // "live", "broken", "waiting", "asleep", and why
    this.sources = [];
    this.at = null; // how far it has come: of the news, of the alerts
    this.timer = 0;
    document.addEventListener("visibilitychange", () => this.seen(!document.hidden));
    document.addEventListener("unreachable", () => this.lose());
    addEventListener("offline", () => this.lose());
    addEventListener("online", () => { if (this.timer) this.begin(); });
  }

  // The page shows another time: nothing comes.
  hold() {
    this.held = true;
    this.close();
    this.report("past");
  }

  async go() {
    if (!this.held) return;
    this.held = false;
    await this.begin();
  }

  async begin() {
    this.close();
    if (this.held) return;
    if (!this.lost) this.report("waiting");
    let state;
    try {
      state = await (await ask("api/state")).json();
    } catch {
      return this.lose();
    }
    this.lost = false;
    if (this.held) return;
    this.version ??= state.version;
    if (state.version !== this.version) return location.reload(); // another program has taken over: its rules are others
    this.store.state(state);
    this.at = { news: state.at, alerts: state.alerts_at };
    this.follow();
  }

  // What comes behind where it is.
  follow() {
    this.close();
    if (document.hidden) return this.sleep();
    const news = this.open(`api/stream?after=${encodeURIComponent(this.at.news)}`);
    news.addEventListener("news", (message) => { this.beat(); this.at.news = message.lastEventId; this.store.news(JSON.parse(message.data)); });
    news.addEventListener("reset", () => this.begin());
    news.addEventListener("open", () => { this.beat(); this.report("live"); });
    if (!this.changes.length) return;
    const feed = this.open(`feeds/events?after=${this.at.alerts}`);
    for (const kind of this.changes) {
      feed.addEventListener(kind, (message) => { this.at.alerts = message.lastEventId; this.store.alert(JSON.parse(message.data)); });
    }
  }

  // Without a word for long the connection is dead, though the browser may not know it yet.
  beat() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.lose(), SILENT);
  }

  // The server cannot be reached: it is tried again.
  lose() {
    if (this.held || this.asleep) return;
    this.lost = true;
    this.close();
    this.report("broken");
    this.later();
  }

  open(address) {
    const source = new EventSource(address);
    source.addEventListener("error", () => this.broken(source, address));
    this.sources.push(source);
    return source;
  }

  // The browser tries again by itself, unless it was answered with an error.
  async broken(source, address) {
    this.report("broken");
    if (source.readyState !== EventSource.CLOSED || !this.sources.includes(source)) return;
    this.close();
    this.later(await refusal(address));
  }

  later(why = "") {
    if (why) this.report("broken", why);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.begin(), why ? 5 * AGAIN : AGAIN);
  }

  seen(is) {
    clearTimeout(this.unseen);
    if (!is) this.unseen = setTimeout(() => this.sleep(), UNSEEN);
    else if (this.asleep && !this.held) { this.asleep = false; this.follow(); }
  }

  sleep() {
    if (!this.at || this.held || this.asleep || this.timer) return;
    this.asleep = true;
    this.close();
    this.report("asleep");
  }

  close() {
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    this.timer = 0;
    for (const source of this.sources) source.close();
    this.sources = [];
  }
}

// What the server says where it refuses a stream; a stream does not tell itself. Nothing where it cannot be reached.
async function refusal(address) {
  const stop = new AbortController();
  try {
    const answer = await fetch(address, { signal: stop.signal });
    if (answer.status === 429) return (await answer.text()).trim();
    stop.abort();
  } catch { /* it cannot be reached */ }
  return "";
}

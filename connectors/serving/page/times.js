// Times of events: microseconds since 1970, shown in the browser's zone or in UTC.

const two = (number) => String(number).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const OWN = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
const listeners = [];
let utc = false;

export const zone = () => utc ? "UTC" : OWN;

// `listener()`: times are written in another zone.
export const written = (listener) => listeners.push(listener);

export function inUTC(wanted) {
  if (utc === wanted) return;
  utc = wanted;
  for (const listener of listeners) listener();
}

// Seconds that the zone is ahead of UTC then.
const ahead = (ticks) => utc ? 0 : -60 * new Date(ticks / 1000).getTimezoneOffset();

// A date whose UTC fields are those of the zone.
const fields = (ticks) => new Date(ticks / 1000 + 1000 * ahead(ticks));

export function moment(ticks) {
  const at = fields(ticks);
  if (Number.isNaN(at.getTime())) return "–";
  const second = at.getUTCSeconds() ? `:${two(at.getUTCSeconds())}` : "";
  return `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())} ${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${second}`;
}

// A time without what anybody knows: the day where it is today's, the year where it is this one, and seconds.
export function brief(ticks) {
  const [text, today] = [moment(ticks), moment(Date.now() * 1000)];
  return text.slice(text.startsWith(today.slice(0, 10)) ? 11 : text.startsWith(today.slice(0, 5)) ? 5 : 0, 16);
}

// The time that a reader writes, as `moment` does or in ISO 8601 with its offset; NaN: it is none.
export function read(text) {
  const iso = text.trim().replace(" ", "T");
  if (/(Z|[+-]\d\d:?\d\d)$/i.test(iso)) return Date.parse(iso) * 1000;
  return Date.parse(`${/^\d+-\d\d-\d\d$/.test(iso) ? `${iso}T00:00` : iso}${utc ? "Z" : ""}`) * 1000;
}

// Of what a fluent holds each may be missing: it began before all time, or nothing has ended it.
export function interval(start, end) {
  if (start === null || Number.isNaN(start)) return end === null || Number.isNaN(end) ? "at all times" : `until ${moment(end)}`;
  if (end === null || Number.isNaN(end)) return `since ${moment(start)}`;
  if (start === end) return moment(end);
  const [a, b] = [moment(start), moment(end)];
  const same = a.slice(0, 10) === b.slice(0, 10) ? 11 : a.slice(0, 5) === b.slice(0, 5) ? 5 : 0;
  return `${a} – ${b.slice(same)}`;
}

// When an event was; what still holds has no end.
export const spanOf = ({ start, end, open, always }) => interval(always ? null : start, open ? null : end);

export function lasting(ticks) {
  const s = ticks / 1e6;
  if (s < 90) return `${Number(s.toFixed(s < 10 ? 1 : 0))} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Number((s / 3600).toFixed(1))} h`;
  return `${Number((s / 86400).toFixed(1))} d`;
}

// Marks of an axis: round times between two, some `room` pixels apart.
const STEPS = [1, 5, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 7776000, 31536000];
export function marks(from, to, width, room = 90) {
  const wanted = ((to - from) / 1e6) * (room / Math.max(1, width));
  const step = STEPS.find((each) => each >= wanted) ?? STEPS.at(-1);
  const found = [];
  const out = (local) => local * 1e6 - ahead((local - ahead(from)) * 1e6) * 1e6;
  if (step < 2592000) {
    for (let at = Math.ceil((from / 1e6 + ahead(from)) / step) * step; out(at) <= to && found.length < 100; at += step) found.push(out(at));
  } else {
    const months = Math.max(1, Math.round(step / 2592000));
    const first = fields(from);
    for (let month = Math.ceil(first.getUTCMonth() / months) * months; found.length < 100; month += months) {
      const at = out(Date.UTC(first.getUTCFullYear(), month, 1) / 1000);
      if (at > to) break;
      if (at >= from) found.push(at);
    }
  }
  return found.map((at) => [at, label(at, step)]);
}

function label(ticks, step) {
  const at = fields(ticks);
  const day = `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
  if (step >= 2592000) return `${MONTHS[at.getUTCMonth()]} ${at.getUTCFullYear()}`;
  if (step >= 86400 || (at.getUTCHours() === 0 && at.getUTCMinutes() === 0 && at.getUTCSeconds() === 0)) return day;
  return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${step < 60 ? `:${two(at.getUTCSeconds())}` : ""}`;
}

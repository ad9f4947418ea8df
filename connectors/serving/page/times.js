// Times of events: microseconds since 1970, shown in UTC.

const two = (number) => String(number).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function moment(ticks) {
  const at = new Date(ticks / 1000);
  if (Number.isNaN(at.getTime())) return "–";
  const second = at.getUTCSeconds() ? `:${two(at.getUTCSeconds())}` : "";
  return `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())} ${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${second}`;
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

export function lasting(ticks) {
  const s = ticks / 1e6;
  if (s < 120) return `${Number(s.toFixed(s < 10 ? 1 : 0))} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Number((s / 3600).toFixed(1))} h`;
  return `${Number((s / 86400).toFixed(1))} d`;
}

// Marks of an axis: round times between two, some `room` pixels apart.
const STEPS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 7776000, 31536000];
export function marks(from, to, width, room = 110) {
  const wanted = ((to - from) / 1e6) * (room / Math.max(1, width));
  const step = STEPS.find((each) => each >= wanted) ?? STEPS.at(-1);
  const found = [];
  if (step < 2592000) {
    for (let at = Math.ceil(from / 1e6 / step) * step; at * 1e6 <= to && found.length < 100; at += step) found.push(at * 1e6);
  } else {
    const months = Math.max(1, Math.round(step / 2592000));
    const first = new Date(from / 1000);
    for (let month = Math.ceil(first.getUTCMonth() / months) * months; found.length < 100; month += months) {
      const at = Date.UTC(first.getUTCFullYear(), month, 1) * 1000;
      if (at > to) break;
      if (at >= from) found.push(at);
    }
  }
  return found.map((at) => [at, label(at, step)]);
}

function label(ticks, step) {
  const at = new Date(ticks / 1000);
  const day = `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
  if (step >= 2592000) return `${MONTHS[at.getUTCMonth()]} ${at.getUTCFullYear()}`;
  if (step >= 86400 || (at.getUTCHours() === 0 && at.getUTCMinutes() === 0 && at.getUTCSeconds() === 0)) return day;
  return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${step < 60 ? `:${two(at.getUTCSeconds())}` : ""}`;
}

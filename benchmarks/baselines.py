"""The workloads as hand-written Python: loops over tuples and dicts of deques, one loop for each workload.

Input and output have the contents of the engine's tables, as tuples. Events of each type are sorted by time: (type,
time, *attributes). Results are (type, start, end, *arguments). The loops follow the semantics of the language: events
at the same time are not ordered, and equal records are separate events. An operator with two operands derives a set.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from itertools import chain
from operator import itemgetter
from typing import Any

from benchmarks.streams import HOUR, Row, Rows

Baseline = Callable[[Rows], list[Row]]

Waiting = defaultdict[Any, deque[tuple[int, int]]]
"""Times and values that may still find a partner, by id, oldest first."""


def arrivals(*sides: list[Row]) -> list[Row]:
    """Return all events in order of time. At equal times, an earlier argument comes first.

    A loop passes the right side of a SEQ before the left. So a left event never precedes a right one at the same time.
    """
    return sorted(chain(*sides), key=itemgetter(1))


def distinct(*sides: list[Row]) -> list[Row]:
    """Return the events that `arrivals` returns, without duplicates, which would derive the same results."""
    out: list[Row] = []
    now, last, instant = None, None, None
    for event in arrivals(*sides):
        if event[1] != now:
            now, last, instant = event[1], event, None
        elif event == last:
            continue
        elif instant is None:
            instant = {last, event}
        elif event in instant:
            continue
        else:
            instant.add(event)
        out.append(event)
    return out


def seq_unrestricted(events: Rows, within: int) -> list[Row]:
    """Return every a before a b with the same id, at most `within` apart."""
    lefts: Waiting = defaultdict(deque)
    out: list[Row] = []
    for name, time, key, value in distinct(events["b"], events["a"]):
        waiting = lefts[key]
        while waiting and waiting[0][0] < time - within:
            waiting.popleft()
        if name == "a":
            waiting.append((time, value))
        else:
            for start, x in waiting:
                out.append(("ab", start, time, key, x, value))
    return out


def seq_recent(events: Rows, within: int) -> list[Row]:
    """Return the latest a before each b."""
    latest: dict[Any, tuple[int, int]] = {}
    out: list[Row] = []
    for name, time, key, value in distinct(events["b"], events["a"]):
        if name == "a":
            latest[key] = (time, value)
        elif key in latest:
            start, x = latest[key]
            if time - start <= within:
                out.append(("ab", start, time, key, x, value))
    return out


def seq_chronological(events: Rows, within: int) -> list[Row]:
    """Return for each b the oldest earlier a that no earlier b has consumed."""
    lefts: Waiting = defaultdict(deque)
    out: list[Row] = []
    for name, time, key, value in arrivals(events["b"], events["a"]):
        waiting = lefts[key]
        if name == "a":
            waiting.append((time, value))
            continue
        while waiting and waiting[0][0] < time - within:
            waiting.popleft()
        if waiting:
            start, x = waiting.popleft()
            out.append(("ab", start, time, key, x, value))
    return list(dict.fromkeys(out))


def seq_three(events: Rows, within: int) -> list[Row]:
    """Return every a before a b before a c, all with the same id."""
    firsts: Waiting = defaultdict(deque)
    seconds: Waiting = defaultdict(deque)
    out: list[Row] = []
    for name, time, key, value in distinct(events["c"], events["b"], events["a"]):
        if name == "a":
            firsts[key].append((time, value))
        elif name == "b":
            seconds[key].append((time, value))
        else:
            oldest = time - within
            waiting, middles = firsts[key], seconds[key]
            while waiting and waiting[0][0] < oldest:
                waiting.popleft()
            while middles and middles[0][0] < oldest:
                middles.popleft()
            last = {y: middle for middle, y in middles}  # the last b of a value implies the earlier ones
            for y, middle in last.items():
                for start, x in waiting:
                    if start >= middle:
                        break
                    out.append(("abc", start, time, key, x, y, value))
    return out


def conjunction(events: Rows, within: int) -> list[Row]:
    """Return every a and b with the same id, in either order, at most `within` apart.

    A result would appear twice if two equal a and two equal b had the same times. This does not happen in the
    workloads, and is not checked.
    """
    lefts: Waiting = defaultdict(deque)
    rights: Waiting = defaultdict(deque)
    out: list[Row] = []
    for name, time, key, value in distinct(events["a"], events["b"]):
        oldest = time - within
        if name == "a":
            partners = rights[key]
            while partners and partners[0][0] < oldest:
                partners.popleft()
            for start, y in partners:
                out.append(("ab", start, time, key, value, y))
            lefts[key].append((time, value))
        else:
            partners = lefts[key]
            while partners and partners[0][0] < oldest:
                partners.popleft()
            for start, x in partners:
                out.append(("ab", start, time, key, x, value))
            rights[key].append((time, value))
    return out


def absence(events: Rows, within: int) -> list[Row]:
    """Return every a before a b with the same id, unless a c with this id is between them. A c removes waiting
    events."""
    lefts: Waiting = defaultdict(deque)
    out: list[Row] = []
    for name, time, key, value in distinct(events["b"], events["c"], events["a"]):
        waiting = lefts[key]
        if name == "a":
            waiting.append((time, value))
        elif name == "c":
            waiting.clear()
        else:
            while waiting and waiting[0][0] < time - within:
                waiting.popleft()
            for start, x in waiting:
                out.append(("ab", start, time, key, x, value))
    return out


def timer(events: Rows, within: int) -> list[Row]:
    """Return every a that no b of the same id follows within `within` microseconds. The result ends with this time."""
    due: deque[tuple[int, Any, int]] = deque()
    stopped: dict[Any, int] = {}  # the time of the last b of an id
    out: list[Row] = []
    for name, time, key, value in distinct(events["a"], events["b"]):
        while due and due[0][0] + within <= time:
            start, open_key, x = due.popleft()
            if stopped.get(open_key, -1) <= start:
                out.append(("quiet", start, start + within, open_key, x))
        if name == "a":
            due.append((time, key, value))
        else:
            stopped[key] = time
    for start, open_key, x in due:
        if stopped.get(open_key, -1) <= start:
            out.append(("quiet", start, start + within, open_key, x))
    return out


def sum_of_events(events: Rows, number: int) -> list[Row]:
    """Return the sum of the last `number` values of an id, at each instant with events of this id."""
    windows: Waiting = defaultdict(deque)
    totals: defaultdict[Any, int] = defaultdict(int)
    places: dict[Any, int] = {}
    out: list[Row] = []
    for _, time, key, value in arrivals(events["a"]):
        window = windows[key]
        total = totals[key] + value
        again = bool(window) and window[-1][0] == time
        window.append((time, value))
        if len(window) > number:
            total -= window.popleft()[1]
        totals[key] = total
        result = ("total", window[0][0], time, key, total)
        if again:
            out[places[key]] = result
        else:
            places[key] = len(out)
            out.append(result)
    return out


def sum_of_time(events: Rows, length: int) -> list[Row]:
    """Return the sum of an id's values in the last `length` microseconds, at each instant with events of this id."""
    windows: Waiting = defaultdict(deque)
    totals: defaultdict[Any, int] = defaultdict(int)
    places: dict[Any, int] = {}
    out: list[Row] = []
    for _, time, key, value in arrivals(events["a"]):
        window = windows[key]
        total = totals[key] + value
        again = bool(window) and window[-1][0] == time
        window.append((time, value))
        while window[0][0] <= time - length:
            total -= window.popleft()[1]
        totals[key] = total
        result = ("total", window[0][0], time, key, total)
        if again:
            out[places[key]] = result
        else:
            places[key] = len(out)
            out.append(result)
    return out


def blizzard(events: Rows) -> list[Row]:
    """Return chains of stormy readings. Each stormy reading begins a chain, and also extends the longest chain of its
    station that began at most six hours before."""
    chains: dict[Any, tuple[int, int, int]] = {}  # station -> last stormy reading, start of its chain, length
    never = (-HOUR * 10**6, -HOUR * 10**6, 0)
    out: list[Row] = []
    for _, time, station, wind, visibility, temperature in sorted(events["reading"], key=itemgetter(1)):
        if not (wind >= 15 and visibility < 2 and temperature <= 34):
            continue
        last, start, count = chains.get(station, never)
        if time == last:
            continue
        out.append(("settling", time, time, station, 1))
        if time - start > 6 * HOUR:
            start, count = last, 1
        if time - start > 6 * HOUR:
            chains[station] = (time, time, 1)
            continue
        count += 1
        chains[station] = (time, start, count)
        out.append(("settling", start, time, station, count))
        if count >= 4 and time - start >= 3 * HOUR:
            out.append(("warning", start, time, station, count))
    return out


def closure(events: Rows, reached: dict[int, list[int]]) -> list[Row]:
    """Return for each event every value that its id leads to, according to `reached`."""
    out: list[Row] = []
    for _, time, key, value in arrivals(events["a"]):
        for goal in reached.get(key, ()):
            out.append(("alarm", time, time, key, value, goal))
    return out

"""A program served with `--revise`, for tests: late, corrected and withdrawn records, and clients that follow the
events."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl
import pyoxigraph as ox

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.rdf.triples import reading_ids
from cep.connectors.rdf.vocabulary import AS, PROV, TREE
from cep.connectors.rdf.withdrawals import CREATE, DELETE
from cep.core.identity import ID, identified
from cep.engine import Engine
from cep.events import Event
from tests.reference_alerts import Change, Reading, Simple, Statement, intervals, of_event, of_fluent, patterns, there
from tests.serving import EIGHT
from tests.test_alerts_revised import lifecycle
from tests.test_revision import Known

SECOND = 1_000_000
PROGRAM = """
event reading(fridge: string, n: int, temp: float) TIME time KEY fridge, n.
policy recent.
warm(F, T) <- reading(F, _, T) WHERE T > 6.
rising(F, A, B) <- reading(F, _, A) SEQ reading(F, _, B) WHERE B > A WITHIN 9 s.
silent(F) <- reading(F, _, _) UNLESS reading(F, _, _) WITHIN 4 s.
fluent hot(fridge: string).
initiate hot(F) <- warm(F, _).
terminate hot(F) <- reading(F, _, T) WHERE T < 3.
ALERT warm ON warm(f: F, t: T) SEVERITY "Severe" TITLE "{F} at {T}" FOR 6 s KEYED BY F.
ALERT rise ON rising(f: F, b: B) WHERE B > 4 TITLE "some rise" FOR 3 s.
ALERT heat ON hot(F) TITLE "{F} is hot" FOR 2 s KEYED BY F.
fluent state(f: string) = w: string.
initiate state(F) = "fine" <- reading(F, _, T) WHERE T > 2, T <= 6.
initiate state(F) = "warm" <- warm(F, _).
ALERT state ON state(F) = W SEVERITY "Minor" TITLE "{F} is {W}" FOR 4 s KEYED BY F.
"""
RULES = """
event reading(fridge: string, n: int, temp: float) TIME time.
policy recent.
warm(F, T) <- reading(F, _, T) WHERE T > 6.
rising(F, A, B) <- reading(F, _, A) SEQ reading(F, _, B) WHERE B > A WITHIN 9 s.
"""
STATEMENTS = [
    Statement("warm", "warm", ("f", "t"), lambda args: True, (0,), 6, "Severe", "{0} at {1}", ""),
    Statement("rise", "rising", ("f", "a", "b"), lambda args: args[2] > 4, (), 3, "Unknown", "some rise", ""),
]
ON_FLUENTS = [
    Statement("heat", "hot", ("fridge",), lambda args: True, (0,), 2, "Unknown", "{0} is hot", ""),
    Statement("state", "state", ("f", "w"), lambda args: True, (0,), 4, "Minor", "{0} is {1}", ""),
]
Record = tuple[int, str, int, float, int]
"""A second after eight, fridge, number, degrees; 1: it comes, -1: it withdraws."""


def records(rng: random.Random, number: int, late: int) -> list[Record]:
    """In the order of arrival: up to `late` seconds late or more; some are corrected, withdrawn, there twice, or
    withdraw what is not there."""
    found: list[tuple[float, Record]] = []
    for at in range(number):
        one: Record = (at, rng.choice("abc"), at % 5, float(rng.randrange(10)), 1)
        came = at + (rng.randrange(late + 3) if rng.random() < 0.3 else 0)
        found.append((came, one))
        for chance, other in (
            (0.15, (*one[:3], float(rng.randrange(10)), 1)),
            (0.15, (*one[:4], -1)),
            (0.05, one),
            (0.03, (*one[:4], -1)),
        ):
            if rng.random() < chance:
                found.append((came + rng.randrange(late), other))
    return [one for _, one in sorted(found, key=lambda each: each[0])]


def table(some: Iterable[Record], first: int) -> pl.DataFrame:
    """As a batch has them; numbered from `first`."""
    rows = [(EIGHT + at * SECOND, f, n, t, c) for at, f, n, t, c in some]
    return pl.DataFrame(
        {
            "start": pl.Series([row[0] for row in rows], dtype=pl.Int64),
            "end": pl.Series([row[0] for row in rows], dtype=pl.Int64),
            "@order": range(first, first + len(rows)),
            "fridge": [row[1] for row in rows],
            "n": [row[2] for row in rows],
            "temp": [row[3] for row in rows],
            "@change": pl.Series([row[4] for row in rows], dtype=pl.Int8),
        }
    )


@dataclass
class Truth:
    """What holds after some records: a run over those that are there, in the order of time. `ids` with their events;
    `records`: the ids of the records that are there; `open`: the events without an end."""

    length: int
    ids: dict[str, str] = field(default_factory=dict)
    records: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    alerts: list[AlertChange] = field(default_factory=list)

    @classmethod
    def of(cls, some: Iterable[Record], length: int, over: bool = False) -> Truth:
        """`length`: of `--revise`, in microseconds; `over`: the input has ended."""
        known = _Keyed(length, ())
        for position, (at, fridge, n, temp, change) in enumerate(some):
            when = EIGHT + at * SECOND
            known.take(position, (Event("reading", (fridge, n, temp), when, when), change))
        engine = Engine.from_text(PROGRAM, alerts=True, lateness=None, begins=True)
        known.into(engine)
        found = engine.close() if over else engine.advance(known.latest)
        found = {name: rows for name, rows in found.items() if rows.height}
        truth, lives = cls(length), lifecycle(engine)
        there = [((e.end - EIGHT) // SECOND, *e.args, 1) for e in known.in_order()]
        truth.records = set(reading_ids(table(there, 0), engine.inputs["reading"]))
        meanings = engine.meanings()
        for name, rows in found.items():
            if name in engine.outputs:
                named = identified(rows, engine.outputs[name], meanings[name])
                truth.ids |= dict.fromkeys(named[ID].to_list(), name)
                truth.open.update(named.filter(pl.col("end").is_null())[ID].to_list())
        truth.alerts = lives.take(found, known.latest)
        return truth


def by_brute_force(some: Iterable[Record], window: int) -> list[Change]:
    """The oracle's alerts for the records that stand at the end; `window` in seconds."""
    came = [Reading("reading", (f, n, t), at, change, (f, n)) for at, f, n, t, change in some]
    records, latest = there(came, window)
    assert latest is not None
    derived = patterns(RULES, records, SECOND)
    hot = Simple(_fridge(lambda temp: temp > 6), _fridge(lambda temp: temp < 3)).codes(records, latest)
    state = Simple(_states, lambda one: [], valued=True).codes(records, latest)
    found = [change for each in STATEMENTS for change in of_event(each, derived, SECOND, latest)]
    for statement, held in zip(ON_FLUENTS, (hot, state), strict=True):
        found += of_fluent(statement, intervals(held, latest), latest)
    return found


def _fridge(asked: Callable[[float], bool]) -> Callable[[Reading], list[tuple[str]]]:
    return lambda one: [(one.args[0],)] if asked(one.args[2]) else []


def _states(one: Reading) -> list[tuple[str, str]]:
    fridge, _, temp = one.args
    return [(fridge, "warm" if temp > 6 else "fine")] if temp > 2 else []


class _Keyed(Known):
    """A record is replaced by a later one of the same fridge, number and time."""

    def take(self, position: int, change: tuple[Event, int]) -> None:
        event, sign = change
        if event.end < self.latest - self.length:
            return
        self.latest = max(self.latest, event.end)
        key = (event.type, event.args[:2], event.start, event.end)
        if sign < 0:
            self.there.pop(key, None)
        elif key not in self.there or self.there[key][0][1].args != event.args:
            self.there[key] = [(position, event)]


class LdesClient:
    """Follows a stream of events page by page, as often as it likes: a member is looked at once, by its name. `get`:
    the page at a path as N-Triples, None: there is none."""

    def __init__(self, get: Callable[[str], bytes | None]) -> None:
        self.get = get
        self.events: set[str] = set()
        self.changes: dict[str, list[tuple[str, int, bool]]] = {}
        self.members: set[str] = set()

    def read(self) -> None:
        """All pages, and what is new in them."""
        places, seen = ["ldes"], set[str]()
        while places:
            place = places.pop()
            if place not in seen:
                seen.add(place)
                text = self.get(place)
                if text is not None:
                    places += self._page(list(ox.parse(text, ox.RdfFormat.N_TRIPLES)))

    def held(self) -> set[str]:
        """The ids of the events that are there, by what was read."""
        last = {event: max(changes)[2] for event, changes in self.changes.items()}
        return {event for event in self.events | last.keys() if last.get(event, True)}

    def _page(self, quads: list[ox.Quad]) -> list[str]:
        texts: dict[str, dict[str, list[str]]] = {}
        for quad in quads:
            mine = texts.setdefault(str(quad.subject), {})
            mine.setdefault(str(quad.predicate), []).append(getattr(quad.object, "value", ""))
        for quad in quads:
            if str(quad.predicate) == f"<{TREE}member>" and (name := str(quad.object)) not in self.members:
                self.members.add(name)
                self._member(name, texts[name])
        nodes = (getattr(quad.object, "value", "") for quad in quads if str(quad.predicate) == f"<{TREE}node>")
        return [re.sub(r"^https?://[^/]*/", "", node) for node in nodes]

    def _member(self, name: str, said: Mapping[str, list[str]]) -> None:
        kinds = said["<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"]
        if DELETE.value in kinds or CREATE.value in kinds:
            (event,), (time,) = said[f"<{AS}object>"], said[f"<{PROV}endedAtTime>"]
            place = time, int(said["<urn:semcep:position>"][0]), CREATE.value in kinds
            self.changes.setdefault(event.rpartition("/")[2], []).append(place)
        else:
            self.events.add(name[1:-1].rpartition("/")[2])

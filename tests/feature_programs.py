"""Random programs with selected features of the language, over few values and times, so that ties are frequent."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random
from typing import Any

from cep.events import Event
from tests.cases_format import known
from tests.program_maker import FORMS, SECOND

Update = tuple[int, str | None, str | None]

POLICIES = (
    "{h}(K, W) <- ({e}(K, V) SEQ {f}(K, W)) POLICY recent.",
    "{h}(K, W) <- ({e}(K, V) SEQ {f}(K, W)) POLICY chronological.",
    "{h}(V, W) <- ({e}(_, V) SEQ {f}(_, W) WITHIN 3 s) POLICY chronological.",
    "{h}(V, W) <- ({e}(V, _) AND {f}(W, _) WITHIN 3 s) POLICY recent.",
)
RECURSION = (
    "{h}(K, V) <- {e}(K, V).\n{h}(K, W) <- {h}(K, V) SEQ {f}(K, W) WHERE W > V.",
    "{h}(K, V) <- {e}(K, V).\n{h}(K, V + 1) <- {h}(K, V) WHERE V < 3.",
    "{h}(K, V) <- {e}(K, V).\n{h}(W, V) <- {h}(K, V) SEQ {f}(K, W) WITHIN 2 s.",
)
FLUENTS = (
    "fluent {g}(k: int).\ninitiate {g}(K) <- {e}(K, V) WHERE V > 0.\nterminate {g}(K) <- {f}(K, 0).\n"
    "{h}(K, V) <- {e}(K, V) WHERE {g}(K).",
    "fluent {g}(k: int).\ninitiate {g}(K) <- {e}(K, _).\n{g}(K) ENDS AFTER 2 s.\n{h}(K, 0) <- BEGIN OF {g}(K).",
    "fluent {g}(k: int) = x: int.\ninitiate {g}(K) = V <- {e}(K, V).\nterminate {g}(K) = _ <- {f}(K, 2).\n"
    "{h}(K, X) <- {f}(K, _) WHERE {g}(K) = X.",
    "fluent {g}.\ninitiate {g} <- {e}(_, 1).\nterminate {g} <- {f}(_, 2).\n{h}(K, V) <- {f}(K, V) WHERE not {g}.",
)
FORMULAS = (
    "fluent {g}(k: int).\n{g}(K) WHILE ONCE[0, 2 s] {a}(K, _).\n{h}(K, V) <- {b}(K, V) WHERE {g}(K).",
    "fluent {g}(k: int).\n{g}(K) WHILE (ONCE[0, 3 s] {a}(K, _)) AND NOT (ONCE[0, 1 s] {b}(K, _)).",
    "fluent {g}(n: int).\n{g}(N) WHILE (ONCE[0, 2 s] {a}(K, _)) AGGREGATE N = count().",
)
LARS = ("{g}(K) :- {e}(K, V) in [2], V > 0.", "{g}(K) :- {e}(K, _) in [1], not {f}(K, 0).")
ASKED = {
    "lars": "{h}(K, V) <- {f}(K, V) WHERE {g}(K).",
    "dmtl": "fluent {g}(k: int).\n{h}(K, V) <- {f}(K, V) WHERE {g}(K).",
    "rtec": 'fluent {g}(k: int) = x: string.\n{h}(K, V) <- {f}(K, V) WHERE {g}(K) = "true".',
}
"""How rules of events ask what a file with this suffix gives."""
DATALOGMTL = (
    "{g}(K) :- Diamondminus[0,2]{a}(K, V)",
    "{g}(K) :- Diamondminus[0,1]{a}(K, V), Diamondminus[0,2]{b}(K, W)",
)
RTEC = (
    "initiatedAt({g}(K)=true, T) :- happensAt({a}(K, 1), T).\nterminatedAt({g}(K)=true, T) :- happensAt({b}(K, 0), T).",
    "initiatedAt({g}(K)=true, T) :- happensAt({a}(K, _), T).\nterminatedAt({g}(K)=true, T) :- happensAt({b}(K, 2), T).",
)
ALERTS = (
    'ALERT {g} ON {e}(K, V) TITLE "at {{K}}" FOR 2 s.',
    'ALERT {g} ON {e}(K, V) WHERE V > 0 TITLE "at {{K}}" FOR 1 s KEYED BY K.',
)
RECORDS = (
    "fluent {g}(k: int).\n{g}(K) WHILE on(K) AND NOT (ONCE[0, 1 s] {a}(K, _)).",
    "{h}(K, V) <- {e}(K, V) WHERE on(K).",
    "{h}(K, V) <- END OF on(K) SEQ {e}(K, V).",
)
PREFIX = "PREFIX x: <http://x/>\n"
KNOWLEDGE = (
    "{h}(K, L) <- {e}(K, V) WHERE {{ ?p x:code ?K ; x:level ?L }}, V >= L.",
    "level(K, L) :- {{ ?p x:code ?K ; x:level ?L }}.\n{h}(K, V) <- {e}(K, V) WHERE not level(K, V).",
    "{h}(K, V) <- ({e}(K, V) SEQ {f}(K, _)) WHERE {{ ?p x:code ?K ; x:level ?V }}.",
    "{h}(V, L) <- ({e}(K, V) SEQ {f}(_, _) WITHIN 2 s) WHERE {{ ?p x:code ?K ; x:level ?L }}.",
    "fluent {g}(k: int).\n{g}(K) WHILE (ONCE[0, 2 s] {a}(K, V)) WHERE {{ ?p x:code ?K ; x:level ?V }}.",
)
LOADED = PREFIX + "".join(f"x:s{i} x:code {i} ; x:level {i} .\n" for i in range(3))


@dataclass
class Case:
    """A program in files, with its `options`, and what comes: `keys`: events of which the first argument is the KEY."""

    files: dict[str, str]
    options: dict[str, Any]
    events: list[Event]
    keys: list[str]
    updates: list[Update]


@dataclass
class Maker:
    """`known`: the events with two arguments that may be asked."""

    rng: Random
    known: list[str] = field(default_factory=lambda: ["a", "b"])
    lines: list[str] = field(default_factory=list)
    files: dict[str, list[str]] = field(default_factory=dict)
    count: int = 0

    def rule(self, forms: Collection[str], makes: bool = True) -> str:
        """Write a random one of these forms; gives the name for what it defines."""
        form, self.count = self.rng.choice(list(forms)), self.count + 1
        derived = [name for name in self.known if name not in "ab"]
        again = makes and derived and form in FORMS and self.rng.random() < 0.25
        h = self.rng.choice(derived) if again else f"h{self.count}"
        events = [name for name in self.known if not (again and name >= h)]
        e, f = (self.rng.choice(events[-3:] if self.rng.random() < 0.5 else events) for _ in range(2))
        a, b = (self.rng.choice("ab") for _ in range(2))
        self.lines.append(form.format(h=h, e=e, f=f, a=a, b=b, g=f"g{self.count}"))
        if "{h}" in form and not again:
            self.known.append(h)
        return f"g{self.count}"

    def beside(self, forms: Collection[str], suffix: str) -> None:
        """Write a rule of a dialect into a file of it, and one of events that asks what it gives."""
        name = self.rule(forms, makes=False)
        self.files.setdefault(suffix, []).append(self.lines.pop())
        self.lines.append(ASKED[suffix].format(h=f"h{self.count}", f=self.rng.choice("ab"), g=name))
        self.known.append(f"h{self.count}")


def _rules(forms: Collection[str]) -> Callable[[Maker], object]:
    return lambda maker: maker.rule(forms)


def _beside(forms: Collection[str], suffix: str) -> Callable[[Maker], object]:
    return lambda maker: maker.beside(forms, suffix)


LANGUAGE: dict[str, Callable[[Maker], object]] = {
    "KEY": lambda maker: None,
    "policies": _rules(POLICIES),
    "recursion": _rules(RECURSION),
    "fluents": _rules(FLUENTS),
    "fluent records": _rules(RECORDS),
    "formulas": _rules(FORMULAS),
    "LARS": _beside(LARS, "lars"),
    "DatalogMTL": _beside(DATALOGMTL, "dmtl"),
    "RTEC": _beside(RTEC, "rtec"),
    "alerts": _rules(ALERTS),
    "knowledge": _rules(KNOWLEDGE),
    "knowledge updates": _rules(KNOWLEDGE),
}
"""Features of the language, each with what writes some of it."""


def feature_case(rng: Random, features: Collection[str]) -> Case:
    """A random program with these features among plain rules, some of which ask what the features give."""
    maker = Maker(rng)
    for _ in range(rng.randint(1, 3)):
        maker.rule(FORMS)
    wanted = [name for name in features if name in LANGUAGE]
    for name in rng.sample(wanted, len(wanted)):
        LANGUAGE[name](maker)
        if rng.random() < 0.6:
            maker.rule(FORMS)
    keys = [name for name in "ab" if "KEY" in features and rng.random() < 0.7]
    head = [f"event {name}(k: int, v: int) TIME time{' KEY k' if name in keys else ''}." for name in "ab"]
    options: dict[str, Any] = {}
    if "fluent records" in features:
        head.append("fluent on(k: int) START s END e.")
    if {"knowledge", "knowledge updates"} & set(features):
        head.insert(0, PREFIX)
        options["knowledge"] = known(LOADED)
    if "alerts" in features:
        options["alerts"] = True
    files = {"rules.cep": "\n".join(head + maker.lines)} | {
        f"more.{suffix}": "\n".join(lines) for suffix, lines in maker.files.items()
    }
    return Case(files, options, _events(rng, features, keys), keys, _updates(rng, features))


def _events(rng: Random, features: Collection[str], keys: Collection[str]) -> list[Event]:
    found = []
    for _ in range(rng.randint(8, 22)):
        time, key, value = rng.randrange(7) * SECOND, rng.randrange(3), rng.randrange(3)
        name = rng.choice("aab")
        found.append(Event(name, (key, value), time, time))
        if name in keys and rng.random() < 0.3:
            found.append(Event(name, (key, rng.randrange(3)), time, time))
    if "fluent records" in features:
        for _ in range(rng.randint(1, 4)):
            start, last = rng.randrange(6) * SECOND, rng.randrange(1, 3) * SECOND
            found.append(Event("on", (rng.randrange(3), start + last), start, start))  # a record, which has its end
    return sorted(found, key=lambda event: event.end)


def _updates(rng: Random, features: Collection[str]) -> list[Update]:
    if "knowledge updates" not in features:
        return []
    found: list[Update] = []
    for _ in range(rng.randint(1, 4)):
        time, station = rng.randint(1, 6) * SECOND, rng.randrange(3)
        levels = PREFIX + "".join(f"x:s{station} x:level {n} .\n" for n in range(3))
        level = PREFIX + f"x:s{station} x:level {rng.randrange(3)} ."
        found.append(rng.choice([(time, level, levels), (time, level, None), (time, None, levels)]))
    return found

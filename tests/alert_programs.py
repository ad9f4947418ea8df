"""Random programs with alerts on events and fluents, and random input with late, corrected and withdrawn records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType
from typing import Any

from cep.events import Event
from tests.reference_alerts import (
    EVER,
    Args,
    Change,
    Held,
    Inhibitor,
    Interval,
    Reading,
    Simple,
    Statement,
    inhibited,
    intervals,
    of_event,
    of_fluent,
    patterns,
)

LEVELS = 10
SEVERITIES = ("Severe", "Moderate", "Minor")
GRAVER = ("Extreme", *SEVERITIES)
_ATTRIBUTES = {
    "reading": ("s", "n", "l"),
    "high": ("s", "l"),
    "rise": ("s", "a", "b"),
    "heated": ("s",),
    "seen": ("s", "n"),
    "band": ("s", "b"),
    "calm": ("s",),
    "near": ("s",),
}
EVENTS = ("reading", "high", "rise")


@dataclass
class AlertProgram:
    """`rules`: its text without KEY, fluents and alerts; `keyed`: readings have a KEY."""

    text: str
    rules: str
    keyed: bool
    statements: list[Statement]
    fluents: dict[str, Simple]
    back: int

    def reading(self, time: int, station: str, number: int, level: int, change: int = 1) -> Reading:
        key = ("reading", station, number) if self.keyed else None
        return Reading("reading", (station, number, level), time, change, key)

    def changes(
        self,
        records: Iterable[Reading],
        until: int,
        second: int,
        ended: bool = False,
        acknowledged: Held = MappingProxyType({}),
        beyond: int = 0,
    ) -> list[Change]:
        """All that becomes of all alerts up to `until`, if these records came in order; `ended`: no more come, so that
        all is known, up to the last of what follows from them, and at least to `beyond`."""
        events, every = self._follows(records, until, second, ended)
        if ended:
            until = max(beyond, self._reaches(every, until))
        found = {
            each.name: of_event(each, events, second, until, acknowledged)
            if each.on in EVENTS
            else of_fluent(each, every[each.on], until, acknowledged)
            for each in self.statements
        }
        return inhibited(self.statements, found, every, until)

    def reaches(self, records: Iterable[Reading], until: int, second: int) -> int:
        """The last time of what follows from records of which the last is of `until`."""
        return self._reaches(self._follows(records, until, second, True)[1], until)

    def _reaches(self, every: Mapping[str, list[Interval]], until: int) -> int:
        inhibiting = {each.inhibitor.on for each in self.statements if each.inhibitor is not None}
        asked = {each.on for each in self.statements} | inhibiting
        ends = [
            end
            for name in asked
            for start, end, _ in every.get(name, ())
            if end is not None and (start != EVER or name in inhibiting)
        ]
        return max([until, *ends])

    def _follows(
        self, records: Iterable[Reading], until: int, second: int, ended: bool
    ) -> tuple[list[Event], Mapping[str, list[Interval]]]:
        """The events of patterns, and the intervals of fluents."""
        some = [one for one in records if one.time <= until]
        until = until + 100 if ended else until
        events = patterns(self.rules, some, second)
        held = {name: each.codes(some, until) for name, each in self.fluents.items()}
        blips = {(one.args[0], 2 * one.time) for one in some if one.type == "blip"}
        held["calm"] = {
            args: {code for code in codes if (args[0], code) not in blips}
            for args, codes in held.get("heated", {}).items()
        }
        held["near"] = {}
        for station, code in sorted(blips):
            near = held["near"].setdefault((station,), set())
            near |= set(range(code, min(code + 2 * self.back, 2 * until + 1) + 1))
        return events, {name: intervals(codes, until) for name, codes in held.items()}


def alert_program(rng: Random, keyed: bool | None = None) -> AlertProgram:
    """A program over readings of a station, a number and a level, and blips of a station."""
    keyed = rng.random() < 0.6 if keyed is None else keyed
    high, low, step = rng.randint(3, 6), rng.randint(1, 3), rng.randint(1, 8)
    after = rng.randint(1, 9) if rng.random() < 0.4 else None
    initially = (("a",),) if rng.random() < 0.3 else ()
    back = rng.randint(1, 5)
    alerts = _with_inhibitors(rng, [_alert(rng, f"x{number}") for number in range(rng.randint(2, 4))])
    used = {statement.on for statement, _ in alerts}
    used |= {statement.inhibitor.on for statement, _ in alerts if statement.inhibitor is not None}
    used |= {"heated"} if "calm" in used else set()
    declared = "event reading(s: string, n: int, l: int) TIME time{}.\nevent blip(s: string) TIME time.\n"
    made = {
        "high": f"high(S, L) <- reading(S, _, L) WHERE L > {high}.\n",
        "rise": f"rise(S, A, B) <- (reading(S, _, A) SEQ reading(S, _, B)) WHERE B > A WITHIN {step} s.\n",
    }
    fluents = {
        "heated": f"""fluent heated(s: string).
initiate heated(S) <- reading(S, _, L) WHERE L > {high}.
terminate heated(S) <- reading(S, _, L) WHERE L < {low}.
{"".join(f"initially heated({station})." for (station,) in initially)}
{"" if after is None else f"heated(S) ENDS AFTER {after} s."}
""",
        "seen": f"""fluent seen(s: string, n: int).
initiate seen(S, N) <- reading(S, N, L) WHERE L > {high}.
terminate seen(S, N) <- reading(S, N, L) WHERE L < {low}.
""",
        "band": f"""fluent band(s: string) = b: int.
initiate band(S) = L <- reading(S, _, L) WHERE L > {low}.
terminate band(S) = _ <- blip(S).
""",
        "calm": "fluent calm(s: string).\ncalm(S) WHILE heated(S) AND NOT blip(S).\n",
        "near": f"fluent near(s: string).\nnear(S) WHILE ONCE[0, {back} s] blip(S).\n",
    }
    rules = "".join(text for name, text in made.items() if name in used)
    texts = [declared.format(" KEY s, n" if keyed else ""), rules]
    texts += [text for name, text in fluents.items() if name in used]
    texts += [f"{text}\n" for _, text in alerts]
    above, below = _told(lambda level: level > high), _told(lambda level: level < low)
    simple = {
        "heated": Simple(above(0), below(0), initially=initially, after=after),
        "seen": Simple(above(0, 1), below(0, 1)),
        "band": Simple(_told(lambda level: level > low)(0, 2), _blips, valued=True),
    }
    return AlertProgram(
        text="".join(texts),
        rules=declared.format("") + rules,
        keyed=keyed,
        statements=[statement for statement, _ in alerts],
        fluents={name: fluent for name, fluent in simple.items() if name in used},
        back=back,
    )


def _told(asked: Callable[[int], bool]) -> Callable[..., Callable[[Reading], Iterable[Args]]]:
    """The arguments at some places of readings with a level."""

    def at(*places: int) -> Callable[[Reading], Iterable[Args]]:
        def told(one: Reading) -> Iterable[Args]:
            meant = one.type == "reading" and asked(one.args[2])
            return [tuple(one.args[each] for each in places)] if meant else []

        return told

    return at


def _blips(one: Reading) -> Iterable[Args]:
    return [(one.args[0], None)] if one.type == "blip" else []


def _alert(rng: Random, name: str) -> tuple[Statement, str]:
    on = rng.choice((*_ATTRIBUTES, "heated", "band", "seen", "calm"))
    attributes = _ATTRIBUTES[on]
    variables = [each.upper() for each in attributes]
    duration, severity = rng.randint(1, 9), rng.choice(SEVERITIES)
    asked: str = ""
    where: Callable[[Args], bool] = _all
    if attributes[-1] in "lb" and rng.random() < 0.5:  # other severities by a value
        least = rng.randint(2, 7)
        asked, where = f" WHERE {variables[-1]} > {least}", _above(least)
    keys = rng.choice((None, (0,), (0,), (0,), (0, len(attributes) - 1)))
    keyed = "" if keys is None else f" KEYED BY {', '.join(variables[each] for each in sorted(set(keys)))}"
    places: tuple[int, ...] | None = tuple(sorted(set(keys or ())))
    if keys is None and on not in EVENTS:
        places = None  # of a fluent it has all arguments
    arguments = ", ".join(variables[:-1] if on == "band" else variables)
    value = " = B" if on == "band" else ""
    clauses, life = _life(rng, on not in EVENTS, severity)
    if on not in EVENTS and rng.random() < 0.3:
        duration, lasting = 86_400, ""
    else:
        lasting = f" FOR {duration} s"
    if rng.random() < 0.4:
        clauses += ' RUNBOOK "https://example.org/of?' + f'{{{variables[0]}}}"'
        life["runbook"] = "https://example.org/of?{0}"
    if rng.random() < 0.4:
        mine = keys[0] if keys is not None else None if on in EVENTS else 0
        clauses += ' LABELS team: "water"' + ("" if mine is None else f", of: {variables[mine]}")
        life["labels"] = (("team", "water"), *(() if mine is None else (("of", f"{{{mine}}}"),)))
    title = "{0} " + ("{1}" if len(attributes) > 1 else "")
    written = title.replace("{0}", f"{{{variables[0]}}}").replace(
        "{1}", f"{{{variables[-1 if len(attributes) < 3 else 1]}}}"
    )
    text = f'ALERT {name} ON {on}({arguments}){value}{asked} SEVERITY "{severity}" TITLE "{written}"'
    text += f' TEXT "it is {{{variables[0]}}}"{lasting}{keyed}{clauses}.'
    return Statement(name, on, attributes, where, places, duration, severity, title, "it is {0}", **life), text


def _with_inhibitors(rng: Random, alerts: list[tuple[Statement, str]]) -> list[tuple[Statement, str]]:
    """Have alerts and fluents inhibit some alerts, never in a circle."""
    order = list(range(len(alerts)))
    rng.shuffle(order)
    found = []
    for place, (statement, text) in enumerate(alerts):
        before = [alerts[other][0] for other in order[: order.index(place)]]
        if rng.random() < 0.5:
            found.append((statement, text))
            continue
        fluents = [name for name in _ATTRIBUTES if name not in EVENTS]
        other = rng.choice(before) if before and rng.random() < 0.5 else None
        name = rng.choice(fluents) if other is None else other.name
        theirs = _ATTRIBUTES[name] if other is None else _key(other)
        mine = _key(statement)
        equal, values, written = [], [], []
        for at, attribute in enumerate(theirs):
            if attribute in mine and rng.random() < 0.8:
                equal.append((at, mine.index(attribute)))
                written.append((attribute, attribute.upper()))
            elif attribute == "s" and rng.random() < 0.4:
                values.append((at, "a"))
                written.append((attribute, "a"))
        value = " = _" if name == "band" else ""
        if value and written and written[-1][0] == "b":
            value = f" = {written.pop()[1]}"
        inside = f"({', '.join(f'{attribute}: {word}' for attribute, word in written)})" if written else ""
        if other is None and not inside:
            inside = f"({', '.join('_' for each in theirs if each != 'b')})"
        inhibitor = Inhibitor(name, tuple(equal), tuple(values))
        found.append((replace(statement, inhibitor=inhibitor), f"{text[:-1]} INHIBITED BY {name}{inside}{value}."))
    return found


def _key(statement: Statement) -> tuple[str, ...]:
    return statement.attributes if statement.keys is None else tuple(statement.attributes[at] for at in statement.keys)


def _life(rng: Random, fluent: bool, severity: str) -> tuple[str, dict[str, Any]]:
    """Clauses that change the life of an alert, and the same for a `Statement`."""
    text, life = "", dict[str, Any]()
    if rng.random() < 0.5:
        life["after"] = rng.randint(1, 8)
        text += f" AFTER {life['after']} s"
    if fluent and rng.random() < 0.5:
        life["keep"] = rng.randint(1, 8)
        text += f" KEEP {life['keep']} s"
    graver = GRAVER[: GRAVER.index(severity)]
    if rng.random() < 0.4:
        words = sorted(rng.sample(graver, rng.randint(1, len(graver))), key=graver.index, reverse=True)
        times = sorted(rng.sample(range(1, 12), len(words)))
        life["escalations"] = tuple(zip(words, times))
        text += " ESCALATE " + ", ".join(f'"{word}" AFTER {time} s' for word, time in life["escalations"])
    return text, life


def _all(args: Args) -> bool:
    return True


def _above(least: int) -> Callable[[Args], bool]:
    return lambda args: args[-1] > least


def batches(rng: Random, program: AlertProgram, window: int) -> list[list[Reading]]:
    """Records in the order in which they come, in pieces. Some are up to `window` seconds late, or more, which come by
    themselves; some put others right or withdraw them, or what is not there."""
    came: list[Reading] = []
    found: list[list[Reading]] = [[]]
    latest = 0
    for _ in range(rng.randint(4, 25)):
        latest += rng.choice((0, 0, 1, 1, 2, 3, 6))
        late = rng.random() < 0.4
        time = max(0, latest - rng.randint(1, window)) if late and window else latest
        drawn, old = rng.random(), [one for one in came[-15:] if one.time >= latest - window]
        if drawn < 0.12 and old:
            other = rng.choice(old)
            one = Reading(other.type, other.args, other.time, -1, other.key)
        elif drawn < 0.24 and old:
            other = rng.choice(old)
            one = Reading(other.type, (*other.args[:-1], _level(rng)) if other.type == "reading" else other.args,
                          other.time, 1, other.key)  # fmt: skip
        elif drawn < 0.4:
            one = Reading("blip", (rng.choice("ab"),), time)
        else:
            one = program.reading(time, rng.choice("aab"), rng.randrange(3), _level(rng))
        came.append(one)
        too_late = one.time < latest - window
        if too_late:
            found.append([])
        found[-1].append(one)
        if too_late or rng.random() < 0.5:
            found.append([])
    return [each for each in found if each]


def in_order(rng: Random, program: AlertProgram) -> list[list[Reading]]:
    """Records in the order of their times, in pieces."""
    found: list[list[Reading]] = [[]]
    time = 0
    for _ in range(rng.randint(4, 25)):
        step = rng.choice((0, 0, 1, 1, 2, 3, 6))
        time += step
        if step and rng.random() < 0.4:
            found.append([])
        if rng.random() < 0.2:
            found[-1].append(Reading("blip", (rng.choice("ab"),), time))
        else:
            found[-1].append(program.reading(time, rng.choice("aab"), rng.randrange(3), _level(rng)))
    return [each for each in found if each]


def _level(rng: Random) -> int:
    return rng.choice((0, 0, rng.randrange(LEVELS), rng.randrange(LEVELS), LEVELS - 1))

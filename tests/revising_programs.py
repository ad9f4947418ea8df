"""Random programs in which all operators can revise: simple fluents, read by other fluents and by events."""

from __future__ import annotations

import re
from collections.abc import Container
from random import Random

from cep.events import Event

KEYS = ("p", "q", "r")
WORDS = {"f": "", "g": " = x: int", "h": "", "m": " = y: int", "n": ""}
"""Fluents, each of which may ask those before it; `h` has a number besides its key, and `n` no key at all."""


def revising_program(rng: Random) -> str:
    """A program over events `a` and `b` of a key and a whole number, and `c` of a key and a float."""
    lines = [
        f"event a(k: string{rng.choice(('', '?'))}, v: int).",
        "event b(k: string, v: int).",
        "event c(k: string, v: float).",
        *(f"low({key!r}, {rng.randint(0, 2)}).".replace("'", '"') for key in KEYS),
    ]
    known: list[str] = []
    made: list[str] = []
    for name in rng.sample(sorted(WORDS), rng.randint(1, len(WORDS))):
        arguments = {"h": "(k: string, v: int)", "n": ""}.get(name, "(k: string)")
        lines.append(f"fluent {name}{arguments}{WORDS[name]}.")
        for verb in ("initiate", *rng.choices(("initiate", "terminate"), k=rng.randint(1, 3))):
            head, body = _rule(rng, name, known, made, verb)
            lines.append(f"{verb} {head} <- {body}.")
        lines += _deadlines(rng, name)
        known.append(name)
        if rng.random() < 0.4:
            event = f"d{len(made)}"
            for _ in range(rng.choice((1, 1, 2))):
                lines.append(f"{event}(K, {rng.choice(('V', 'V', 1))}) <- {_body(rng, known, made)}.")
            made.append(event)
    return "\n".join(lines)


def with_keys(rng: Random, text: str) -> tuple[str, list[str]]:
    """The program, and the events that have a KEY in it: none in half of all cases."""
    keys = [event for event in "abc" if rng.random() < 0.6] if rng.random() < 0.5 else []
    for event in keys:
        text = re.sub(rf"(?m)^(event {event}\(.*\))\.$", r"\1 KEY k.", text)
    return text, keys


def _rule(rng: Random, name: str, known: list[str], made: list[str], verb: str) -> tuple[str, str]:
    body = _body(rng, known, made)
    value = ""
    if "=" in WORDS[name]:
        value = f" = {rng.choice(('V', 'V', 0, 1, *(('_',) if verb == 'terminate' else ())))}"
    head = {"h": f"h(K, {rng.choice(('V', 'V', 1))})", "n": "n"}.get(name, f"{name}(K)")
    return f"{head}{value}", body


def _body(rng: Random, known: list[str], made: list[str]) -> str:
    """A pattern that binds K and V, with conditions."""
    event = rng.choice("ab")
    patterns = [f"{event}(K, V)"] * 4 + ["a(K, V) EQUALS b(K, _)", "a(K, V) EQUALS b(K, W)", "a(K, V) OR b(K, V)"]
    patterns += [f"{each}(K, V)" for each in made[-2:]]
    if "h" in known:
        patterns += [f"{rng.choice(('BEGIN', 'END'))} OF h(K, V)", "b(K, V) FINISHES a(K, _)"]
    conditions = []
    for _ in range(rng.choice((0, 1, 1, 2))):
        asked = [f"V {rng.choice('<>')} 1", "low(K, V)", "low(K, L), V >= L"]
        for fluent in known:
            own = {"f": "f(K)", "g": "g(K) = G", "m": "m(K) = M", "n": "n"}.get(fluent)
            asks = [own] if own is not None else ["h(K, V)", "h(K, _)", "h(K, H)", "h(_, V)", "h(J, V)"]
            asks += [f"not {ask}" for ask in asks if "=" not in ask and ask not in ("h(K, H)", "h(J, V)")]
            asks += [ask.replace("= G", "= 1").replace("= M", "= 0") for ask in asks if "=" in ask]
            asked += 2 * [rng.choice(asks)]
        conditions.append(rng.choice(asked))
    pattern = rng.choice(patterns)
    if rng.random() < 0.1:
        pattern, conditions = (
            "c(K, V)",
            [each for each in conditions if ("h(" in each and "not" in each) or "f(" in each],
        )
        pattern, conditions = "a(K, V) EQUALS c(K, V)", conditions
    where = f" WHERE {', '.join(dict.fromkeys(conditions))}" if conditions else ""
    return f"({pattern}){where}" if where else pattern


def _deadlines(rng: Random, name: str) -> list[str]:
    renewed = rng.choice(("", " RENEWED"))
    after = f"AFTER {rng.randint(1, 9) / 1_000_000:.6f} s{renewed}."
    fluent = {"h": "h(K, V)", "n": "n"}.get(name, f"{name}(K)")
    if "=" not in WORDS[name]:
        return [f"{fluent} ENDS {after}"] if rng.random() < 0.4 else []
    drawn = rng.random()
    if drawn < 0.2:
        return [f"{fluent} = X ENDS {after}"]
    if drawn < 0.5:
        return [f"{fluent} = 0 BECOMES 1 {after}", *([f"{fluent} = 1 ENDS {after}"] if drawn < 0.35 else [])]
    return []


def revising_events(rng: Random, text: str, keys: Container[str] = ()) -> list[Event]:
    """Events of such a program, in the order in which they come, some of them late, and some put right by a later one,
    of those that have `keys`."""
    optional = "event a(k: string?" in text
    count, span = rng.randint(1, rng.choice((40, 40, 160))), rng.choice((6, 30, 120))
    late = rng.choice((0, 5, 40))
    made = []
    for _ in range(count):
        type = rng.choice("aaabbbc")
        end = rng.randint(0, span)
        start = end if rng.random() < 0.8 else rng.randint(max(0, end - 5), end)
        key = rng.choice(KEYS[: rng.choice((1, 3))]) if rng.random() < 0.95 or type != "a" or not optional else None
        value = float(rng.randint(0, 2)) + (0.5 if rng.random() < 0.2 else 0.0) if type == "c" else rng.randint(0, 2)
        made.append(Event(type, (key, value), start, end))
        if type in keys and rng.random() < 0.4:
            made.append(Event(type, (key, value + rng.choice((0, 1, 1, 2))), start, end))
    return sorted(made, key=lambda event: event.end + (rng.randint(0, late) if rng.random() < 0.4 else 0))

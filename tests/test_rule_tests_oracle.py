"""Verdicts of `cep test` against an oracle that was written from the text about test files alone.

What is derived comes from the reference interpreter. Expectations are made of it and then spoiled at random; whether
they match one to one is found by trying every assignment.
"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cep.events import Event
from cep.testing.rule_files import parse_test_file
from cep.testing.session import Session
from tests import reference
from tests.long import seeds

PROGRAM = """\
event reading(box: string, temp: float).
event hot(box: string, temp: float).
event rise(box: string, old: float, new: float).
event quiet(box: string).
hot(B, T) <- reading(B, T) WHERE T > 7.
rise(B, X, Y) <- reading(B, X) SEQ reading(B, Y) WHERE Y > X WITHIN 20 s.
quiet(B) <- reading(B, _) UNLESS reading(B, _) WITHIN 10 s.
"""
NAMES = {"hot": ("box", "temp"), "rise": ("box", "old", "new"), "quiet": ("box",)}
SECOND = 1_000_000


def readings(random: Random) -> list[tuple[int, str, float]]:
    times = sorted(random.sample(range(40), random.randrange(1, 7)))
    return [(time, random.choice("ab"), random.choice([6.0, 7.0, 7.5, 8.0, 9.0])) for time in times]


def derived(records: list[tuple[int, str, float]], until: int | None) -> list[dict[str, Any]]:
    """Events by the reference interpreter; of those that are known at `until` (seconds)."""
    given = [Event("reading", (box, temp), time * SECOND, time * SECOND) for time, box, temp in records]
    found = []
    for event in reference.detect(PROGRAM, given):
        if until is None or event.end <= until * SECOND:
            own = dict(zip(NAMES[event.type], event.args))
            found.append({"type": event.type, **own, "start": event.start / SECOND, "end": event.end / SECOND})
    return found


def spoiled(random: Random, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Expectations: some with fewer attributes, some with a wrong value, some doubled, some left out."""
    found = []
    for event in events:
        kind = random.random()
        if kind < 0.05:
            continue
        wanted = dict(event)
        for name in [each for each in event if each != "type"]:
            if random.random() < 0.4:
                del wanted[name]
        names = [each for each in wanted if each != "type"]
        if kind < 0.12 and names:
            name = random.choice(names)
            wanted[name] = "c" if isinstance(wanted[name], str) else wanted[name] + random.choice([1e-3, 1.0])
        elif kind < 0.2 and names:
            name = random.choice(names)
            if isinstance(wanted[name], float) and name not in ("start", "end"):
                wanted[name] *= 1 + 1e-11  # within the tolerance
        found += [wanted] * (2 if kind > 0.96 else 1)
    random.shuffle(found)
    return found


def fits(wanted: dict[str, Any], event: dict[str, Any]) -> bool:
    for name, value in wanted.items():
        own = event[name]
        if isinstance(value, float) and name not in ("start", "end"):
            if abs(value - own) > 1e-9 * max(abs(value), abs(own)):
                return False
        elif value != own:
            return False
    return True


def verdict(expected: list[dict[str, Any]], events: list[dict[str, Any]], at_least: bool, none: list[str]) -> bool:
    if any(event["type"] in none for event in events):
        return False
    for kind in {each["type"] for each in expected}:
        wanted = [each for each in expected if each["type"] == kind]
        rows = [each for each in events if each["type"] == kind]
        if len(wanted) > len(rows) or (len(wanted) < len(rows) and not at_least):
            return False
        chosen = permutations(rows, len(wanted))
        if not any(all(fits(one, row) for one, row in zip(wanted, each)) for each in chosen):
            return False
    return True


def written(wanted: dict[str, Any]) -> str:
    values = ", ".join(f"{name}: {value}" for name, value in wanted.items() if name != "type")
    return f"      - {wanted['type']}: {{{values}}}\n"


@pytest.mark.parametrize("seed", seeds(60))
def test_verdicts(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    (tmp_path / "rules.cep").write_text(PROGRAM)
    session = Session(seeds=(seed,))
    for _ in range(8):
        records = readings(random)
        last = max(time for time, _, _ in records)
        until: int | None = random.choice([last, last + 7, last + 30, None])
        events = derived(records, until)
        if max((sum(each["type"] == kind for each in events) for kind in NAMES), default=0) > 7:
            continue  # every assignment is tried
        kinds = random.sample(sorted(NAMES), random.randrange(1, 4))
        expected = spoiled(random, [each for each in events if each["type"] in kinds])
        none = [kind for kind in NAMES if kind not in kinds and random.random() < 0.5]
        at_least = random.random() < 0.3
        if not expected and not none:
            continue
        rows = "".join(f"        {time},{box},{temp}\n" for time, box, temp in records)
        text = "program: rules.cep\nlateness: 15s\ntests:\n  - name: t\n"
        text += f"    given:\n      reading: |\n        time,box,temp\n{rows}"
        if until != last:
            text += f"    until: {'end' if until is None else until}\n"
        text += f"    at_least: {str(at_least).lower()}\n"
        text += f"    none: [{', '.join(none)}]\n" if none else ""
        text += "    expect:\n" + "".join(map(written, expected)) if expected else ""
        result = session.run(parse_test_file(text, tmp_path / "t.test.yaml").tests[0])
        assert result.passed is verdict(expected, events, at_least, none), text

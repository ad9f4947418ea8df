"""Fluents that formulas define by themselves through what comes later: random rules against the reference, the times
between which they are asked, and what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.core.errors import CepError
from cep.engine import Engine, holds
from cep.events import Event, Held
from cep.runtime.maximal_intervals import held_of
from tests import reference_fluents as simple
from tests.formula_maker import Maker, furthest, text
from tests.long import seeds
from tests.reference_formulas import Rule, needs, parts_of, plain_names
from tests.test_fluents import random_model, random_records
from tests.test_formula_recursion import expected, monotone
from tests.test_formulas import ordered

FEATURES = frozenset("AND NOT OR EVENTUALLY ALWAYS UNTIL WHERE AGGREGATE WITHIN BOXES INF".split())  # noqa: SIM905
"""What looks ahead, and what looks at one time."""
SECOND = 1_000_000
FAR = 60


def ahead(rules: Sequence[Rule]) -> bool:
    """Whether a cycle looks ahead, and no such one back: a head's ALWAYS does."""
    cycles = needs(rules)
    found = False
    for rule in rules:
        own = {name for name in cycles[rule.name] if rule.name in cycles[name]}
        if not own & set(plain_names(rule.formula)):
            continue
        if any(word == "ALWAYS" for word, _ in rule.boxes):
            return False
        stack = [rule.formula]
        while stack:
            each = stack.pop()
            stack += parts_of(each)
            timed = hasattr(each, "operator") and bool(own & {name for p in parts_of(each) for name in plain_names(p)})
            found |= timed or bool(rule.boxes)
    return found


def cut(held: Iterable[Held], first: int, last: int) -> list[Held]:
    """What formulas define, between two times, both included."""
    made = []
    for each in held:
        if not each.type.startswith("d"):
            continue
        start, end, opening, closing = each.start, each.end, each.bounds[0], each.bounds[1]
        if start is None or start < first:
            start, opening = first, "["
        if end is None or end > last:
            end, closing = last, "]"
        if start < end or (start == end and opening + closing == "[]"):
            made.append(replace(each, start=start, end=end, bounds=opening + closing))
    return ordered(made)


@pytest.mark.parametrize("seed", seeds(60))
def test_what_looks_ahead(seed: int) -> None:
    rng = random.Random(f"ahead {seed}")
    model = random_model(rng)
    while True:
        maker = Maker(rng, FEATURES)
        rules = maker.recursion(rng.choice((1, 1, 2, 3)), rng.choice((1, 2, 2)))
        if monotone(rules) and ahead(rules):
            break
    records = [each for each in random_records(rng, 12) if each[3] <= 20]
    events = [Event(e, (k, x), t, t) for e, k, x, t in records]
    trips = [(rng.choice("pqr"), rng.randint(0, 2), start, start + rng.choice((0, 1, 3, 7)))
             for start in rng.choices(range(14), k=rng.randint(0, 4))]  # fmt: skip
    events += [Event("trip", (k, x), s, e) for k, x, s, e in trips]
    events.sort(key=lambda event: event.end)
    program = simple.text(model) + "\n" + text(rules, maker.known)
    first = min((event.start for event in events), default=0)
    last = max((event.end for event in events), default=0) + furthest(rules)
    wanted = cut(expected(model, rules, records, trips), first, last)
    assert cut(holds(program, events, start=first - FAR, until=last + FAR), first, last) == wanted, program
    engine, found = Engine.from_text(program, start=first - FAR, until=last + FAR), []
    rest = [event for event in events if event.type in engine.inputs]
    while rest:
        count = rng.randint(1, 6)
        batch, rest = rest[:count], rest[count:]
        found += held_of(engine.push(batch), engine.outputs, None, None)
        if rng.random() < 0.3:
            engine = Engine.from_text(program, start=first - FAR, until=last + FAR).restore(engine.snapshot())
    found += held_of(engine.close(), engine.outputs, None, None)
    assert cut(found, first, last) == wanted, program


DECLARED = """event a(k: string) TIME t.
event b(k: string) TIME t.
fluent on(k: string).
fluent p(k: string).
fluent q(k: string).
initiate on(K) <- b(K).
terminate on(K) <- a(K).
"""
EVENTS = [Event("b", ("x",), 3 * SECOND, 3 * SECOND), Event("a", ("x",), 10 * SECOND, 10 * SECOND)]


@pytest.mark.parametrize("start", [1, 5, 9])
def test_what_goes_back_for_ever_goes_back_to_the_start(start: int) -> None:
    program = DECLARED + "p(K) WHILE a(K) OR EVENTUALLY[1 s, 1 s] p(K)."
    found = holds(program, EVENTS, start=start * SECOND, until=20 * SECOND)
    assert [each.start for each in found if each.type == "p"] == [n * SECOND for n in range(start, 11)]


def test_what_ends_is_followed_to_its_end() -> None:
    program = DECLARED + "p(K) WHILE a(K) OR (on(K) AND EVENTUALLY(0 s, 1 s] p(K)).\nq(K) WHILE ONCE[1 s, 2 s] p(K)."
    found = {each.type: each for each in holds(program, EVENTS, start=0, until=20 * SECOND)}
    assert (found["p"].start, found["p"].end, found["p"].bounds) == (3 * SECOND, 10 * SECOND, "(]")
    assert (found["q"].start, found["q"].end, found["q"].bounds) == (4 * SECOND, 12 * SECOND, "(]")


def test_a_datalogmtl_program_goes_back() -> None:
    program = "Risk(X) :- Alarm(X)\nRisk(X) :- Running(X), Diamondplus[0,2]Risk(X)\n"
    events = [Event("Running", ("m",), 0, 9 * SECOND), Event("Alarm", ("m",), 8 * SECOND, 8 * SECOND)]
    (found,) = (
        each
        for each in holds(program, events, dialect="datalogmtl", start=0, until=20 * SECOND)
        if each.type.lower() == "risk"
    )
    assert (found.start, found.end) == (0, 8 * SECOND)


LOOKS_BACK_TOO = "p(K) WHILE a(K) OR ONCE[1 s, 1 s] q(K).\nq(K) WHILE b(K) OR EVENTUALLY[1 s, 1 s] p(K)."


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (LOOKS_BACK_TOO, "its own past and, through EVENTUALLY, on its own future"),
        ("p(K) WHILE on(K) AND NOT EVENTUALLY[1 s, 1 s] p(K).", "through EVENTUALLY, on its own future, so NOT cannot"),
        ("p(K) WHILE on(K) UNTIL p(K) LASTING >= 1 s.", "LASTING is known late"),
        (
            "p(K) WHILE on(K) AND EVENTUALLY[1 s, 1 s] p(K).\ninitiate on(K) <- b(K) WHERE p(K).",
            "`p` is known only at the end of the input",
        ),
    ],
)
def test_cycles_that_are_refused(rules: str, message: str) -> None:
    with pytest.raises(CepError, match=message):
        Engine.from_text(DECLARED + rules)


def test_it_is_asked_between_two_times() -> None:
    program = DECLARED + "p(K) WHILE a(K) OR EVENTUALLY[1 s, 1 s] p(K)."
    with pytest.raises(CepError, match="this EVENTUALLY lies on a cycle that may go back in time") as raised:
        holds(program, EVENTS, until=20 * SECOND)
    assert ":8:20:" in str(raised.value) and "--from" in str(raised.value)


def test_an_input_without_an_end_is_refused() -> None:
    program = DECLARED + "p(K) WHILE a(K) OR EVENTUALLY[1 s, 1 s] p(K)."
    with pytest.raises(CepError, match="known only at the end of the input: a live input has none"):
        Engine.from_text(program).refuse_endless("a live input")


@pytest.mark.parametrize("rule", ["p(K) WHILE EVENTUALLY on(K).", "p(K) WHILE a(K) OR EVENTUALLY[1 s, 1 s] p(K)."])
def test_a_run_over_a_live_input_is_refused(rule: str, tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text(DECLARED + rule)
    run = ["run", str(tmp_path / "rules.cep"), "-i", "a=mqtt://localhost/topic", "--from", "0", "--until", "10"]
    result = CliRunner().invoke(app, run)
    assert result.exit_code == 2 and "the end of the input: a live input has none" in result.output


def test_a_run_between_two_times(tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text(DECLARED + "p(K) WHILE a(K) OR EVENTUALLY[1 s, 1 s] p(K).")
    (tmp_path / "in.jsonl").write_text('{"type": "a", "t": 10, "k": "x"}\n')
    run = ["run", str(tmp_path / "rules.cep"), "-i", str(tmp_path / "in.jsonl")]
    refused = CliRunner().invoke(app, run)
    assert refused.exit_code == 2 and "--from 2013-02-09T03:00 --until" in refused.output
    result = CliRunner().invoke(app, [*run, "--from", "8", "--until", "10"])
    assert [json.loads(line)["start"] for line in result.stdout.splitlines()] == [8, 9, 10]
    explain = ["explain", str(tmp_path / "rules.cep"), "p(x)", "--at", "8", "-i", str(tmp_path / "in.jsonl")]
    told = CliRunner().invoke(app, explain).output
    assert "EVENTUALLY[1 s, 1 s] p(K) over [8, 8]" in told
    assert not any(line.endswith(" over ") for line in told.splitlines()), "what does not hold then is left out"

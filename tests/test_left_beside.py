"""`p(X, Y) SINCE q(X)` where something beside it has the Y: against brute force."""

from __future__ import annotations

import random

import polars as pl
import pytest

from cep.core.errors import CepError
from cep.engine import Engine, holds
from cep.events import Event, Held
from cep.explain.fluents import FluentFacts
from cep.explain.formulas import FormulaReader, set_of, when_of
from cep.explain.judging import Judge
from cep.explain.occurrences import Memory
from cep.runtime.maximal_intervals import held_of
from tests.long import seeds
from tests.reference_times import Codes, Frame, Reach, since, stretches

DECLARED = """fluent p(x: int, y: int) START s END e.
fluent q(x: int) START s END e.
fluent r(y: int) START s END e.
fluent h(x: int, y: int).
"""
LAST = 14
FRAME = Frame(-80, 120)
Piece = tuple[str, tuple[int, ...], int, int, str]


def pieces_of(rng: random.Random) -> list[Piece]:
    made: list[Piece] = []
    for _ in range(rng.randint(2, 9)):
        name = rng.choice("ppqqr")
        args = tuple(rng.choice((1, 2)) for _ in range(2 if name == "p" else 1))
        start = rng.randint(0, LAST)
        end = start + rng.choice((0, 0, 1, 2, 3, 5))
        made.append((name, args, start, end, "[]" if start == end else rng.choice(("[]", "[)", "(]", "()"))))
    return sorted(made, key=lambda piece: piece[2])


def codes_of(pieces: list[Piece]) -> dict[tuple[str, tuple[int, ...]], Codes]:
    found: dict[tuple[str, tuple[int, ...]], set[int]] = {}
    for name, args, start, end, bounds in pieces:
        first, last = 2 * start + (bounds[0] == "("), 2 * end - (bounds[1] == ")")
        found.setdefault((name, args), set()).update(range(first, last + 1))
    return {key: frozenset(codes) for key, codes in found.items()}


def expected(pieces: list[Piece], reach: Reach, ahead: bool, negated: bool) -> list[Held]:
    held, none = codes_of(pieces), frozenset[int]()
    made = []
    for x in (1, 2):
        for y in (1, 2):
            found = since(held.get(("p", (x, y)), none), held.get(("q", (x,)), none), reach, ahead, FRAME)
            beside = held.get(("r", (y,)), none)
            codes = (beside & held.get(("q", (x,)), none)) - found if negated else beside & found
            for first, last in stretches(codes):
                bounds = "[("[first % 2] + "])"[last % 2]
                made.append(Held("h", (x, y), first // 2, last // 2 + last % 2, bounds))
    return made


@pytest.mark.parametrize("seed", seeds(60))
def test_as_by_brute_force(seed: int) -> None:
    rng = random.Random(f"beside {seed}")
    pieces = pieces_of(rng)
    low = rng.choice((0, 0, 0, 1, 2))
    high = low + rng.choice((0, 1, 2, 4))
    reach = Reach(low, high, "[]" if low == high else rng.choice(("[]", "[)", "(]", "()")))
    word, negated = rng.choice(("SINCE", "UNTIL")), rng.random() < 0.3
    within = f"{reach.bounds[0]}{low / 1e6:.6f} s, {high / 1e6:.6f} s{reach.bounds[1]}"
    formula = f"(p(X, Y) {word}{within} q(X))"
    body = f"r(Y) AND q(X) AND NOT {formula}" if negated else f"{formula} AND r(Y)"
    program = f"{DECLARED}h(X, Y) WHILE {body}."
    wanted = expected(pieces, reach, word == "UNTIL", negated)
    engine, found, rest = Engine.from_text(program), [], pieces
    while rest:
        count = rng.randint(1, 4)
        batch, rest = rest[:count], rest[count:]
        tables = {}
        for name in {piece[0] for piece in batch}:
            mine = [piece for piece in batch if piece[0] == name]
            columns = {"start": [p[2] for p in mine], "end": [p[3] for p in mine], "bounds": [p[4] for p in mine]}
            names = {"p": "xy", "q": "x", "r": "y"}[name]
            tables[name] = pl.DataFrame(
                columns | {each: [p[1][place] for p in mine] for place, each in enumerate(names)}
            )
        found += held_of(engine.push(tables), engine.outputs, None, None)
        if rng.random() < 0.3:
            engine = Engine.from_text(program).restore(engine.snapshot())
    found += held_of(engine.close(), engine.outputs, None, None)
    key = lambda held: (held.args, held.start)  # noqa: E731
    assert sorted((each for each in found if each.type == "h"), key=key) == wanted, program


def test_what_an_event_begins_and_ends_a_thing_since() -> None:
    """The fluent holds from just after the event that the SINCE looks back to."""
    program = """event a(x: int) TIME t.
    fluent on(x: int, y: int).
    fluent near(y: int) START s END e.
    fluent h(x: int, y: int).
    initiate on(X, 7) <- a(X).
    h(X, Y) WHILE near(Y) AND (on(X, Y) SINCE[0 s, 10 s] a(X)).
    """
    events = [Event("near", (7,), 0, 9), Event("near", (8,), 0, 5), Event("a", (1,), 4, 4)]
    found = [(each.args, each.start, each.end) for each in holds(program, events) if each.type == "h"]
    assert found == [((1, 7), 4, 9), ((1, 8), 4, 4)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("q(X) AND ONCE (p(X, Y) SINCE q(X)) AND r(Y)", "`Y` is on the left of SINCE, but not on its right"),
        ("(h(X, Y) SINCE q(X)) AND r(Y)", "only the left of SINCE has `Y`"),
    ],
)
def test_what_is_refused(body: str, message: str) -> None:
    with pytest.raises(CepError, match=message):
        Engine.from_text(f"{DECLARED}h(X, Y) WHILE {body}.")


@pytest.mark.parametrize("word", ["SINCE", "UNTIL"])
def test_its_parts_are_read_again_as_they_hold(word: str) -> None:
    program = f"{DECLARED}h(X, Y) WHILE (p(X, Y) {word}[0 s, 0.000003 s] q(X)) AND r(Y)."
    engine = Engine.from_text(program, lateness=None, remember=2**62)
    pieces = [("p", (1, 7), 0, 5), ("r", (7,), 1, 9), ("q", (1,), 2, 4), ("r", (8,), 3, 6), ("p", (1, 8), 4, 8)]
    engine.receive([Event(*piece) for piece in pieces])
    engine.close()
    memory, judge = Memory(engine), Judge(engine, most=None)
    (rule,), reader = FluentFacts(memory).rules_of("h"), FormulaReader(memory, judge)
    found: dict[tuple, list[tuple[int, int]]] = {}
    for extent in reader.extents(rule.body, {}):
        args = tuple(judge.value(each, extent.bound)[0] for each in rule.arguments[:2])
        found.setdefault(args, []).extend(extent.when)
    held: dict[tuple, list[tuple[int, int]]] = {}
    for one in memory.find("h", {}, -(2**62), 2**62):
        held.setdefault(one.args, []).append(one.codes)
    assert held and {args: when_of(set_of(when)) for args, when in found.items() if when} == {
        args: tuple(sorted(when)) for args, when in held.items()
    }

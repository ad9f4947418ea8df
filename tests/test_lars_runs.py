"""LARS programs run: cut anywhere and stopped anywhere, what they give is what the whole gives."""

from __future__ import annotations

from random import Random

import polars as pl
import pytest

from cep.engine import Engine
from cep.language.dialects.lars.components import components
from tests.lars_maker import Maker, program_text
from tests.long import seeds

TICK = 1_000_000
DECLARED = "event a(x: {0}). event b(x: {0}, y: {0}). event c(). event d(x: {0}).\n"
WIDTHS = {"a": 1, "b": 2, "c": 0, "d": 1}


def case(rng: Random) -> tuple[str, list[tuple[int, str, tuple]]]:
    """A program without cycles through negation and its input, of which some is in the midst of ticks."""
    while True:
        maker = Maker(rng)
        program = maker.program()
        if not any(each.cyclic for each in components(program)):
            break
    known = set(WIDTHS) | program.derived | {r.head.predicate for r in program.rules if r.is_fact}
    asked = {each.atom.predicate for rule in program.rules for each in rule.body if hasattr(each, "atom")}
    lacking = [(name, width) for name, width in (("f", 1), ("g", 2)) if name in asked - known]
    facts = "".join(f"event {name}({', '.join(f'x{i}: {{0}}' for i in range(width))}).\n" for name, width in lacking)
    kind = {int: "int", float: "float", str: "string"}[type(maker.values[0])]
    stream = [
        (tick * TICK + rng.randrange(TICK), name, values)
        for tick, atoms in maker.stream(rng.randint(3, 10))
        for name, values in atoms
    ]
    return (DECLARED + facts).format(kind) + program_text(program), sorted(stream, key=lambda each: each[0])


def tables(engine: Engine, rows: list[tuple[int, str, tuple]]) -> dict[str, pl.DataFrame]:
    made = {}
    for name in {name for _, name, _ in rows} & engine.inputs.keys():
        own = [(time, place, *values) for place, (time, other, values) in enumerate(rows) if other == name]
        attributes = engine.inputs[name].attributes
        columns = {"time": [row[0] for row in own], "@order": [row[1] for row in own]}
        columns |= {each.name: [row[2 + at] for row in own] for at, each in enumerate(attributes)}
        made[name] = pl.DataFrame(columns)
    return made


def given(found: list[dict[str, pl.DataFrame]]) -> list[tuple]:
    """All changes, those of a time in an order of their own."""
    rows = [(name, *row) for each in found for name, table in each.items() for row in table.iter_rows()]
    return sorted(rows, key=str)


@pytest.mark.parametrize("seed", seeds(60))
def test_cuts_and_stops_make_no_difference(seed: int) -> None:
    rng = Random(f"lars {seed}")
    program, rows = case(rng)
    whole = Engine.from_text(program, dialect="lars", changes=True, lateness=None)
    whole.receive(tables(whole, rows))
    expected = given([whole.close()])
    engine = Engine.from_text(program, dialect="lars", changes=True, lateness=None)
    found, rest = [], rows
    while rest:
        count = rng.randint(1, 4)
        while count < len(rest) and rest[count][0] == rest[count - 1][0]:
            count += 1
        batch, rest = rest[:count], rest[count:]
        engine.receive(tables(engine, batch))
        found.append(engine.advance(batch[-1][0]))
        if rng.random() < 0.3:
            found.append(engine.advance(batch[-1][0] + rng.randrange(3 * TICK) if not rest else batch[-1][0]))
        if rng.random() < 0.4:
            again = Engine.from_text(program, dialect="lars", changes=True, lateness=None)
            engine = again.restore(engine.snapshot())
        if rng.random() < 0.3:
            engine.forget()
    found.append(engine.close())
    assert given(found) == expected, program

"""Fluents that come in as records and are defined by formulas too; records of dialects, which hold for good."""

from __future__ import annotations

import random
from collections.abc import Callable

import polars as pl
import pytest

from cep import api
from cep import compile as compiling
from cep.core.errors import CepError
from cep.engine import Engine, holds
from cep.events import Event, Held
from cep.runtime.maximal_intervals import held_of
from tests.long import seeds

BOTH = """event hush(a: string) TIME time.
event noise(a: string) TIME time.
fluent calm(a: string).
initiate calm(A) <- hush(A).
terminate calm(A) <- noise(A).
fluent near(a: string, b: string) START start END end.
near(A, B) WHILE ONCE[0 s, 2 s] calm(A) AND NOT near2(A, B) AND near3(B).
fluent near2(a: string, b: string) START start END end.
fluent near3(b: string) START start END end.
fluent at(a: string) = place: string START start END end.
at(A) = "home" WHILE calm(A).
left(A, B) <- END OF near(A, B).
"""
APART = (
    BOTH.replace("fluent near(a: string, b: string) START start END end.", "fluent near(a: string, b: string).")
    .replace("fluent at(a: string) = place: string START start END end.", "fluent at(a: string) = place: string.")
    .replace("near(A, B) WHILE ONCE", "near(A, B) WHILE told(A, B).\nnear(A, B) WHILE ONCE")
    .replace('at(A) = "home"', 'at(A) = P WHILE place_of(A) = P.\nat(A) = "home"')
    + "fluent told(a: string, b: string) START start END end.\n"
    + "fluent place_of(a: string) = place: string START start END end.\n"
)
SECOND = 1_000_000


def rows(rng: random.Random) -> list[Event]:
    made = []
    for _ in range(rng.randint(0, 40)):
        start = rng.randint(0, 20) * SECOND
        end = start + rng.randint(0, 8) * SECOND
        a, b = rng.choice("xy"), rng.choice("pq")
        name = rng.choice(("hush", "noise", "near", "near", "near2", "near3", "at"))
        args = {"hush": (a,), "noise": (a,), "near3": (b,), "at": (a, rng.choice(("home", "work")))}.get(name, (a, b))
        made.append(Event(name, args, start, start if name in ("hush", "noise") else end))
    return sorted(made, key=lambda each: each.start)


def renamed(events: list[Event]) -> list[Event]:
    names = {"near": "told", "at": "place_of"}
    return [Event(names.get(each.type, each.type), each.args, each.start, each.end) for each in events]


@pytest.mark.parametrize("seed", seeds(25))
def test_records_and_formulas_of_one_fluent_are_those_of_two(seed: int) -> None:
    rng = random.Random(seed)
    events = rows(rng)
    only = [each for each in holds(APART, renamed(events)) if each.type not in ("told", "place_of")]
    assert holds(BOTH, events) == only
    engine = Engine.from_text(BOTH)
    assert "near recorded" not in engine.outputs and "near" in engine.inputs
    tables = []
    while events:
        count = rng.choice((1, 3, 50))
        tables.append(engine.push(events[:count]))
        events = events[count:]
        engine = Engine.from_text(BOTH).restore(engine.snapshot())
    tables.append(engine.close())
    assert all("near recorded" not in each for each in tables)
    joined = {name: pl.concat([each[name] for each in tables if name in each]) for each in tables for name in each}
    assert sorted(held_of(joined, engine.outputs, None, None), key=repr) == sorted(only, key=repr)


def test_changes_of_a_fluent_that_comes_in_and_is_defined() -> None:
    engine = Engine.from_text(BOTH, changes=True)
    given = engine.push([Event("near", ("x", "p"), 0, SECOND), Event("hush", ("y",), 5 * SECOND, 5 * SECOND)])
    given |= {name: table for name, table in engine.close().items() if name not in given}
    assert set(given) == {"near", "calm", "at", "left"}
    assert given["near"]["@edge"].to_list() == ["begins", "ends"]


def test_changes_leave_out_what_lasting_asks() -> None:
    program = """event a(x: int) TIME time.
fluent g(x: int) START start END end.
fluent f(x: int).
f(X) WHILE g(X) LASTING > 3 s.
long(X) <- f(X).
"""
    for more in ({"changes": True}, {"begins": True}, {}):
        engine = Engine.from_text(program, **more)
        assert set(engine.outputs) == {"long", "g", "f"}
        engine.push([Event("g", (1,), 0, 5 * SECOND)])
        assert set(engine.close()) <= {"long", "g", "f"}


def dialect(name: str) -> Callable[[pl.DataFrame], list[Held]]:
    program = {"x.dmtl": "P(X) :- A(X)\n", "x.prolog": "holdsFor(p(X)=true, I) :- holdsFor(a(X)=true, I)."}[name]

    def run(table: pl.DataFrame) -> list[Held]:
        engine = Engine.from_text(program, name)
        fluent = next(each for each in engine.inputs if each.lower() == "a")
        columns = [each.name for each in engine.inputs[fluent].attributes][:-2]
        named = dict(zip(("v", "w"), columns, strict=False))
        frame = table.rename({k: v for k, v in named.items() if k in table.columns})
        out = engine.push({fluent: frame.select(*named.values(), "start", "end")})
        last = engine.close()
        assert not engine.take_dead()
        return [each for tables in (out, last) for each in held_of(tables, engine.outputs, None, None)]

    return run


@pytest.mark.parametrize("name", ["x.dmtl", "x.prolog"])
def test_no_record_of_a_dialect_closes_another(name: str) -> None:
    """What is true without an end stays so: in our own language a later record with its start would close it."""
    table = pl.DataFrame({"v": ["a", "a"], "w": ["true", "true"], "start": [0, 0], "end": [None, 5 * SECOND]})
    found = [each for each in dialect(name)(table) if each.type.lower() == "p"]
    assert [(each.start, each.end) for each in found] == [(0, None)]


def test_a_program_from_python_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    read = compiling.read

    def noted(text: str, *more: object) -> object:
        found.append(text)
        return read(text, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(compiling, "read", noted)
    text = "event a(k: int) TIME time.\nfact near(k: int).\nb(K) <- a(K) WHERE near(K).\n"
    near = pl.DataFrame({"k": [1]})
    assert api.Engine.from_text(text, facts={"near": near}).outputs.keys() == {"b"}
    assert api.detect(text, [Event("a", (1,), 0, 0)], facts={"near": near})["b"].height == 1
    assert len(found) == 2
    with pytest.raises(CepError, match="no condition of the program asks for `far`"):
        api.Engine.from_text(text, facts={"far": near})
    with pytest.raises(TypeError, match="latenes"):
        Engine.from_text(text, latenes=3)


def test_what_an_engine_gives_is_found_once() -> None:
    engine = Engine.from_text(BOTH, changes=True)
    assert engine.outputs is engine.outputs

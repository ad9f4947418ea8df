"""State by key: what an engine holds of some keys is taken out and put back, here or elsewhere, and nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cep.compile import compile
from cep.core.errors import CepError
from cep.engine import Engine, detect
from cep.events import Event
from cep.plan.partition import Stage, partition
from cep.runtime.state_by_key import redeal
from tests.keyed_programs import keyed_programs
from tests.programs import Program
from tests.rounds import Buckets
from tests.state_programs import PROGRAM, SECOND, stream
from tests.state_programs import given as rows_of
from tests.test_equivalence import check, examples, in_order, types

KEYS = [(value, other) for value in range(-1, 9) for other in range(-1, 9)] + [(value,) for value in range(-1, 9)]

PROGRAM_BY_KEY = "\n".join(line for line in PROGRAM.splitlines() if not line.startswith(("late", "same")))


def keyed(first: int, last: int) -> list[Event]:
    """The events of the stream that the program reads."""
    return [event for event in stream(first, last) if event.type != "d"]


class Moving(Buckets):
    """Between two rounds some keys are taken out and put back, and all goes to another number of buckets."""

    def round(self, tables: Mapping[str, pl.DataFrame], watermark: int) -> dict[str, pl.DataFrame]:
        for place, stage in enumerate(self.stages):
            if stage.keyed:
                self.engines[place] = self.moved(stage, self.engines[place])
        return super().round(tables, watermark)

    def moved(self, stage: Stage, engines: list[Engine]) -> list[Engine]:
        try:
            for engine in engines:
                keys = self.random.sample(KEYS, self.random.randrange(len(KEYS)))
                engine.replace(keys, engine.extract(keys))
            if self.random.random() < 0.5:
                return engines
            after = [self.engine(stage) for _ in range(self.random.randrange(1, 5))]
            redeal(engines, after)
            return after
        except CepError as error:
            assert error.code == "key"  # of a goal beside what is in every bucket: its rows go by no argument
            return engines


@examples(300, few=8)
@given(keyed_programs(), st.data())
def test_keys_move(program: Program, data: st.DataObject) -> None:
    events = in_order(program.events)
    try:
        expected = detect(program.text, events)
    except CepError:
        assume(False)  # a type that no event of the stream gives
    given_types = types(events)
    run = Moving(program.text, data.draw(st.integers(1, 4)), Random(data.draw(st.integers(0, 999))), types=given_types)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=5)))
    batches = [list(enumerate(events))[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)])]
    check(expected, run.run(batches), "keys that move (+) change what is derived (-)")


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param([], marks=pytest.mark.long),
        pytest.param([("k0",)], marks=pytest.mark.long),
        [("k1",), ("k4",), ("none",)],
    ],
)
def test_taken_out_and_put_back(keys: list[tuple[str]]) -> None:
    """Every operator, at every event: in one place, with what waits for the watermark."""
    text, options = PROGRAM_BY_KEY, {"lateness": 3 * SECOND}
    whole, engine = Engine.from_text(text, **options), Engine.from_text(text, **options)
    for i in range(90):
        assert rows_of(engine.push(keyed(i, i + 1))) == rows_of(whole.push(keyed(i, i + 1)))
        engine.replace(keys, engine.extract(keys))
    assert sorted(rows_of(engine.close())) == sorted(rows_of(whole.close()))


@pytest.mark.parametrize("at", [20, 41, 63])
def test_a_new_engine_goes_on_with_some_keys(at: int) -> None:
    """It gives what the one that had them would have given of them; that one gives the rest."""
    options: dict[str, Any] = {"lateness": 3 * SECOND}
    whole = Engine.from_text(PROGRAM_BY_KEY, **options)
    one, other = Engine.from_text(PROGRAM_BY_KEY, **options), Engine.from_text(PROGRAM_BY_KEY, **options)
    whole.push(keyed(0, at))
    one.push([Event("a", (f"z{i}", 1), 0, 0) for i in range(7)])  # other codes of the same values
    one.advance(0)
    one = Engine.from_text(PROGRAM_BY_KEY, **options)
    one.push(keyed(0, at))
    keys = [("k0",), ("k4",)]
    held = one.state_rows
    other.replace(keys, one.extract(keys))
    assert 0 < other.state_rows < held and one.state_rows + other.state_rows == held
    expected = rows_of(whole.push(keyed(at, 90)), whole.close())
    rest = keyed(at, 90)
    mine = [event for event in rest if (event.args[0],) in keys]
    theirs = [event for event in rest if (event.args[0],) not in keys]
    found = [rows_of(e.push(part), e.advance(86 * SECOND), e.close()) for e, part in ((other, mine), (one, theirs))]
    of_keys = [row for row in expected if (row[3],) in keys]
    assert sorted(found[0]) == sorted(of_keys) and of_keys
    assert sorted(found[1]) == sorted(row for row in expected if (row[3],) not in keys)


def test_values_have_other_codes_in_another_engine() -> None:
    text = "event a(k: string, v: string). event b(k: string). both(K, V) <- a(K, V) AND b(K).\n" + (
        "first(K, F, N) <- a(K, V) AGGREGATE F = first(V), N = count(distinct V) OVER LAST 100 BY K.\n"
        "alone(K, V) <- a(K, V) UNLESS b(K) WITHIN 9 s."
    )
    one, other = Engine.from_text(text, lateness=None), Engine.from_text(text, lateness=None)
    one.push([Event("a", (f"k{i}", f"v{i}"), i, i) for i in range(5)])
    other.push([Event("a", (f"x{i}", f"w{i}"), i, i) for i in range(3)])
    one.advance(10), other.advance(10)
    keys = [("k3",), ("x1",)]
    other.replace(keys, one.extract(keys))
    found = rows_of(other.push([Event("b", (k,), 20, 20) for k in ("k3", "x1", "x2")]), other.advance(30))
    assert sorted(found) == [("both", 2, 20, "x2", "w2"), ("both", 3, 20, "k3", "v3")]
    found = rows_of(other.push([Event("a", ("k3", "v3"), 40, 40)]), other.advance(50))
    assert ("first", 3, 40, "k3", "v3", 1) in found


def test_what_runs_by_no_key_is_refused() -> None:
    with pytest.raises(CepError, match=r"does not run by one key: .*has no BY") as caught:
        Engine.from_text("event a(k: int). x(N) <- a(K) AGGREGATE N = count() OVER LAST 5.").extract([(1,)])
    assert caught.value.code == "key"
    with pytest.raises(CepError, match="an engine with `explain` cannot keep its state by key"):
        Engine.from_text(PROGRAM_BY_KEY, explain=True).extract([("k",)])
    engine = Engine.from_text(PROGRAM_BY_KEY)
    state = engine.extract([("k",)])
    with pytest.raises(CepError, match="another program"):
        engine.restore(state)
    with pytest.raises(CepError, match="another program"):
        engine.replace([("k",)], engine.snapshot())
    later = Engine.from_text(PROGRAM_BY_KEY)
    later.push(keyed(0, 5))
    with pytest.raises(CepError, match="another watermark"):
        later.replace([("k",)], state)
    assert not later.broken


def test_the_program_is_one_stage_by_key() -> None:
    (stage,) = partition(Engine.from_text(PROGRAM_BY_KEY).plan)
    assert stage.keyed and set(stage.inputs.values()) == {(0,)}


def test_a_program_is_compiled_once_and_run_by_many() -> None:
    """Each engine has values of its own."""
    compiled = compile(PROGRAM_BY_KEY)
    expected = rows_of(Engine(compiled).push(keyed(0, 90)))
    one, other = Engine(compiled), Engine(compiled)
    found = [rows_of(one.push(keyed(0, 30))), rows_of(other.push(keyed(0, 90))), rows_of(one.push(keyed(30, 90)))]
    assert found[1] == expected and sorted(found[0] + found[2]) == sorted(expected)
    assert one.pool is not other.pool
    assert one.restore(other.snapshot()).position == other.position


def test_what_belongs_to_every_key_goes_along() -> None:
    """A small event is in every bucket: a new engine has what waits of it, and the one before keeps it."""
    text = "event reading(s: string, v: int). event alarm(a: int).\n" + (
        "rise(S) <- reading(S, V) SEQ reading(S, W) WHERE W > V.\n"
        "hit(S, A) <- reading(S, _) AND alarm(A).\n"
        "calm(S, V, W) <- NOT(alarm(_)).[reading(S, V), reading(S, W)] POLICY chronological.\n"
    )
    (stage,) = partition(Engine.from_text(text).plan)
    assert stage.inputs == {"alarm": "broadcast", "reading": (0,)}
    whole, one, other = (Engine.from_text(text) for _ in range(3))
    first = [Event("reading", ("s1", 1), 1, 1), Event("alarm", (7,), 2, 2), Event("reading", ("s2", 1), 3, 3)]
    for engine in (whole, one):
        engine.push(first)
    keys = [("s1",), ("s3",)]
    other.replace(keys, one.extract(keys))
    rest = [Event("reading", (f"s{s}", 5), 10 + s, 10 + s) for s in range(1, 4)] + [Event("alarm", (8,), 20, 20)]
    expected = rows_of(whole.push(rest), whole.close())
    found = []
    for engine, mine in ((one, ("s2",)), (other, ("s1", "s3"))):
        part = [event for event in rest if event.type == "alarm" or event.args[0] in mine]
        found += rows_of(engine.push(part), engine.close())
    assert sorted(found) == sorted(expected) and len(expected) > 8


def test_what_has_no_key_is_refused_before_anything_is_taken_out() -> None:
    """Rows that go to any bucket wait beside those that go to every one."""
    text = """e(K, K) <- NOT(c(K, L)).[c(K, X), a(K, X)].
    f(Y + 1) <- (((e(X, X) OR b(_, X)) STARTS (a(_, Y) WHERE q(Y))) WHERE q(X), start() != 4).
    q(1). q(2)."""
    stages = partition(Engine.from_text(text).plan)
    (mixed,) = [stage.number for stage in stages if {"whole", "broadcast"} <= set(stage.inputs.values())]
    engine = Engine.from_text(text, stage=mixed, lateness=None)
    with pytest.raises(CepError, match="line 2 has no key"):
        engine.extract([(1,)])
    assert not engine.broken

"""Rules of one shape run as one family, with the same result as each rule by itself."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import polars as pl
import pytest

from cep.core.errors import CepError
from cep.engine import Engine
from cep.operators.goals.pairs import join_family, rows_by_key
from cep.operators.goals.pairs.join_family import divided
from cep.runtime import family
from tests.cases_format import known

MEMBERS, PUSHES, STEP = 6, 5, 90_000
ALONE = 10**9
SHAPES = (
    'hot{i}(R, T) <- e{i}(R, T, _) WHERE T > {c}.\ntwice{i}(R, T * 2, "x") <- hot{i}(R, T) WHERE T < {d}.',
    "rise{i}(R, A, B) <- (e{i}(R, A, _) SEQ e{i}(R, B, _) WHERE A < {c}, B > {d}) WITHIN 40 ms.",
    "rise{i}(R, A, B) <- (e{i}(R, A, _) SEQ e{i}(R, B, _) WHERE A < B, B > {d} WITHIN 40 ms POLICY recent).",
    "used{i}(A, B) <- (e{i}(_, A, N) SEQ f{i}(_, B, N) WHERE A < B WITHIN 60 ms POLICY chronological).",
    "both{i}(R, A, B) <- (e{i}(R, A, _) AND f{i}(R, B, _) WHERE A > {c}) WITHIN 50 ms.",
    'free{i}(A, B) <- (e{i}({r}, A, _) SEQ f{i}(_, B, "a")) WITHIN 30 ms.',
    "long{i}(R) <- e{i}(R, A, N) SEQ f{i}(R, A, N) SEQ e{i}(R, _, _) WITHIN 70 ms.",
    'either{i}(R) <- hot{i}(R, _).\nhot{i}(R, T) <- e{i}(R, T, _) WHERE T != {c}.\neither{i}(R) <- f{i}(R, _, "b").',
    "never{i}(R, A) <- (NOT(f{i}(R, _, _)).[e{i}(R, A, _), e{i}(R, _, _)]) WITHIN 60 ms.",
    "mean{i}(R, M) <- warm{i}(R, T) AGGREGATE M = avg(T) OVER LAST 50 ms BY R.\n"
    "warm{i}(R, T) <- e{i}(R, T, _) WHERE T > {c}.",
)
SHARED = (
    "far{i}(R, A, B) <- (s(R, A, _) SEQ s(R, B, _) WHERE A < {c}, B > {d}.{i}) WITHIN 40 ms.",
    "far{i}(R, A, B) <- (s(R, A, _) SEQ t(R, B, _) WHERE A < {c}.{i}, B > {d} WITHIN 40 ms POLICY recent).",
    "hit{i}(R, T * 2) <- s(R, T, _) WHERE T > {c}, T < {d}.",
    "hit{i}(R, T) <- s(R, T, N) WHERE T != {c}, R = {r}.\n"
    "hits{i}(N) <- hit{i}(R, _) AGGREGATE N = count() OVER LAST 50 ms.",
    "room{i}(T) <- s({r}, T, _) WHERE T > {c}.{i}.\nrooms{i}(A, B) <- (room{i}(A) SEQ room{i}(B)) WITHIN 60 ms.",
    "link{i}(R, A, B) <- (e{i}(R, A, _) SEQ s(R, B, _) WHERE B > {d}) WITHIN 50 ms.",
    "lone{i}(R, A) <- (NOT(e{i}(R, _, _)).[s(R, A, _), s(R, B, _)] WHERE A > {c}, B > {d}) WITHIN 60 ms.\n"
    "some{i}(R) <- s(R, T, _) WHERE T > {c}.{i}.",
    "up{i}(R) <- mild(R, T) WHERE T > {c}.\nmild(R, T) <- s(R, T, _) WHERE T < 60.",
    "same{i}(R, T) <- s(R, T, _) WHERE T > {c}.\nsame{i}(R, T) <- t(R, T, _) WHERE T = {d}.",
)
"""Rules over events that all members share."""
KNOWING = (
    "named{i}(R, T) <- s(R, T, N) WHERE T > {c}.{i}, {{ ?x k:name ?N }}.",
    "named{i}(A, B) <- (e{i}(R, A, N) SEQ f{i}(R, B, N) WHERE A > {c}, not {{ ?x k:name ?N }}) WITHIN 60 ms.",
    "sized{i}(R, H) <- s(R, T, N) WHERE T > {c}.{i}, {{ ?x k:name ?N ; k:size ?H }}.",
)
"""Rules that query knowledge, which changes."""
PREFIX = "PREFIX k: <http://example.org/>\n"


def _program(random: Random, shapes: Sequence[str]) -> str:
    """Rules of these shapes for every member. Some members deviate."""
    lines = [f"event {event}(room: int, temp: float in 0..90, name: string?) TIME time." for event in "st"]
    for i in range(MEMBERS):
        for event in "ef":
            lines.append(f"event {event}{i}(room: int, temp: float in 0..90, name: string?) TIME time.")
        for shape in shapes if random.random() < 0.9 else random.sample(shapes, 1):
            constants = {
                "c": random.choice((5, 8, 20, 40)),
                "d": random.choice((20, 28, 60)),
                "r": random.choice((1, 2)),
            }
            lines.append(shape.format(i=i, **constants))
    return "\n".join(dict.fromkeys("\n".join(lines).split("\n")))


def _pushes(random: Random) -> list[dict[str, pl.DataFrame]]:
    """Small tables, with records that are refused, that are late and that are equal to others."""
    pushes = []
    for push in range(PUSHES):
        tables = {}
        for name in random.sample(["s", "t", *(f"{event}{i}" for event in "ef" for i in range(MEMBERS))], 2 * MEMBERS):
            count = random.choice((0, 1, 2, 5, 9))
            tables[name] = pl.DataFrame(
                {
                    "room": pl.Series([random.choice((1, 2, None)) for _ in range(count)], dtype=pl.Int64),
                    "temp": [float(random.choice((3, 10, 30, 50, 70, 99))) for _ in range(count)],
                    "name": pl.Series([random.choice(("a", "b", None)) for _ in range(count)], dtype=pl.String),
                    "time": [STEP * push + 10_000 * random.randrange(-1, 10) for _ in range(count)],
                },
                {"room": pl.Int64, "temp": pl.Float64, "name": pl.String, "time": pl.Int64},
            )
        pushes.append(tables)
    return pushes


def _results(engine: Engine, tables: dict[str, pl.DataFrame] | None) -> dict[str, object]:
    """Push tables, or end the input. Return the output and the rows that are refused or merged."""
    out = engine.close() if tables is None else engine.push(tables)
    return {
        "output": {name: table.to_dict(as_series=False) for name, table in out.items()},
        "refused": engine.take_dead(),
        "merged": engine.take_merged(),
    }


def _counts(engine: Engine) -> dict[object, int]:
    return {count.unit: count.produced for count in engine.take_counts() if count.produced}


@pytest.mark.parametrize("kind", ["own", "shared", "knowing"])
@pytest.mark.parametrize("options", [{}, {"lateness": 30_000}], ids=str)
@pytest.mark.parametrize("seed", range(45))
def test_as_each_rule_by_itself(monkeypatch: pytest.MonkeyPatch, seed: int, options: dict[str, int], kind: str) -> None:
    """Snapshots of one go on in the other."""
    random = Random(seed)
    drawn = {"own": SHAPES, "shared": SHARED, "knowing": KNOWING}[kind]
    shapes = random.sample(drawn, random.choice((1, 1, 2)))
    if kind != "own" and random.random() < 0.5:
        shapes.append(random.choice(SHAPES))
    text, pushes = _program(random, shapes), _pushes(random)
    monkeypatch.setattr(family, "REPEATED", random.choice((1, 3, 1 << 16)))
    monkeypatch.setattr(family, "MANY", random.choice((0, 0.5, 1, 1 << 10)))

    def engine(least: int) -> Engine:
        monkeypatch.setattr(family, "LEAST", least)
        knowledge = known(PREFIX + 'k:a k:name "a" ; k:size 1 .') if kind == "knowing" else None
        return Engine.from_text(PREFIX + text, knowledge=knowledge, **options)  # type: ignore[arg-type]

    least = random.choice((2, 4)) if kind == "shared" else 3
    alone, together = engine(ALONE), engine(least)
    assert (together._machine.families or kind == "knowing") and not alone._machine.families
    assert any(part.shared for part in together._machine.families) or kind != "shared"
    for number, tables in enumerate([*pushes, None]):
        if kind == "knowing" and random.random() < 0.5:
            time, name = STEP * number + random.randrange(STEP), random.choice("ab")
            changes = [PREFIX + f'k:{name} k:name "{name}" .', PREFIX + f"k:{name} k:size {number} ."]
            changes = random.sample(changes, random.choice((1, 2)))
            for running in (alone, together):
                running.update(time, *changes)
        expected = _results(alone, tables)
        assert _results(together, tables) == expected
        if random.random() < 0.5 and tables is not None:
            assert _counts(together) == _counts(alone)
        if number % 2:
            blob = together.snapshot()
            again = engine(least).restore(blob)
            assert again.snapshot() == blob, "a restored snapshot is the same snapshot"
            crossed = engine(ALONE).restore(blob)
            together, alone = engine(least).restore(alone.snapshot()), crossed
        elif random.random() < 0.3:
            together.forget()
            alone.forget()


def test_a_family_that_would_read_what_it_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules over `s` and rules over what the first of them derives have one shape, but cannot run at the same time."""
    monkeypatch.setattr(family, "LEAST", 2)
    rules = "".join(
        f"hit{i}(R, T) <- s(R, T) WHERE T > {i}.\nagain{i}(R, T) <- hit0(R, T) WHERE T > {i}.\n" for i in range(4)
    )
    engine = Engine.from_text(f"event s(room: int, temp: float) TIME time.\n{rules}")
    derived = engine.push({"s": pl.DataFrame({"room": [1, 2, 3], "temp": [1.5, 3.5, 0.0], "time": [1, 2, 3]})})
    assert {name: table.height for name, table in derived.items()} == {
        f"{event}{i}": count for event in ("hit", "again") for i, count in enumerate((2, 2, 1, 1))
    }


MANY = 70
RISES = "".join(
    f"event e{i}(room: int, temp: float) TIME time.\n"
    f"rise{i}(R, A, B) <- (e{i}(R, A) SEQ e{i}(R, B) WHERE A < {i % 7}, B > {90 - i}) WITHIN 1 s.\n"
    for i in range(MANY)
)


def _readings(push: int, random: Random) -> dict[str, pl.DataFrame]:
    """Five readings of each event, within half a second."""
    return {
        f"e{i}": pl.DataFrame(
            {
                "room": [random.randrange(3) for _ in range(5)],
                "temp": [float(random.randrange(100)) for _ in range(5)],
                "time": [500_000 * push + 100_000 * n for n in range(5)],
            }
        )
        for i in range(MANY)
    }


@pytest.mark.parametrize("options", [{"explain": True}, {"revise": 10_000_000}], ids=str)
def test_lineage_and_revision_run_rules_alone(options: dict[str, int]) -> None:
    """With the same results."""
    random, together = Random(1), Engine.from_text(RISES)
    alone = Engine.from_text(RISES, **options)  # type: ignore[arg-type]
    (only,) = together._machine.families
    assert len(only.inlets) == MANY and not alone._machine.families
    derived: dict[Engine, list[tuple[object, ...]]] = {together: [], alone: []}
    for push in range(7):
        tables = _readings(push, random)
        for engine, rows in derived.items():
            out = engine.push(tables) if push < 6 else engine.close()
            for name, table in out.items():
                rows += [(name, *row) for row in table["r", "a", "b", "start", "end"].rows()]
        assert len(together._buffer._waiting) == (push < 6), "they wait as one table"
    assert len(derived[alone]) > 50 and sorted(derived[together], key=str) == sorted(derived[alone], key=str)


FLUENT = "fluent near(a: string, b: string) START s END e.\nleave(A, B) <- END OF near(A, B).\n"


def test_counts_sizes_and_late_records_do_not_divide_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round of `serve` and of workers asks for counts and sizes, which must not cost as much as the state."""
    monkeypatch.setattr(rows_by_key, "MANY", 1024)  # in the checked run it is 0, and rows expire later in single goals
    random, together = Random(2), Engine.from_text(FLUENT + RISES)
    monkeypatch.setattr(family, "LEAST", ALONE)
    alone = Engine.from_text(FLUENT + RISES)
    divisions = list[object]()
    monkeypatch.setattr(join_family, "divided", lambda goal, members: divisions.append(goal) or divided(goal, members))
    for push in range(4):
        tables = _readings(push, random)
        open_ended = {"a": ["x"], "b": ["y"], "start": [600_000 * push], "end": [None], "bounds": ["[)"]}
        closes = {**open_ended, "start": [600_000 * (push - 1)], "end": [500_000 * push + 450_000]}
        tables["near"] = pl.DataFrame(open_ended) if push % 2 == 0 else pl.DataFrame(closes)
        results = [_results(engine, tables) for engine in (together, alone)]
        assert results[0] == results[1]
        counts = [
            {(count.unit, count.produced, count.rows) for count in engine.take_counts() if count.produced or count.rows}
            for engine in (together, alone)
        ]
        assert together.state_rows == alone.state_rows and together.state_bytes > 0
        assert counts[0] == counts[1] and len(together._buffer._waiting) == 1
    assert not divisions
    alone.restore(together.snapshot())
    assert together.state_rows == alone.state_rows > 0 and len(divisions) == 1


def test_a_snapshot_with_the_rows_of_an_inlet_is_damaged() -> None:
    engine = Engine.from_text(RISES)
    engine.push(_readings(0, Random(3)))
    (inlet,) = engine._machine.families[0].events
    with pytest.raises(CepError, match="damaged"):
        engine._buffer.restore({inlet: engine._buffer.waiting["e0"][0]}, engine._buffer.times())

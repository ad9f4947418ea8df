"""A replay ends where the state is what was kept, and is of those stretches alone that a late record reaches."""

from __future__ import annotations

import polars as pl
import pytest

from cep.engine import Engine
from cep.runtime.revision import incremental
from cep.runtime.revision.rerunning import StageReplay

PROGRAM = """
event a(k: int).
event b(k: int).
event c(k: int).
e(K) <- a(K) EQUALS b(K).
f(K) <- a(K) SEQ c(K) WITHIN 5 ms.
"""


MS = 1000


def table(times: list[int]) -> pl.DataFrame:
    """Records of one key at these milliseconds."""
    return pl.DataFrame({"time": [MS * time for time in times], "k": [1] * len(times)})


def engine_of(monkeypatch: pytest.MonkeyPatch) -> tuple[Engine, list[int]]:
    """An engine with a window of many stretches, and where the replays that it makes end."""
    engine, runs = Engine.from_text(PROGRAM, revise=160 * MS), list[int]()
    run = StageReplay.run
    for cost in ("A_PUSH", "A_ROW"):  # changes never pay
        monkeypatch.setattr(incremental, cost, 0)

    def counted(self, states, inputs, frontier):  # type: ignore[no-untyped-def]
        runs.append(frontier.watermark)
        return run(self, states, inputs, frontier)

    monkeypatch.setattr(StageReplay, "run", counted)
    engine.push({"a": table([*range(2, 160, 4)]), "b": table([*range(2, 160, 4)]), "c": table([160])})
    return engine, runs


@pytest.mark.parametrize("sign", [1, -1])
def test_one_stretch_is_run_again_where_nothing_later_differs(sign: int, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, runs = engine_of(monkeypatch)
    time = 83 if sign == 1 else 82
    late = table([time]).with_columns(pl.Series("@change", [sign], pl.Int8))
    made = engine.push({"a": late})
    assert len(runs) == 1
    assert [(name, each["start"].to_list()) for name, each in made.items() if each.height] == (
        [] if sign == 1 else [("e", [82 * MS])]
    )


def test_what_lies_between_two_late_records_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, runs = engine_of(monkeypatch)
    made = engine.push({"a": table([157]), "b": table([21])})
    assert runs == [30 * MS, 160 * MS], "the stretch of 21, and that of 157"
    assert [(each["start"].to_list(), each["end"].to_list()) for each in made.values() if each.height] == [
        ([157 * MS], [160 * MS])
    ]


def test_late_records_are_found_among_many_of_one_instant() -> None:
    """Of so many that they are looked up by their hashes: equal records are as many, one withdrawal takes one."""
    engine = Engine.from_text("event a(k: int).\ne(K) <- a(K).", revise=100)
    engine.push({"a": pl.DataFrame({"time": [5] * 300 + [9], "k": [*range(300), 0]})})
    again = pl.DataFrame({"time": [5] * 300, "k": [*range(150, 450)]})
    made = engine.push({"a": again})["e"]
    assert made["k"].sort().to_list() == list(range(150, 450)) and (made["@change"] == 1).all()
    gone = again.with_columns(pl.Series("@change", [-1] * 300, pl.Int8))
    made = engine.push({"a": gone})["e"]
    assert made["k"].sort().to_list() == list(range(150, 450)) and (made["@change"] == -1).all()
    assert not engine.take_dead()

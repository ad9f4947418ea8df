"""`--migrate`: a checkpoint goes on with other rules; the unchanged ones remember what they did, or it says why not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cep import progress
from cep.cli import app
from cep.engine import Engine
from cep.errors import CepError
from cep.spark.checkpoint import Kept, claim
from cep.spark.migration import Laid, Migration, migrated
from tests import spark_runs
from tests.test_spark_command import lines

pytestmark = pytest.mark.xdist_group("spark")

READING = "event a(k: string, x: int).\nevent b(k: string).\n"
RISE = "rise(K) <- a(K, X) SEQ a(K, Y) WHERE Y > X.\n"
PAIR = "pair(K) <- a(K, _) SEQ b(K).\n"


def laid(text: str, *wanted: str) -> Laid:
    engine = Engine.from_text(text)
    return Laid.of(engine, wanted or tuple(engine.outputs))


@pytest.mark.parametrize(
    ("before", "now", "carried"),
    [
        (RISE + PAIR, RISE + PAIR, Migration(("line 3: rise", "line 4: pair"), (), ())),
        (RISE, PAIR + RISE, Migration(("line 4: rise",), ("line 3: pair",), ())),
        (RISE + PAIR, RISE, Migration(("line 3: rise",), (), ("line 4: pair",))),
        (RISE + PAIR, RISE + PAIR.replace("b(K)", "b(K) WITHIN 5 s"),
         Migration(("line 3: rise",), ("line 4: pair",), ("line 4: pair",))),
    ],
)  # fmt: skip
def test_what_is_carried_over(before: str, now: str, carried: Migration) -> None:
    assert migrated(laid(READING + before), laid(READING + now)) == carried


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        (RISE, RISE + "all(N) <- rise(_) AGGREGATE N = count() OVER LAST 1 h.", "1 stages before, 2 now"),
        (
            "rise(K, L) <- e(K, L) SEQ e(K, L).",
            "rise(K, L) <- e(K, L) SEQ e(K, L). same(L) <- e(_, L) SEQ e(_, L).",
            "stage 1 deals `e` by argument 2, before by argument 1 and 2",
        ),
        (RISE, RISE + "soon(K) <- 5 SEQ b(K).", "line 4: soon: a new time point"),
    ],
)
def test_what_cannot_be(before: str, now: str, why: str) -> None:
    with pytest.raises(CepError, match="--migrate: the state cannot be carried over") as found:
        migrated(laid(READING + before), laid(READING + now))
    assert why in str(found.value)


def test_another_place() -> None:
    here = laid(READING + RISE)
    for stage, why in [
        ({"keyed": False}, "stage 1 ran in buckets, and would run in one place"),
        ({"goals": []}, "line 3: rise: another stage"),
    ]:
        with pytest.raises(CepError, match=why):
            migrated(here, replace(here, stages=[here.stages[0] | stage]))
    assert migrated(here, here).on == ("line 3: rise",)


def test_other_attributes_and_columns() -> None:
    with pytest.raises(CepError, match="`a` comes with other attributes: string, int before, string, float now"):
        migrated(laid(READING + RISE), laid(READING.replace("x: int", "x: float") + RISE))
    two = READING + RISE + PAIR
    other = two.replace("pair(K)", "pair(K + 0)").replace("k: string", "k: int")
    with pytest.raises(CepError, match="columns of `rise`"):
        migrated(laid(two), laid(other.replace("rise(K)", 'rise("r")')))


def kept(text: str, folder: Path, **other: Any) -> Kept:
    engine = Engine.from_text(text)
    made = Kept(
        engine.program, text, None, {}, None, None, 4, str(folder / "out"), "jsonl", list(engine.outputs), laid(text)
    )
    return replace(made, **other)


def test_a_checkpoint_knows_what_has_been_there_ever_since(tmp_path: Path) -> None:
    state = tmp_path / "state"
    texts = [READING + rules for rules in (RISE + PAIR, RISE, RISE + PAIR)]
    first, moved = claim(state, kept(texts[0], tmp_path))
    assert moved is None and first.states == {}
    with pytest.raises(CepError, match="is of another program") as refused:
        claim(state, kept(texts[1], tmp_path))
    assert f"-{PAIR}" in f"{refused.value}\n" and "add `--migrate`" in str(refused.value)
    second, moved = claim(state, kept(texts[1], tmp_path), True)
    assert moved is not None and str(moved) == "go on: line 3: rise; are gone: line 4: pair"
    assert second.states == {first.program: frozenset(second.laid.goals)}
    # Back again.
    third, moved = claim(state, kept(texts[2], tmp_path), True)
    assert moved is not None and moved.empty == ("line 4: pair",)
    assert claim(state, kept(texts[2], tmp_path)) == (third, None)
    assert third.states == {second.program: frozenset(second.laid.goals)}
    for other, why in [({"buckets": 8}, "buckets: 4 before, 8 now"), ({"format": "parquet"}, "format: jsonl before")]:
        with pytest.raises(CepError, match=why):
            claim(state, kept(texts[2], tmp_path, **other), True)
    (state / "semcep.json").write_text("{}")
    with pytest.raises(CepError, match="is damaged"):
        claim(state, kept(texts[2], tmp_path))


def test_a_run_killed_while_it_made_its_checkpoint(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / ".semcep.json").write_text('{"program": ')
    made, _ = claim(state, kept(READING + RISE, tmp_path))
    assert claim(state, kept(READING + RISE, tmp_path)) == (made, None)
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(CepError, match="is not empty, and no checkpoint of this command"):
        claim(other, kept(READING + RISE, tmp_path))


FIRE = """\
event heat(room: string, temp: float).
event smoke(room: string).
fire(R, T) <- smoke(R) SEQ heat(R, T) WHERE T > 50 WITHIN 1 h.
"""


@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
def test_rules_that_change_between_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_runs.spark()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "compiled", lambda: True)
    Path("days").mkdir()
    Path("fire.cep").write_text(FIRE)

    def run(*arguments: str) -> Result:
        places = ["--output", "out", "--checkpoint", "state", "--buckets", "2", "--output-format", "jsonl"]
        options = [*places, "--input", "days", "--lateness", "5 s", *arguments]
        return CliRunner().invoke(app, ["run", "fire.cep", "--on", "spark", *options], prog_name="cep")

    def day(name: str, *rows: tuple[str, int, str, float | None]) -> None:
        records = [{"type": type, "time": time, "room": room, "temp": temp} for type, time, room, temp in rows]
        Path("days", name).write_text("".join(json.dumps(record) + "\n" for record in records))

    day("1.jsonl", ("smoke", 10, "attic", None), ("heat", 11, "attic", 20.0), ("heat", 60, "cellar", 60.0))
    assert run("--once").exit_code == 0
    Path("fire.cep").write_text(FIRE + "hot(R) <- heat(R, T) SEQ heat(R, U) WHERE T > 0, U > 0.\n")
    day("2.jsonl", ("heat", 70, "attic", 70.0), ("heat", 71, "attic", 80.0))
    refused = run("--once")
    assert refused.exit_code == 2 and "+hot(R)" in refused.stderr and "add `--migrate`" in refused.stderr
    result = run("--migrate")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        0,
        "carried over: go on: line 3: fire; start empty: line 4: hot",
    )
    found = sorted((one["type"], one["r"], one["start"][-3:], one["end"][-3:]) for one in lines("out"))
    # The heat at 11 s was before the rule; that at 60 s was still waiting for the watermark.
    assert found == [("fire", "attic", "10Z", "10Z"), ("fire", "attic", "10Z", "11Z"), ("hot", "attic", "10Z", "11Z")]

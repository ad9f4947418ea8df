"""`--migrate`: a checkpoint goes on with other rules; the unchanged ones remember what they did, or it says why not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.core.compilation import Compilation
from cep.core.errors import CepError
from cep.core.time import BEGINNING
from cep.engine import Engine
from cep.spark import job
from cep.spark.state.checkpoint import CheckpointInfo, claim
from cep.spark.state.migration import EarlierInput, Generation, Migration, StartingPoint, StateLayout, migrated
from tests import spark_runs

pytestmark = pytest.mark.xdist_group("spark")

READING = "event a(k: string, x: int).\nevent b(k: string).\n"
RISE = "rise(K) <- a(K, X) SEQ a(K, Y) WHERE Y > X.\n"
PAIR = "pair(K) <- a(K, _) SEQ b(K).\n"


def laid(text: str, *wanted: str) -> StateLayout:
    engine = Engine.from_text(text)
    return StateLayout.of(engine, wanted or tuple(engine.outputs))


STAGES = "all(N) <- rise(_) AGGREGATE N = count() OVER LAST 1 h.\n"
SOON = "soon(K) <- 5 SEQ b(K).\n"


@pytest.mark.parametrize(
    ("before", "now", "carried", "sources"),
    [
        (RISE + PAIR, RISE + PAIR, Migration(("line 3: rise", "line 4: pair"), (), ()), [1]),
        (RISE, PAIR + RISE, Migration(("line 4: rise",), ("line 3: pair",), ()), [1]),
        (RISE + PAIR, RISE, Migration(("line 3: rise",), (), ("line 4: pair",)), [1]),
        (RISE + PAIR, RISE + PAIR.replace("b(K)", "b(K) WITHIN 5 s"),
         Migration(("line 3: rise",), ("line 4: pair",), ("line 4: pair",)), [1]),
        # Another number of stages, and a time point.
        (RISE, RISE + STAGES, Migration(("line 3: rise",), ("line 4: all",), ()), [1, 0]),
        (RISE + STAGES, RISE, Migration(("line 3: rise",), (), ("line 4: all",)), [1]),
        (SOON, RISE + SOON, Migration(("line 4: soon",), ("line 3: rise",), ()), [1]),
        (RISE, RISE + SOON, Migration(("line 3: rise",), ("line 4: soon",), ()), [1]),
    ],
)  # fmt: skip
def test_what_is_carried_over(before: str, now: str, carried: Migration, sources: list[int]) -> None:
    assert migrated(laid(READING + before), laid(READING + now)) == (carried, sources)


@pytest.mark.parametrize(
    ("before", "now", "lacking"),
    [
        (RISE, RISE + PAIR, {"line 4: pair": None}),
        (RISE, RISE + PAIR.replace("b(K)", "b(K) WITHIN 5 s"), {"line 4: pair": 105}),
        (RISE, RISE.replace(">", ">=").replace("X.", "X WITHIN 1 min.") + STAGES,
         {"line 3: rise": 160, "line 4: all": 3760}),
        (RISE, RISE + "high(K) <- a(K, X) WHERE X > 3.\n", {}),
        (RISE + PAIR, RISE, {}),
    ],
)  # fmt: skip
def test_new_rules_may_lack_results(before: str, now: str, lacking: dict[str, int | None]) -> None:
    seconds = {rule: time if time is None else time * 10**6 for rule, time in lacking.items()}
    start = StartingPoint(1, laid(READING + before), {}, 0, 100 * 10**6, {}, None, [], 1, 0)
    engine = Engine.from_text(READING + now)
    assert start.lacking(engine) == seconds
    assert replace(start, time=BEGINNING).lacking(engine) == {}, "there was no input"
    earlier = EarlierInput.of(engine, start)
    assert (earlier is not None) == bool(lacking)
    if earlier is not None:
        bounded = None not in lacking.values()
        longest = max((time or 0 for time in lacking.values()), default=0) - 100
        assert earlier.since == ((100 - longest) * 10**6 if bounded else BEGINNING)


def test_what_cannot_be() -> None:
    before = "rise(K, L) <- e(K, L) SEQ e(K, L)."
    with pytest.raises(CepError, match="--migrate: the state cannot be carried over") as found:
        migrated(laid(before), laid(before + " same(L) <- e(_, L) SEQ e(_, L)."))
    assert "stage 1 distributes `e` by argument 2, before by argument 1 and 2" in str(found.value)
    with pytest.raises(CepError, match="`a` has other attributes: string, int before, string, float now"):
        migrated(laid(READING + RISE), laid(READING.replace("x: int", "x: float") + RISE))


def test_another_place() -> None:
    here = laid(READING + RISE)
    (stage,) = here.stages
    for other, why in [
        ({"keyed": False}, "stage 2 ran in buckets, and would run in one place"),
        ({"inputs": {"a": [0], "c": [0]}, "outputs": ["c"]}, None),
        ({"inputs": {}, "outputs": ["a"]}, "stage 2 read `a` from another stage, and would now derive it itself"),
    ]:
        there = replace(here, stages=[stage | {"goals": []}, stage | other])
        if why is None:
            assert migrated(here, there)[1] == [0, 1], "its number is nothing to it"
            with pytest.raises(CepError, match="derived `c` itself, and would now read it from another stage"):
                migrated(replace(here, stages=[stage | {"outputs": ["c"]}]), there)
        else:
            with pytest.raises(CepError, match=why):
                migrated(here, there)
    one, two = (stage | {"goals": [goal]} for goal in ("x", "y"))
    both = replace(here, rules={"rise": ["x", "y"]}, stages=[stage | {"goals": ["x", "y"]}])
    with pytest.raises(CepError, match="stage 1 needs parts of the states of stages 1 and 2"):
        migrated(replace(both, stages=[one, two]), both)
    assert migrated(both, replace(both, stages=[one, two]))[1] == [1, 1]


def kept(text: str, folder: Path, **other: Any) -> CheckpointInfo:
    engine = Engine.from_text(text)
    made = CheckpointInfo(
        engine.program, text, None, {}, None, 4, str(folder / "out"), "jsonl", list(engine.outputs), laid(text)
    )
    return replace(made, **other)


def begin(state: Path) -> None:
    """As if a micro-batch had begun."""
    (state / "spark" / "offsets").mkdir(parents=True, exist_ok=True)
    (state / "spark" / "offsets" / "0").write_text("v1")


def test_a_checkpoint_of_a_run_that_revises_goes_on(tmp_path: Path) -> None:
    """With another duration as it is, with other rules by `--migrate`; not where records lie elsewhere."""
    state, hour = tmp_path / "state", 3600 * 1_000_000
    keyed = {"revise": hour, "keys": {"a": ["k"]}}
    first, _ = claim(state, kept(READING + RISE, tmp_path, **keyed))
    begin(state)
    longer, moved = claim(state, kept(READING + RISE, tmp_path, **(keyed | {"revise": 2 * hour})))
    assert moved is None and (longer.revise, longer.name) == (2 * hour, first.name)
    assert longer.generation == Generation(), "its window goes on"
    with pytest.raises(CepError, match="belongs to another program"):
        claim(state, kept(READING + RISE + PAIR, tmp_path, **keyed))
    for other, why in [
        ({"keys": {"a": ["x"]}}, "`a` has another KEY: k before, x now"),
        ({"keys": {}}, "`a` has another KEY: k before, none now"),
        ({"final": True}, "--output: rows written: a changelog before, only final rows now: use another folder"),
        ({"revise": None}, "--output: rows written: a changelog before, only final rows now: use another folder"),
    ]:
        with pytest.raises(CepError, match=why):
            claim(state, kept(READING + RISE + PAIR, tmp_path, **(keyed | other)), True)
    third, moved = claim(state, kept(READING + RISE + PAIR, tmp_path, **keyed), True)
    assert moved is not None and str(moved) == "rules that keep their state: line 3: rise; new rules: line 4: pair"
    assert third.generation == Generation(2) and third.revise == hour


def test_a_checkpoint_goes_from_one_program_to_the_next(tmp_path: Path) -> None:
    state = tmp_path / "state"
    texts = [READING + rules for rules in (RISE + PAIR, RISE, RISE + PAIR)]
    first, moved = claim(state, kept(texts[0], tmp_path, times="seconds"))
    assert moved is None
    begin(state)
    with pytest.raises(CepError, match="belongs to another program") as refused:
        claim(state, kept(texts[1], tmp_path))
    assert f"-{PAIR}" in f"{refused.value}\n" and "add `--migrate`" in str(refused.value)
    second, moved = claim(state, kept(texts[1], tmp_path), True)
    assert moved is not None and str(moved) == "rules that keep their state: line 3: rise; removed rules: line 4: pair"
    assert second.name == first.name and second.generation == Generation(2), "no micro-batch is finished"
    third, moved = claim(state, kept(texts[2], tmp_path), True)
    assert moved is not None and moved.new == ("line 4: pair",)
    assert claim(state, kept(texts[2], tmp_path)) == (third, None)
    assert {one.times for one in (second, third, claim(state, kept(texts[2], tmp_path))[0])} == {"seconds"}
    wider = kept(texts[2], tmp_path, buckets=8)
    for possible, other in (False, wider), (True, replace(wider, revise=9)):
        with pytest.raises(CepError, match="buckets: 4 before, 8 now"):
            claim(state, other, migratable=possible)
    with pytest.raises(CepError, match="cannot be carried over\n--buckets: stage 1: it has no key"):
        claim(state, wider, unsplit=lambda: ["--buckets: stage 1: it has no key"])
    fourth, moved = claim(state, wider)
    assert moved is not None and moved.kept == tuple(third.laid.rules) and fourth.buckets == 8
    (state / "semcep.json").write_text("{}")
    with pytest.raises(CepError, match="is damaged"):
        claim(state, kept(texts[2], tmp_path))


def test_where_what_is_derived_now_goes(tmp_path: Path) -> None:
    """What does not fit beside what is there needs another folder."""
    state, out = tmp_path / "state", str(tmp_path / "out")
    alone = kept(READING + RISE, tmp_path, format="parquet")
    claim(state, alone)
    begin(state)
    both = kept(READING + RISE + PAIR, tmp_path, format="parquet")
    other = f"use another folder, `--output {out}-2`; the files in this one stay"
    for now, why in [
        (both, f"--output: the files hold `rise` alone, and the new ones would hold `rise`, `pair`: {other}"),
        (replace(alone, format="jsonl"), f"--output: format: parquet before, jsonl now: {other}"),
        (replace(both, output=str(state / "outgoing")), f"output: {out} before, {state}/outgoing now"),
    ]:
        with pytest.raises(CepError) as refused:
            claim(state, now, True)
        assert why in str(refused.value).splitlines()
    elsewhere = replace(both, output=f"{out}-2")
    (tmp_path / "out-2").mkdir()
    (tmp_path / "out-2" / "mine").touch()
    with pytest.raises(CepError, match=f"out-2 already exists, and earlier results are in {out}"):
        claim(state, elsewhere, True)
    (tmp_path / "out-2" / "mine").unlink()
    assert claim(state, elsewhere, True)[0].output == f"{out}-2"
    begin(state)
    named = READING + RISE + "event pair(k: int).\npair(X) <- a(_, X) SEQ b(_).\n"
    with pytest.raises(CepError, match="--output: columns of `rise`: k before, rise_k now: use another folder"):
        claim(state, kept(named, tmp_path, format="parquet", output=f"{out}-2"), True)


def test_a_run_killed_while_it_made_its_checkpoint(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / ".semcep.json").write_text('{"program": ')
    made, _ = claim(state, kept(READING + RISE, tmp_path))
    assert claim(state, kept(READING + RISE, tmp_path)) == (made, None)
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(CepError, match="is not empty, and is not a checkpoint of this command"):
        claim(other, kept(READING + RISE, tmp_path))


FIRE = """\
event heat(room: string, temp: float).
event smoke(room: string).
fire(R, T) <- smoke(R) SEQ heat(R, T) WHERE T > 50 WITHIN 1 h.
"""
MORE = """\
many(N) <- fire(_, _) AGGREGATE N = count() OVER LAST 1 h.
noon(R) <- 90 SEQ smoke(R).
early(R) <- 30 SEQ smoke(R).
"""


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
def test_rules_that_change_between_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another stage, another output and time points; killed before Spark had noted its last micro-batch, before the
    first one of the new generation, and before the end of that was noted."""
    spark_runs.spark()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    Path("days").mkdir()
    Path("fire.cep").write_text(FIRE)

    def run(*arguments: str, output: str = "out") -> Result:
        options = ["--checkpoint", "state", "--buckets", "3", "--input", "days", "--lateness", "5 s", "--files", "1"]
        options += ["--output", output, *arguments]
        return CliRunner().invoke(app, ["run", "fire.cep", "--on", "spark", *options], prog_name="cep")

    def day(name: str, *rows: tuple[str, int, str, float | None]) -> None:
        records = [{"type": type, "time": time, "room": room, "temp": temp} for type, time, room, temp in rows]
        Path("days", name).write_text("".join(json.dumps(record) + "\n" for record in records))

    def derived(folder: str, *columns: str) -> list[tuple[Any, ...]]:
        there = pl.concat(pl.read_parquet(file) for file in Path(folder).glob("*.parquet"))
        return sorted(there.select(pl.col("start", "end").dt.epoch("s"), *columns).rows())

    def forget(spark: str) -> None:
        """As if killed before Spark has noted that the last micro-batch is done."""
        log = Path("state", spark, "commits")
        last = max(int(file.name) for file in log.glob("[0-9]*"))
        (log / str(last)).unlink()
        (log / f".{last}.crc").unlink(missing_ok=True)

    day("1.jsonl", ("smoke", 1, "loft", None), ("heat", 2, "loft", 99.0), ("smoke", 10, "attic", None),
        ("smoke", 12, "hall", None), ("smoke", 13, "shed", None))  # fmt: skip
    day("2.jsonl", ("heat", 58, "attic", 20.0), ("heat", 60, "hall", 60.0))  # they wait
    assert run("--once").exit_code == 0
    forget("spark")
    Path("fire.cep").write_text(FIRE + MORE)
    day("3.jsonl", ("heat", 59, "shed", 59.0), ("heat", 54, "attic", 99.0), ("heat", 50, "shed", 99.0))  # two are late
    day("4.jsonl", ("smoke", 95, "cellar", None), ("heat", 99, "cellar", 70.0), ("heat", 120, "attic", 80.0))
    refused = run("--once")
    assert refused.exit_code == 2 and "+many(N)" in refused.stderr and "add `--migrate`" in refused.stderr
    refused = run("--once", "--migrate")
    assert refused.exit_code == 2 and "use another folder, `--output " in refused.stderr

    def killed(*_: object) -> None:
        raise CepError("killed", code="failed")

    with monkeypatch.context() as patch:
        patch.setattr(job, "start", killed)
        result = run("--once", "--migrate", output="out-2")
    carried = "rules that keep their state: line 3: fire; new rules: line 4: many, line 5: noon, line 6: early"
    assert result.exit_code == 3 and carried in result.stderr
    seen = (
        "new rules have seen the input files from 1970-01-01T00:00:01Z until 1970-01-01T00:00:54.999999Z: "
        "line 4: many, line 5: noon, line 6: early"
    )
    assert seen in " ".join(result.stderr.split())
    result = run("--once", output="out-2")
    assert result.exit_code == 0 and "2 late" in result.stderr and "have seen" not in result.stderr, result.stderr
    forget("spark-2")
    assert run(output="out-2").exit_code == 0
    there = {folder.name for folder in Path("state").iterdir() if folder.is_dir()}
    assert there == {"handed", "spark-2", "buckets-2"}, "what was before is gone"
    # The unchanged rule derives what it would have, had nothing happened.
    Path("fire.cep").write_text(FIRE)
    alone = ["run", "fire.cep", "--input", "days", "--lateness", "5 s", "--output", "alone.parquet"]
    assert CliRunner().invoke(app, alone, prog_name="cep").exit_code == 0
    Path("alone").mkdir()
    Path("alone.parquet").rename("alone/alone.parquet")
    found = derived("out", "r", "t") + derived("out-2/type=fire", "r", "t")
    assert len(found) == 5 and sorted(found) == derived("alone", "r", "t")
    # The others take over where they came, and know what was before: the loft had burnt, and 30 s had passed.
    assert sorted(row[-1] for row in derived("out-2/type=many", "n")) == [2, 3, 4, 5]
    assert derived("out-2/type=noon", "r") == [(90, 95, "cellar")]
    assert derived("out-2/type=early", "r") == [(30, 95, "cellar")]

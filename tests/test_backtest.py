"""`cep backtest`: figures against an independent scorer, grids against single runs, choices, and bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import httpx
import numpy as np
import polars as pl
import pytest

from cep.backtest.grid import front
from cep.backtest.nab import PROFILES, nab_scores
from cep.backtest.scoring import Figures, Label, Scoring, halves, holdout_of, score, wilson
from cep.backtest.search import Search
from cep.compile import CompileOptions
from cep.connectors.serving.guard import Limits
from cep.connectors.serving.people import People, Person, Role
from cep.engine import Engine
from cep.variants import compiled_variants
from tests import reference
from tests.backtest_oracle import DAY, cut, figures, nab
from tests.cli_runs import cep
from tests.long import seeds
from tests.serving import served

PROGRAM = """\
event reading(box: string, temp: float) TIME time.
event warming(box: string, old: float).
PARAM Hot = 7.0 IN 5..9 STEP 1.
PARAM Patience = 20 min IN 10 min..30 min STEP 10 min.
rising(B, X) <- reading(B, X) SEQ reading(B, Y) WHERE X > Hot, Y > X WITHIN Patience.
warming(B, X) <- rising(B, X) UNLESS (reading(B, Z) WHERE Z < Hot) WITHIN Patience.
constant(B) <- reading(B, T) WHERE T > 9.5.
ALERT hot ON warming(box: B) TITLE "{B}" FOR 1 h KEYED BY B.
"""
BEGIN = datetime(2024, 5, 1, tzinfo=UTC)
MINUTE = 60_000_000


def ticks(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def readings(random: Random, count: int) -> list[tuple[datetime, str, float]]:
    return [
        (BEGIN + timedelta(minutes=10 * place), box, round(random.gauss(6.5, 2), 1))
        for place in range(count)
        for box in "ab"
        if random.random() < 0.9
    ]


def labels_of(random: Random, count: int, keyed: bool = True) -> list[tuple[datetime, datetime, str | None]]:
    found = []
    for key in ("a", "b", None) if keyed else (None,):
        place = random.randrange(20)
        while place < count:
            length = random.randrange(1, 12)
            start = BEGIN + timedelta(minutes=10 * place)
            found.append((start, start + timedelta(minutes=10 * length), key))
            place += length + random.randrange(5, 60)
    return found


def write(records: list[tuple[datetime, str, float]], labels: list[tuple[datetime, datetime, str | None]]) -> None:
    Path("rules.cep").write_text(PROGRAM)
    rows = "".join(f"{time.isoformat()},{box},{temp}\n" for time, box, temp in records)
    Path("history.csv").write_text(f"time,box,temp\n{rows}")
    rows = "".join(f"{start.isoformat()},{end.isoformat()},{key or ''}\n" for start, end, key in labels)
    Path("labels.csv").write_text(f"start,end,box\n{rows}")


def run(*more: str) -> dict[str, Any]:
    result = cep("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", "--json", *more)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def equal(own: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Compare figures as JSON has them, durations in seconds, with those of the oracle."""
    for name, value in wanted.items():
        if name in ("lead", "lead_worst", "quiet") and value is not None:
            value /= 1_000_000
        assert own[name] == pytest.approx(value), name


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("seed", seeds(300))
def test_scores_equal_those_of_the_oracle(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        until = random.choice([1, 40, 400])
        detections = [(random.choice("abc"), random.randrange(until + 1)) for _ in range(random.randrange(30))]
        labels: list[tuple[int, int, str | None]] = []
        for _ in range(random.randrange(14)):
            start = random.randrange(until + 1)
            labels.append((start, start + random.randrange(20), random.choice(["a", "b", None])))
        merge, before, after, short = (random.randrange(8) for _ in range(4))
        by_key = {
            (key,): np.array(sorted(time for own, time in detections if own == key), np.int64)
            for key in {key for key, _ in detections}
        }
        own_labels = [Label(start, end, None if key is None else (key,)) for start, end, key in labels]
        scoring = Scoring(merge, before, after, short)
        own = score(by_key, own_labels, scoring, 0, until)
        wanted = figures(detections, labels, 0, until, merge, before, after, short)
        for name, value in wanted.items():
            assert getattr(own, name) == pytest.approx(value), name
        at = random.randrange(until + 1)
        parts, oracle = halves(by_key, own_labels, at), cut(detections, labels, at)
        for (times, some), (found, other), (since, end) in zip(parts, oracle, ((0, at), (at, until))):
            own = score(times, some, scoring, since, end)
            wanted = figures(found, other, since, end, merge, before, after, short)
            for name, value in wanted.items():
                assert getattr(own, name) == pytest.approx(value), name


def detected(records: list[tuple[datetime, str, float]], hot: float, patience: int) -> list[tuple[str, int]]:
    """The detections by the reference interpreter."""
    from cep.events import Event

    text = PROGRAM.replace("WHERE X > Hot", f"WHERE X > {hot}").replace("Z < Hot", f"Z < {hot}")
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("PARAM", "ALERT")))
    text = text.replace("Patience", f"{patience} min").replace(" TIME time", "")
    events = [Event("reading", (box, temp), ticks(time), ticks(time)) for time, box, temp in records]
    return [(str(each.args[0]), each.end) for each in reference.detect(text, events) if each.type == "warming"]


@pytest.mark.parametrize("seed", seeds(12))
def test_a_backtest_equals_the_oracle_from_the_records_on(seed: int) -> None:
    random = Random(seed)
    records, labels = readings(random, 60), labels_of(random, 60)
    write(records, labels)
    asked = ("--detect", "warming", "--key", "box", "--before", "20min", "--after", "10min", "--flapping", "30min")
    found = run(*asked, "--grid", "Hot=6,7", "--grid", "Patience")
    own_labels = [(ticks(start), ticks(end), key) for start, end, key in labels]
    times = [ticks(time) for time, _, _ in records]
    assert found["records"] == len(records) and len(found["points"]) == 6
    for point in found["points"]:
        patience = int(point["params"]["Patience"].removeprefix("PT").removesuffix("S")) // 60
        detections = detected(records, point["params"]["Hot"], patience)
        merge = patience * MINUTE  # the longest window of the rule at this point
        bounds = (min(times), max(times), merge, 20 * MINUTE, 10 * MINUTE, 30 * MINUTE)
        equal(point["all"], figures(detections, own_labels, *bounds))


def test_each_point_of_a_grid_equals_a_run_of_its_own() -> None:
    random = Random(5)
    write(readings(random, 300), labels_of(random, 300))
    for detect in (("--detect", "warming"), ("--detect", "hot"), ("--detect", "rising"), ("--detect", "constant")):
        key = "b" if detect[1] in ("rising", "constant") else "box"
        labels = Path("labels.csv").read_text()
        Path("labels.csv").write_text(labels.replace("start,end,box", f"start,end,{key}"))
        asked = (*detect, "--key", key, "--merge", "30min")
        found = run(*asked, "--grid", "Hot", "--grid", "Patience")
        assert len(found["points"]) == 15
        for point in found["points"][::4]:
            values = [f"--param={name}={value}" for name, value in point["params"].items()]
            assert run(*asked, *values)["points"][0]["all"] == point["all"]
        Path("labels.csv").write_text(labels)


def test_what_does_not_depend_on_a_parameter_is_there_once() -> None:
    points = [{"Hot": hot, "Patience": f"{patience} min"} for hot in (5, 6, 7) for patience in (10, 20)]
    options = CompileOptions()
    made = compiled_variants(PROGRAM, "rules.cep", options, points, ["warming", "constant"])
    assert len({names["constant"] for names in made.names}) == 1
    assert len({names["warming"] for names in made.names}) == 6
    engine = Engine(made.program)
    assert set(engine.outputs) == {name for names in made.names for name in names.values()}
    alone = compiled_variants(PROGRAM, "rules.cep", options, points[:1], ["constant"])
    assert len(alone.program.plan.nodes) < len(made.program.plan.nodes)
    assert "reading" in alone.program.plan.schemas and "warming" not in alone.program.plan.schemas


def test_variants_of_fluents_and_static_rules() -> None:
    text = """\
event reading(box: string, temp: float).
PARAM Hot = 7.0.
fluent warm(box: string).
limit(Hot).
initiate warm(B) <- reading(B, T) WHERE limit(L), T > L.
terminate warm(B) <- reading(B, T) WHERE limit(L), T <= L.
both(B) <- reading(B, _) WHERE holds(warm(B)).
long(B) <- reading(B, T) DURING warm(B).
"""
    text = text.replace("both(B) <- reading(B, _) WHERE holds(warm(B)).\n", "")
    rows = {"start": [1, 2, 3, 4, 5], "end": [1, 2, 3, 4, 5], "box": ["a"] * 5, "temp": [6.0, 8.0, 9.0, 7.5, 6.5]}
    values = [6.5, 7.0, 8.5]
    made = compiled_variants(text, "rules.cep", CompileOptions(), [{"Hot": each} for each in values], ["long", "warm"])
    together = _all(Engine(made.program, lateness=None), rows)
    for value, names in zip(values, made.names):
        alone = _all(Engine.from_text(text, params={"Hot": value}, lateness=None), rows)
        for name in ("long", "warm"):
            assert together.get(names[name], []) == alone.get(name, []), (value, name)


def _all(engine: Engine, rows: dict[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
    engine.receive({"reading": pl.DataFrame(rows)})
    found: dict[str, list[tuple[Any, ...]]] = {}
    for tables in (engine.advance(10), engine.close()):
        for name, table in tables.items():
            found.setdefault(name, []).extend(table.rows())
    return found


def test_a_point_is_chosen_by_what_is_before_the_holdout() -> None:
    """Later labels and records change neither the choice nor the figures before it."""
    random = Random(8)
    records, labels = readings(random, 400), labels_of(random, 400)
    asked = ("--detect", "warming", "--key", "box", "--grid", "Hot", "--grid", "Patience", "--choose", "precision")
    asked = (*asked, "--subject-to", "load <= 40/d", "--subject-to", "recall >= 10%")
    write(records, labels)
    found = run(*asked)
    held = datetime.fromisoformat(found["holdout"])
    assert held == sorted(start for start, _, _ in labels)[2 * len(labels) // 3]
    (chosen,) = [each for each in found["points"] if each.get("chosen")]
    allowed = [p for p in found["points"] if p["before"]["load"] <= 40 and (p["before"]["recall"] or 0) >= 0.1]
    best = max(p["before"]["precision"] or 0 for p in allowed)
    assert chosen["before"]["precision"] == best
    assert chosen["before"]["load"] == min(p["before"]["load"] for p in allowed if p["before"]["precision"] == best)
    later = [(time, box, temp if time < held else random.gauss(8, 3)) for time, box, temp in records]
    longer = [(start, end if start < held else end + timedelta(minutes=1), key) for start, end, key in labels]
    write(later, longer)
    other = run(*asked)
    assert [each["before"] for each in other["points"]] == [each["before"] for each in found["points"]]
    assert [each.get("chosen") for each in other["points"]] == [each.get("chosen") for each in found["points"]]
    assert other["points"] != found["points"]


def test_the_chosen_values_are_written_into_the_program() -> None:
    random = Random(8)
    write(readings(random, 300), labels_of(random, 300))
    asked = ("--detect", "warming", "--key", "box", "--grid", "Hot=5,8", "--grid", "Patience=10min,20min")
    command = (
        "backtest",
        "rules.cep",
        "-i",
        "reading=history.csv",
        "--labels",
        "labels.csv",
        *asked,
        "--choose",
        "load",
    )
    result = cep(*command, "--write")
    assert result.exit_code == 0 and result.stdout.endswith("rules.cep: updated\n"), result.output
    text = Path("rules.cep").read_text()
    assert "PARAM Hot = 8.0 IN 5..9 STEP 1." in text and text != PROGRAM
    assert cep("check", "rules.cep").exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    heading = "Pareto front: the points at which more recall costs more load"
    for part in ("from the holdout on", heading, "chosen by load"):
        assert part in result.stdout


def test_nothing_is_chosen_where_no_point_passes() -> None:
    random = Random(8)
    write(readings(random, 100), labels_of(random, 100))
    asked = ("--detect", "warming", "--key", "box", "--grid", "Hot", "--choose", "recall", "--subject-to", "load < 0/d")
    result = cep("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", *asked, "--write")
    assert result.exit_code == 1 and "no point passes load < 0/d" in result.stdout
    assert Path("rules.cep").read_text() == PROGRAM


def test_a_program_without_detections_has_no_precision() -> None:
    write([(BEGIN, "a", 1.0), (BEGIN + timedelta(days=2), "a", 1.0)], [(BEGIN, BEGIN + timedelta(hours=1), "a")])
    asked = ("--detect", "warming", "--key", "box")
    result = cep("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", *asked)
    assert result.stdout == (
        """\
history   2024-05-01T00:00:00Z to 2024-05-03T00:00:00Z
          2 records, no dead letters
labels    1
episodes  groups of `warming` detections with gaps of at most 20 min
warning: the history has no `warming`: `cep test` says why it is missing

recall                 0 of 1, 0 % (95 %: 0 to 79 %)
precision              undefined (no episodes)
lead time, median      undefined
lead time, worst tenth undefined
load                   0/d
load, busiest key      0/d
longest quiet          2 d
"""
    )
    grid = cep("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", *asked, "--grid", "Hot")
    assert "no `warming` at any point: `cep test` says why it is missing" in " ".join(grid.stdout.split())


def test_labels_come_in_several_formats() -> None:
    random = Random(3)
    records, labels = readings(random, 80), labels_of(random, 80)
    write(records, labels)
    asked = (
        "backtest",
        "rules.cep",
        "-i",
        "reading=history.csv",
        "--detect",
        "warming",
        "--key",
        "box",
        "--json",
        "--labels",
    )
    wanted = json.loads(cep(*asked, "labels.csv").stdout)
    rows = [{"start": str(start.isoformat()), "end": str(end.isoformat()), "box": key} for start, end, key in labels]
    Path("labels.json").write_text(json.dumps(rows))
    Path("labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pl.DataFrame({"start": [s for s, _, _ in labels], "end": [e for _, e, _ in labels], "box": [k for *_, k in labels]}
    ).write_parquet("labels.parquet")  # fmt: skip
    for name in ("labels.json", "labels.jsonl", "labels.parquet"):
        assert json.loads(cep(*asked, name).stdout) == wanted
    windows = {key: [[str(s), str(e)] for s, e, own in labels if own == key] for key in "ab"}
    Path("combined_windows.json").write_text(json.dumps(windows))
    nab = json.loads(cep(*asked, "combined_windows.json").stdout)
    assert nab["labels"] == sum(key is not None for *_, key in labels)


def test_a_history_with_dead_letters_says_so() -> None:
    write([(BEGIN, "a", 8.0), (BEGIN + timedelta(days=1), "a", 9.0)], [(BEGIN, BEGIN, "a")])
    with Path("history.csv").open("a") as file:
        file.write("2024-05-02T01:00:00Z,a,warm\n")
    assert run("--detect", "warming")["dead"] == 1
    arguments = ("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", "--detect", "warming")
    for more in ((), ("--key", "box", "--grid", "Hot=6,7,8", "--workers", "2", "--state", "state.jsonl")) * 2:
        told = cep(*arguments, *more).stdout
        assert "3 records, 1 dead letter\n          one dead letter is history.csv:4: temp: " in told, told


OUTSIDE = (
    "2 of 2 labels lie outside the history (from 2024-05-01T00:00:00Z to 2024-05-01T02:00:00Z): they count as missed"
)


@pytest.mark.parametrize(
    ("labels", "key", "warnings"),
    [
        ("2023-05-01,2023-05-02,a\n2025-05-01,2025-05-02,b", ["--key", "box"], [OUTSIDE]),
        ("2023-05-01,2024-05-01,a\n2024-05-01T02:00Z,2025-05-02,b", ["--key", "box"], []),
        ("2024-05-01,2024-05-02,aa", ["--key", "box"], ["no record has the key `aa` of 1 label: did you mean `a`?"]),
        ("2024-05-01,2024-05-02,a\n2024-05-01,2024-05-02,", ["--key", "box"], []),
        (
            "2024-05-01,2024-05-02,a",
            [],
            [
                "labels have a column `box`, an attribute of `warming`: with `--key box` a label is hit by detections "
                "of its own `box` alone"
            ],
        ),
    ],
)
def test_labels_that_cannot_be_hit_are_told(labels: str, key: list[str], warnings: list[str]) -> None:
    write([(BEGIN + timedelta(minutes=10 * n), box, 8.0 + n) for n in range(13) for box in "ab"], [])
    text = "\n".join(line if "T" in line else line.replace(",", "T00:00Z,", 2) for line in labels.splitlines())
    Path("labels.csv").write_text(f"start,end,box\n{text}\n".replace("2025-05-02,b", "2025-05-02T00:00Z,b"))
    text = Path("labels.csv").read_text()
    assert run("--detect", "warming", *key)["warnings"] == warnings, text
    arguments = ("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", "--detect", "warming")
    told = cep(*arguments, *key).stdout
    assert told.count("warning: ") == len(warnings) and max(map(len, told.splitlines())) <= 80


def test_columns_of_labels_that_nothing_uses_are_told_and_a_key_may_have_another_name_there() -> None:
    write([(BEGIN + timedelta(minutes=10 * n), box, 8.0 + n) for n in range(13) for box in "ab"], [])
    Path("labels.csv").write_text("start,end,crate,note\n2024-05-01T00:00Z,2024-05-01T01:00Z,c,x\n")
    (told,) = run("--detect", "warming")["warnings"]
    assert told == (
        "2 columns of the labels that nothing uses: `crate`, `note`; with `--key box=crate` a label is hit only by "
        "detections whose `box` is its `crate`"
    )
    assert run("--detect", "warming", "--key", "box=crate")["warnings"] == [
        "1 column of the labels that nothing uses: `note`",
        "no record has the key `c` of 1 label: they count as missed",
    ]
    Path("labels.csv").write_text(Path("labels.csv").read_text().replace(",c,", ",a,"))
    assert run("--detect", "warming", "--key", "box=crate")["points"][0]["all"]["recall"] == 1
    arguments = ("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", "--detect", "warming")
    assert "labels have no column `crat`\nhint: did you mean `crate`?" in cep(*arguments, "--key", "box=crat").stderr
    assert "`--key box=crate` if `crate` is a column" in cep(*arguments, "--key", "crate").stderr


def test_a_choice_that_finds_nothing_is_not_written() -> None:
    random = Random(8)
    write(
        readings(random, 300),
        [(BEGIN + timedelta(hours=5 + n), BEGIN + timedelta(hours=5 + n), "c") for n in (1, 2, 3)],
    )
    arguments = ("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", *GRID)
    result = cep(*arguments)
    assert result.exit_code == 0
    assert "warning: the chosen point finds none of the incidents before the holdout" in result.stdout
    result = cep(*arguments, "--write")
    assert result.exit_code == 1 and "--write: the chosen point finds none of the incidents" in result.stderr
    assert Path("rules.cep").read_text() == PROGRAM and "updated" not in result.stdout


def test_a_condition_that_breaks_after_the_holdout_is_told() -> None:
    early = [(BEGIN + timedelta(hours=n), "a", 5.0) for n in range(48)]
    late = [(BEGIN + timedelta(days=2, minutes=20 * n), "a", 5.0 + n % 6) for n in range(48)]
    write(early + late, [(BEGIN + timedelta(hours=n), BEGIN + timedelta(hours=n), "a") for n in (1, 2, 50)])
    found = run(*GRID, "--subject-to", "load <= 1/d", "--holdout", "2024-05-03")
    (told,) = [each for each in found["warnings"] if "does not pass" in each]
    assert told.startswith("from the holdout on the chosen point does not pass load <= 1/d: it has ")


@pytest.mark.parametrize("time", ["2023-01-01", "2026-01-01"])
def test_a_holdout_outside_of_the_history_is_refused(time: str) -> None:
    write(readings(Random(8), 40), [(BEGIN, BEGIN, "a")])
    result = cep(
        "backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", *GRID, "--holdout", time
    )
    assert result.exit_code == 2, result.output
    assert f"--holdout {time} is outside of the history" in result.stderr
    assert "hint: use a time within the history, from 2024-05-01T00:00:00Z to 2024-05-01T06:30:00Z" in result.stderr


def test_points_that_pass_come_first_and_a_line_divides_them() -> None:
    random = Random(8)
    write(readings(random, 300), labels_of(random, 300))
    arguments = ("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", *GRID)
    found = run(*GRID, "--subject-to", "lead >= -1 h 10 min", "--subject-to", "load <= 12/d")
    lines = cep(*arguments, "--subject-to", "lead >= -1 h 10 min", "--subject-to", "load <= 12/d").stdout.splitlines()
    (head,) = [place for place, line in enumerate(lines) if line.startswith("points that pass lead >= -1 h 10 min and")]
    passing = [
        (each["before"]["lead"] or -1e9) >= -4200
        and each["before"]["load"] <= 12
        and each["before"]["lead"] is not None
        for each in found["points"]
    ]
    assert 0 < sum(passing) < 15 and lines[head].endswith(f"come first: {sum(passing)} of 15")
    assert lines[head + 2 + sum(passing)] == "--- these do not pass ---"
    place = lines.index("Pareto front: the points at which more recall costs more load")
    assert lines[place + 1].split() == ["Hot", "Patience", "recall", "precision", "lead", "time", "load"]
    assert " of " in lines[place + 2] and lines[place + 2].endswith("/d")


def test_a_point_is_chosen_by_the_score_of_nab() -> None:
    random = Random(8)
    write(readings(random, 300), labels_of(random, 300))
    asked = ("--detect", "warming", "--key", "box", "--grid", "Hot", "--grid", "Patience", "--score", "nab")
    for name, profile in (("nab", "standard"), ("nab_low_fp", "low_fp")):
        points = run(*asked, "--choose", name, "--subject-to", "nab >= -1000")["points"]
        (chosen,) = [each for each in points if each.get("chosen")]
        assert chosen["before"]["nab"][profile] == max(each["before"]["nab"][profile] for each in points)


def test_a_state_does_not_depend_on_default_values() -> None:
    """`--write` changes defaults; the points are the same by their values."""
    random = Random(8)
    write(readings(random, 200), labels_of(random, 200))
    command = ("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", *GRID)
    first = cep(*command, "--write", "--state", "state.jsonl")
    assert first.stdout.endswith("updated\n") and Path("rules.cep").read_text() != PROGRAM, first.output
    before = Path("state.jsonl").read_bytes()
    again = cep(*command, "--state", "state.jsonl")
    assert again.exit_code == 0 and again.stdout in first.stdout, again.output
    assert Path("state.jsonl").read_bytes() == before
    Path("rules.cep").write_text(PROGRAM.replace("T > 9.5", "T > 9"))
    assert "is the state of another backtest" in cep(*command, "--state", "state.jsonl").stderr


def test_detections_come_later_by_the_lateness() -> None:
    write([(BEGIN + timedelta(minutes=10 * n), "a", 8.0 + n) for n in range(12)], [(BEGIN, BEGIN, "a")])
    plain = run("--detect", "warming", "--merge", "1h", "--before", "1d", "--after", "1d")["points"][0]["all"]
    late = run("--detect", "warming", "--merge", "1h", "--before", "1d", "--after", "1d", "--lateness", "5min")
    assert late["points"][0]["all"]["lead"] == plain["lead"] - 300


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--key=box --grid=Hott", "--grid: the program has no parameter `Hott`\nhint: did you mean `Hot`?"),
        ("--key=box --grid=Hot=99", "--grid Hot: 99.0 is out of range\nhint: `Hot` may be 5.0..9.0"),
        ("--key=box --grid=Hot --grid=Hot=6", "--grid: `Hot` is named twice"),
        ("--key=box --grid=Hot --param=Hot=6", "--grid: `Hot` is set by --param as well"),
        ("--key=bx", "--key: `warming` has no attribute `bx`\nhint: did you mean `box`?"),
        ("--key=box --choose=recall", "--choose: there is no --grid to choose from"),
        ("--key=box --write", "--write needs --choose"),
        ("--key=box --grid=Hot --choose=recal", "--choose: there is no figure `recal`\nhint: did you mean `recall`?"),
        ("--key=box --grid=Hot --choose=recall --subject-to=load", "--subject-to: `load` is not a condition"),
        ("--key=box --grid=Hot --choose=recall --subject-to=load<=x/d", "hint: e.g. `load <= 1/d`"),
        ("--key=box --grid=Hot --choose=recall --subject-to=lead>=soon", "hint: e.g. `lead >= 10 min`"),
        ("--key=box --grid=Hot --choose=recall --subject-to=lead>=-", "hint: e.g. `lead >= 10 min`"),
        ("--key=box --grid=Hot --choose=nab", "--choose: `nab` is not computed\nhint: add `--score nab`"),
        (
            "--key=box --grid=Hot=1..10",
            "--grid: `1..10` is a range, and a grid needs single values\nhint: list them: `--grid Hot=5.0,6.0,7.0`",
        ),
        ("--key=box --grid=Patience=1h..2h", "`--grid Patience=10min,20min,30min`"),
        ("--detect=warmin", "--detect: the program derives no `warmin`\nhint: did you mean `warming`?"),
        ("--detect=constant", "--merge is missing: the rules of `constant` have no window\nhint: say how far apart"),
        ("--labels=none.csv", "--labels none.csv: no such file"),
        ("--labels=rules.cep", "`.cep` is not a format of labels"),
        ("--key=box --points=2 --grid=Hot", "--grid: 5 points are more than the limit of 2"),
        ("--key=box --grid=Hot --picture=a.png", "--picture a.png: a picture is written as SVG"),
        ("--key=box --picture=a.svg", "--picture draws the points of a --grid, which is missing"),
        ("--key=box --score=nabb", "--score: `nabb` is not a score"),
    ],
)
def test_wrong_options_are_refused(arguments: str, told: str) -> None:
    write([(BEGIN, "a", 8.0)], [(BEGIN, BEGIN, "a")])
    own = arguments.split()
    given = [] if "--detect" in arguments else ["--detect", "warming"]
    given += [] if "--labels" in arguments else ["--labels", "labels.csv"]
    result = cep("backtest", "rules.cep", "-i", "reading=history.csv", *given, *own)
    assert result.exit_code == 2 and told in result.stderr, result.output


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ("start,end\n2024-05-01,2024-05-02\n", "labels.csv: labels have no column `box`"),
        ("begin,end,box\n2024-05-01,2024-05-02,a\n", "labels.csv: labels have no column `start`"),
        ("start,end,box\n2024-05-01,2024-05-03,a\n2024-05-02,2024-05-04,a\n", "labels 1 and 2 overlap"),
        ("start,end,box\n2024-05-01T08:00Z,2024-05-01T09:00,a\n", "has an offset, and that of label 1 has none"),
        ("start,end,box\n2024-05-02,2024-05-01,a\n", "label 1: the label ends at `2024-05-01`, before it starts"),
        ("start,end,box\nsoon,2024-05-01,a\n", "label 1: start: `soon` is not a time"),
        ("start,end,box\n,2024-05-01,a\n", "label 1: `start` is missing"),
        ("start,end,box\n", "labels.csv: there are no labels"),
        (
            "",
            "labels.csv: the file of labels is empty\nhint: write a header, and one row for each incident: `start,end`",
        ),
        ("start,end,box\n\n2024-05-01,2024-05-02,a,b\n", "labels.csv:3: 4 fields, and the header has 3"),
    ],
)
def test_wrong_labels_are_refused(labels: str, told: str) -> None:
    write([(BEGIN, "a", 8.0)], [])
    Path("labels.csv").write_text(labels)
    asked = ("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", "--detect", "warming")
    result = cep(*asked, "--key", "box")
    assert result.exit_code == 2 and told in result.stderr, result.output


def test_ten_million_points_are_refused_with_the_time_they_take() -> None:
    write([(BEGIN, "a", 8.0)], [(BEGIN, BEGIN, "a")])
    many = PROGRAM.replace("IN 5..9 STEP 1.", "IN 0..10000 STEP 0.01.").replace("STEP 10 min", "STEP 2 min")
    Path("rules.cep").write_text(many)
    asked = ("--detect", "warming", "--grid", "Hot", "--grid", "Patience")
    result = cep("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", *asked)
    assert result.exit_code == 2
    assert result.stderr.startswith("--grid: 11,000,011 points are more than the limit of 10,000\n")
    assert re.search(
        r"`--points 11000011`: that takes about [0-9.,]+ (s|min|h|d), measured on 16 points\n", result.stderr
    )


def test_points_are_estimated_by_a_run_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass costs its start, and a little for each point: 2 s and 10 ms here."""
    monkeypatch.setattr("cep.backtest.search.Search._seconds", lambda _, points: 2 + 0.01 * len(points))
    write([(BEGIN, "a", 8.0)], [(BEGIN, BEGIN, "a")])
    many = PROGRAM.replace("IN 5..9 STEP 1.", "IN 0..10000 STEP 0.01.").replace("STEP 10 min", "STEP 2 min")
    Path("rules.cep").write_text(many)
    asked = ("--detect", "warming", "--grid", "Hot", "--grid", "Patience")
    result = cep("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", *asked)
    assert "that takes about 1.8 d, measured on 16 points" in result.stderr, "22,001 passes and 11,000,011 points"


def test_many_points_that_are_asked_for_say_how_long_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep.backtest.search.MOST_POINTS", 3)
    write([(BEGIN, "a", 8.0), (BEGIN + timedelta(minutes=10), "a", 9.0)], [(BEGIN, BEGIN, "a")])
    arguments = ("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv")
    result = cep(*arguments, "--detect", "warming", "--grid", "Hot", "--points", "5")
    assert result.exit_code == 0 and "5 points take about " in result.stderr


def test_the_interval_of_a_rate_is_wilsons() -> None:
    low, high = wilson(8, 10)
    assert (low, high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert wilson(0, 5)[0] == 0 and wilson(5, 5)[1] == 1


def test_no_point_of_the_front_is_beaten() -> None:
    random = Random(2)
    points = [_point(random.random(), random.random()) for _ in range(60)]
    chosen = front(points, "recall")
    for number, each in enumerate(points):
        beaten = any(
            other.recall >= each.recall and other.load <= each.load and other != each  # type: ignore[operator]
            for other in points
        )
        assert (number in chosen) is not beaten


def _point(recall: float, load: float) -> Figures:
    return Figures(1, 1, 1, 1, 1.0, recall, None, None, None, load, None, 0, None)


def test_the_holdout_is_the_label_at_two_thirds() -> None:
    labels = [Label(start, start) for start in (5, 1, 4, 2, 3, 6)]
    assert holdout_of(labels) == 5
    assert holdout_of(labels[:2]) is None
    assert DAY == 86_400_000_000


@pytest.mark.parametrize("seed", seeds(300))
def test_the_score_of_nab_is_the_published_one(seed: int) -> None:
    random = Random(f"nab {seed}")
    for _ in range(10):
        until = random.choice([10, 60, 600])
        detections = [(random.choice("abc"), random.randrange(until)) for _ in range(random.randrange(20))]
        labels: list[tuple[int, int, str | None]] = []
        for _ in range(random.randrange(1, 7)):
            start = random.randrange(until)
            labels.append((start, start + random.randrange(until // 5), random.choice(["a", "b", None])))
        by_key: dict[tuple[object, ...], Any] = {
            (key,): np.array(sorted(time for own, time in detections if own == key), np.int64) for key in "abc"
        }
        found = nab_scores(by_key, [(None if key is None else (key,), start, end) for start, end, key in labels])
        for name, weights in PROFILES.items():
            assert getattr(found, name) == pytest.approx(nab(detections, labels, *weights)), name


def test_nab_is_nothing_without_detections_and_a_hundred_for_perfect_ones() -> None:
    assert nab_scores({}, [(None, 5, 9)]).standard == 0
    assert nab_scores({("a",): np.array([5])}, [(("a",), 5, 9)]).low_fn == pytest.approx(100)
    assert nab_scores({("a",): np.array([5, 400])}, [(("a",), 5, 9)]).standard == pytest.approx(100 - 11 / 2)


GRID = ("--detect", "warming", "--key", "box", "--grid", "Hot", "--grid", "Patience", "--choose", "recall")


def test_processes_give_the_same_and_a_picture_shows_the_points() -> None:
    random = Random(5)
    write(readings(random, 300), labels_of(random, 300))
    one = run(*GRID, "--score", "nab", "--picture", "front.svg")
    assert run(*GRID, "--score", "nab", "--workers", "2", "--state", "state.jsonl") == one
    assert run(*GRID, "--score", "nab", "--state", "state.jsonl") == one
    picture = ElementTree.parse("front.svg").getroot()
    texts = ["".join(each.itertext()) for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    chosen = next(each["params"] for each in one["points"] if each.get("chosen"))
    assert f"chosen: Hot {chosen['Hot']}, Patience" in " ".join(texts)
    assert "warming: recall and load of 15 points, before the holdout" in texts
    assert {"recall", "load, episodes a day"} <= set(texts)
    shown = [int(each[1:]) for each in texts if each.startswith("×")]
    dots = [each for each in picture.iter("{http://www.w3.org/2000/svg}circle") if each.get("fill") == "#9aa0a6"]
    beyond = [int(each.split()[0]) for each in texts if each.endswith("more load not shown")]
    assert len(dots) - len(shown) + sum(shown) + sum(beyond) == 15, "each point is in a dot, or is said to be left out"
    titles = ["".join(each.itertext()) for each in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert titles and all(each.startswith("Hot ") for each in titles)
    assert all(each["all"]["nab"]["standard"] <= 100 for each in one["points"])


def test_a_stopped_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(6)
    write(readings(random, 200), labels_of(random, 200))
    wanted = run(*GRID)
    monkeypatch.setattr("cep.backtest.search.KEPT_AT_ONCE", 4)
    done: list[Sequence[Any]] = []

    def stopping(self: Search, points: Sequence[Any], seen: Any) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(points)
        return running(self, points, seen)

    running = Search.run_points
    monkeypatch.setattr(Search, "run_points", stopping)
    arguments = ("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", *GRID)
    result = cep(*arguments, "--state", "state.jsonl")
    assert result.exit_code == 130
    assert "stopped: 8 of 15 points are kept in state.jsonl; run the same command to continue" in result.stderr
    with Path("state.jsonl").open("ab") as file:
        file.write(b'{"points": {"Hot=')  # it was killed as it wrote
    again: list[int] = []

    def counting(self: Search, points: Sequence[Any], seen: Any) -> Any:
        again.append(len(points))
        return running(self, points, seen)

    monkeypatch.setattr(Search, "run_points", counting)
    assert run(*GRID, "--state", "state.jsonl") == wanted and again == [4, 3]
    assert run(*GRID, "--state", "state.jsonl") == wanted and again == [4, 3], "nothing is left to do"
    for more, message in ((("--merge", "1 h"), "is the state of another backtest"), (("--param", "Hot=8"), "--grid")):
        assert message in cep(*arguments, *more, "--state", "state.jsonl").stderr
    Path("state.jsonl").write_text("no state\n")
    assert "this is not the state of a backtest" in cep(*arguments, "--state", "state.jsonl").stderr


def test_progress_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(7)
    write(readings(random, 100), labels_of(random, 100))
    monkeypatch.setattr("cep.backtest.progress.SELDOM", 0.0)
    arguments = ("backtest", "rules.cep", "-i", "reading=history.csv", "--labels", "labels.csv", *GRID)
    lines = cep(*arguments).stderr.splitlines()
    assert any(line.startswith("100 % of 15 points") for line in lines)


def test_what_a_server_keeps_is_a_history(tmp_path: Path) -> None:
    query = """SELECT ?time ?fridge ?temp {
        ?reading a <urn:semcep:type/reading> ; sosa:resultTime ?time ;
                 <urn:semcep:attribute/reading/fridge> ?fridge ; <urn:semcep:attribute/reading/temp> ?temp }"""
    with served(tmp_path, readings=True) as server:
        server.push((0, "milk", 8.2), (10, "milk", 9.1), (20, "fish", 1.5))
        server.close()
        answer = httpx.post(f"{server.url}/sparql", data={"query": query}, headers={"Accept": "text/csv"})
    assert answer.status_code == 200, answer.text
    Path("history.csv").write_text(answer.text)
    Path("rules.cep").write_text(
        "event reading(fridge: string, temp: float) TIME time. "
        "rising(F) <- reading(F, A) SEQ reading(F, B) WHERE B > A WITHIN 1 h."
    )
    Path("labels.csv").write_text("start,end\n2024-05-01T08:10Z,2024-05-01T09:00Z\n")
    found = run("--detect", "rising")
    assert (found["records"], found["dead"], found["points"][0]["all"]["recall"]) == (3, 0, 1)


@pytest.mark.parametrize("base", ["urn:semcep:", "https://example.org/storms/"])
def test_a_server_is_asked_for_its_history(base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CEP_TOKEN", raising=False)
    token = "a-secret-of-the-house"
    Path("rules.cep").write_text(
        "event reading(fridge: string, temp: float) TIME time. event door(open: bool?) TIME time.\n"
        "rising(F) <- reading(F, A) SEQ reading(F, B) WHERE B > A WITHIN 1 h."
    )
    Path("labels.csv").write_text("start,end\n2024-05-01T08:10Z,2024-05-01T09:00Z\n")
    Path("token").write_text(token)
    asked = "backtest", "rules.cep", "--labels", "labels.csv", "--detect", "rising"
    limits = Limits(People({Person("wall", Role.VIEWER): token}), rate=0)
    with served(tmp_path, limits, readings=True, base=base) as server:
        server.push((0, "milk", 8.2), (10, "milk", 9.1), (20, "fish", 1.5))
        server.close()
        source = f"reading=server:{server.url}"
        refused = cep(*asked, "-i", source)
        assert refused.exit_code == 2 and "(401)" in refused.stderr and "--token-file FILE" in refused.stderr
        login = "--token-file", "token"
        for each in (source, f"server:{server.url}"):
            found = json.loads(cep(*asked, "-i", each, *login, "--json").stdout)
            assert (found["records"], found["dead"], found["points"][0]["all"]["recall"]) == (3, 0, 1)
        Path("new.cep").write_text(Path("rules.cep").read_text().replace("B > A ", "B > A + 5 "))
        compared = cep("diff", "rules.cep", "new.cep", "-i", source, *login)
        assert 'gone: rising("milk")' in compared.stdout, compared.stdout + compared.stderr
        assert f"{source}:1" in "".join(compared.stdout.split()) and str(tmp_path) not in compared.stdout
        explained = cep("explain", "rules.cep", "rising(milk)", "-i", source, *login)
        assert f"{source}:1" in "".join(explained.stdout.split()), explained.stdout + explained.stderr
        assert str(tmp_path) not in explained.stdout and "rising" in explained.stdout
        narrow = Path("rules.cep").read_text()
        Path("rules.cep").write_text(narrow.replace("temp: float", "temp: float in 0..9"))
        told = (
            cep(*asked, "-i", source, *login).stdout + cep("diff", "rules.cep", "new.cep", "-i", source, *login).stdout
        )
        assert "".join(told.split()).count(f"{source}:2:") == 2, told
        Path("rules.cep").write_text(narrow)
        for more, message in (
            (("-i", f"window=server:{server.url}"), "the program does not read `window`"),
            (("-i", source, "--state", "s.jsonl"), "--state needs a history that does not change"),
            (("-i", f"door=server:{server.url}/nowhere"), "404"),
            (("-i", f"door=server:{server.url}"), "the server keeps no record of `door`"),
            (("-i", "server:nowhere"), "this is not a valid web address"),
        ):
            assert message in cep(*asked, *more, *login).stderr, message
    Path("rules.cep").write_text(
        'event reading(fridge: string FROM "of.fridge") TIME time. rising(F) <- reading(F) SEQ reading(F) WITHIN 1 h.'
    )
    told = cep(*asked, "-i", "server:http://localhost:1").stderr
    assert "`of.fridge` is a path in a record" in told, told

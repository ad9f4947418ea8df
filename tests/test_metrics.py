"""The numbers of a run: for Prometheus and for a log, in one process, and by reports from elsewhere."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from time import time as now
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as families
from typer.testing import CliRunner

from cep.app import pipeline, watch
from cep.app.meter import Meter, charts
from cep.app.metrics import host_and_port, serving
from cep.command import app
from cep.connectors.records.batch import Batch
from cep.core.compilation import Compilation
from cep.core.logs import plain
from cep.engine import Engine
from cep.events import Event
from cep.runtime.report import Report
from cep.runtime.run_stats import RunStats

PROGRAM = """\
event heat(room: string, temp: float in -50..500).
event smoke(room: string).
fires: fire(R, T) <- (smoke(R) SEQ heat(R, T) WHERE T > 50) WITHIN 1 min.
calm(R) <- fire(R, _) UNLESS smoke(R) WITHIN 10 s.
many(N) <- fire(_, _) AGGREGATE N = count() OVER LAST 1 h. chain(R, 1) <- smoke(R). chain(R, N + 1) <- chain(R, N) SEQ smoke(R).
"""  # noqa: E501
SMOKE = '{"type": "smoke", "time": %d, "room": "%s"}\n'
HEAT = '{"type": "heat", "time": %d, "room": "%s", "temp": %s}\n'
RECORDS = [
    SMOKE % (1, "attic"),
    HEAT % (4, "attic", 80),
    SMOKE % (5, "attic"),
    HEAT % (6, "cellar", 90),
    HEAT % (7, "attic", 9000),
    "{]\n",
    HEAT % (100, "attic", 20),
    HEAT % (20, "attic", 60),  # late
]

Sample = dict[tuple[str, ...], float]


def scraped(url: str) -> dict[str, Sample]:
    """Each metric: the values by those of the labels, in order."""
    text = urllib.request.urlopen(url, timeout=120).read().decode()
    return {
        sample.name: {tuple(each.labels.values()): each.value for each in family.samples if each.name == sample.name}
        for family in families(text)
        for sample in family.samples
    }


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    Path("fire.cep").write_text(PROGRAM)
    Path("events.jsonl").write_text("".join(RECORDS))


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["run", "fire.cep", "--input", "events.jsonl", *arguments], prog_name="cep")


def test_a_look_during_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch is looked at over the port, as Prometheus does it."""
    seen: list[dict[str, Sample]] = []
    before = now()
    urls: list[str] = []
    batch = watch.Watch.batch

    def looking(self: watch.Watch, *report: Any, **more: Any) -> None:
        batch(self, *report, **more)
        seen.append(scraped(urls[0]))

    def log(event: str, text: str | None, *_: object, **fields: object) -> None:
        urls.extend([str(fields["url"])] if event == "metrics" else [])

    monkeypatch.setattr(watch.Watch, "batch", looking)
    monkeypatch.setattr("cep.app.run_options.LOGS", {"text": log})
    assert run("--metrics", "0", "--lateness", "0", "--output", "out.jsonl").exit_code == 0
    first, last = seen[0], seen[-1]
    assert len(seen) == 2
    assert first["semcep_watermark_seconds"] == last["semcep_watermark_seconds"] == {(): 99.999999}
    assert first["semcep_watermark_lag_seconds"] == {(): 1e-6}
    assert 0 <= last["semcep_clock_lag_seconds"][()] - (before - 100) < 60 + now() - before
    assert last["semcep_records_total"] == {(): 8}
    assert last["semcep_events_read_total"] == {("heat",): 5, ("smoke",): 2}
    assert last["semcep_dead_letters_total"] == {("json",): 1, ("late",): 1, ("range",): 1}
    assert last["semcep_events_late_total"] == {("heat",): 1}
    assert last["semcep_batch_seconds_count"] == {(): 2}
    assert last["semcep_rule_out_total"][("fire", "fires", "1")] == 1
    out = [json.loads(line)["type"] for line in Path("out.jsonl").read_text().splitlines()]
    assert last["semcep_events_derived_total"] == {(type,): out.count(type) for type in sorted(set(out))}
    with pytest.raises(OSError):
        scraped(urls[0])  # it has ended


def _table(event: Event) -> Any:
    import polars as pl

    names = {"smoke": ["room"], "heat": ["room", "temp"]}[event.type]
    return pl.DataFrame({"time": [event.end], **{name: [value] for name, value in zip(names, event.args)}})


def test_rules_and_goals_by_name() -> None:
    engine = Engine.from_text(PROGRAM)
    meter = Meter(charts(engine.plan))
    for type, args, time in (
        ("smoke", ("attic",), 1),
        ("heat", ("attic", 80.0), 4),
        ("smoke", ("attic",), 5),
        ("heat", ("attic", 99.0), 30),
    ):
        made = engine.push([Event(type, args, time * 10**6, time * 10**6)])
        report = Report.of(engine, {name: table.height for name, table in made.items()})
        meter.take([Report.of_line(report.line())], 0.5)
    made = engine.advance(31 * 10**6)
    meter.take([Report.of(engine, {name: table.height for name, table in made.items()})], 0.5)
    with serving(meter, "0") as url:
        found = scraped(url)
    rules = {rule: number for (_, rule, _), number in found["semcep_rule_out_total"].items()}
    # two rules of one line are distinguished; a recursion that runs in a kernel counts what it adds
    assert rules == {"fires": 3, "line 4": 0, "line 5:1": 2, "line 5:60": 2, "line 5:85": 1}
    into = {goal: number for (goal, *_), number in found["semcep_goal_in_total"].items()}
    assert into["fires"] == 4 and into["line 5:1"] == 3
    held = {goal: number for (goal, *_), number in found["semcep_goal_state_rows"].items()}
    assert held["line 5:1"] == 3
    assert sum(found["semcep_goal_state_bytes"].values()) <= sum(found["semcep_state_bytes"].values())
    assert sum(found["semcep_goal_step_seconds_total"].values()) > 0
    assert found["semcep_state_rows"] == {("1",): sum(held.values())}
    assert found["semcep_batch_seconds_sum"] == {(): 2.5}


def test_labels_of_any_text_are_escaped() -> None:
    meter = Meter(())
    odd = 'a "quoted" back\\slash\nand a line'
    meter.take([Report(read={odd: 3})], 0.1)
    with serving(meter, "0") as url:
        assert scraped(url)["semcep_events_read_total"] == {(odd,): 3}


def test_what_a_bucket_holds_is_as_its_last_report_says() -> None:
    text = "x(A) <- a(A) SEQ b(A) WITHIN 1 min."
    engine = Engine.from_text(text)
    meter = Meter(charts(engine.plan))
    whole = Report.of(engine, {}, bucket=1)
    engine.push([Event("a", (1,), 0, 0), Event("a", (2,), 0, 0)])
    engine.advance(1)
    meter.take([Report.of(engine, {}, bucket=0), whole], 0)
    assert meter.state[0] == 2
    assert [sum(rows for rows, _ in goal.state_by_bucket.values()) for goal in meter.goals.values()].count(2) == 1
    meter.take([Report.of(Engine.from_text(text), {}, bucket=0)], 0)
    assert meter.state[0] == 0 and not any(goal.state_by_bucket for goal in meter.goals.values())


@pytest.mark.parametrize(
    "text, logged", [("9464", ("127.0.0.1", 9464)), ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:80", ("::1", 80))]
)
def test_ports(text: str, logged: tuple[str, int]) -> None:
    assert host_and_port(text) == logged


def test_ports_that_are_none_or_taken() -> None:
    for text in ("99999", "http", ":80", ""):
        result = run("--metrics", text)
        assert (result.exit_code, result.stderr.splitlines()[0]) == (2, f"--metrics: `{text}` is not a port")
    with serving(Meter(()), "0") as url:
        port = url.split(":")[2].split("/")[0]
        result = run("--metrics", port)
        assert (result.exit_code, result.stderr) == (2, f"--metrics {port}: address already in use\n")


def test_a_log_is_an_object_a_line() -> None:
    result = run("--log", "json", "--lateness", "0")
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["start", "dead_letters", "stop", "first_dead_letter"]
    assert all(line["time"].endswith("Z") and line["level"] in ("info", "warning") for line in lines)
    assert lines[1]["reasons"] == {"json": 1, "range": 1, "late": 1} and lines[1]["late"] == {"heat": 1}
    assert lines[2]["records"] == 8 and lines[2]["text"].startswith("8 records, 3 dead letters")
    refused = run("--log", "json", "--input", "nowhere.jsonl")
    (line,) = [json.loads(line) for line in refused.stderr.splitlines()]
    assert (refused.exit_code, line["level"], line["code"]) == (2, "error", "no-file")


def test_progress_is_told_as_often_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[dict[str, Any]] = []

    def log(event: str, text: str | None, level: str = "info", /, **fields: object) -> None:
        logged.append({"event": event, **fields})

    def batches() -> Iterator[Batch]:
        for time in (1, 2, 3):
            yield Batch({"smoke": _table(Event("smoke", ("attic",), time, time))}, [], ())

    for pause, lines in ((0.0, 4), (3600.0, 0)):
        logged.clear()
        engine = Engine.from_text(PROGRAM)
        one = watch.Watch(charts(engine.plan), RunStats(), log, pause)
        pipeline.flow(engine, batches(), one.stats, lambda *_: None, _Nothing(), pipeline.Interrupt(), one)
        progress_lines = [line for line in logged if line["event"] == "progress"]
        assert len(progress_lines) == lines
    assert plain("progress", None) is None


def test_a_batch_at_work_says_how_many_tasks_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[dict[str, Any]] = []

    def log(event: str, text: str | None, level: str = "info", /, **fields: object) -> None:
        logged.append({"event": event, **fields})

    monkeypatch.setattr(watch, "OFTEN", 0.0)
    one = watch.Watch(charts(Engine.from_text(PROGRAM).plan), RunStats(), log)
    one.working(0, 1)
    assert one.stats.tasks is None and not logged, "of one task there is nothing to say"
    one.working(3, 20)
    assert one.stats.tasks == (3, 20) and logged == [{"event": "working", "batches": 0, "tasks": 20, "done": 3}]
    one.batch([], 1.0)
    assert one.stats.tasks is None


class _Nothing:
    def add(self, records: Any) -> None:
        assert not list(records)

    def reject(self, batch: Any, refused: Any) -> None:
        assert not list(refused)

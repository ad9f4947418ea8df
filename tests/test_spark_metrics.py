"""What a run on Spark tells of itself: reports of files and buckets reach the driver, for a port, a log, a display."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cep.app import watch
from cep.command import app
from cep.core.compilation import Compilation
from cep.spark.driver import query
from tests import spark_runs
from tests.test_metrics import PROGRAM, Sample, scraped

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
]


def test_a_run_is_looked_at_while_it_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stages, two files a micro-batch: what is scraped after each is what files and buckets did so far."""
    spark_runs.spark()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    Path("fire.cep").write_text(PROGRAM)
    Path("days").mkdir()
    for day in range(3):
        records: list[dict[str, Any]] = [
            {"type": "smoke", "time": 100 * day + 1, "room": "attic"},
            {"type": "heat", "time": 100 * day + 2, "room": "attic", "temp": 80},
            {"type": "heat", "time": 100 * day + 3, "room": "attic", "temp": 9000},
            {"type": "heat", "time": 100 * day + 90, "room": "cellar", "temp": 80},
        ]
        Path(f"days/{day}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    late = '{"type": "heat", "time": 1, "room": "cellar", "temp": 8}\n'
    Path("days/2.jsonl").write_text(late + Path("days/2.jsonl").read_text() + "{]\n")
    seen: list[dict[str, Sample]] = []
    on_progress = query.QueryListener.onQueryProgress
    urls: list[str] = []
    log = watch.objects

    def noted(event: str, *said: Any, **fields: Any) -> None:
        urls.extend([fields["url"]] if event == "metrics" else [])
        log(event, *said, **fields)

    def looking(self: query.QueryListener, event: Any) -> None:
        on_progress(self, event)
        seen.append(scraped(urls[0]))

    monkeypatch.setattr("cep.app.run_options.LOGS", {"json": noted})
    monkeypatch.setattr(query.QueryListener, "onQueryProgress", looking)
    places = ["--output", "out", "--checkpoint", "state", "--buckets", "2", "--output-format", "jsonl"]
    options = ["--log", "json", "--metrics", "0", "--lateness", "1 s", "--files", "1", "--input", "days"]
    result = CliRunner().invoke(app, ["run", "fire.cep", "--on", "spark", *places, *options], prog_name="cep")
    assert result.exit_code == 0, result.stderr
    files = [file for file in Path("out").rglob("part-*") if file.is_file()]
    out = [json.loads(line)["type"] for file in files for line in file.read_text().splitlines()]
    first, last = seen[0], seen[-1]
    assert first["semcep_records_total"] == {(): 4} and last["semcep_records_total"] == {(): 14}
    assert last["semcep_events_read_total"] == {("heat",): 10, ("smoke",): 3}
    assert last["semcep_dead_letters_total"] == {("json",): 1, ("late",): 1, ("range",): 3}
    assert last["semcep_events_late_total"] == {("heat",): 1}
    assert last["semcep_events_derived_total"] == {(type,): out.count(type) for type in sorted(set(out))}
    assert first["semcep_hot_key_share"] == {
        ("heat", "room=attic"): 2 / 3,
        ("heat", "room=cellar"): 1 / 3,
        ("smoke", "room=attic"): 1,
    }
    assert last["semcep_watermark_seconds"] == {(): 188.999999}, "that of the file before"
    assert last["semcep_batch_seconds_count"] == {(): len(seen)}
    stages = {stage for *_, stage in last["semcep_goal_out_total"]}
    assert stages == {"1", "2"}, "what has no key runs by itself"
    rules = {rule: number for (_, rule, _), number in last["semcep_rule_out_total"].items()}
    assert rules["fires"] == out.count("fire") == 3
    assert sum(first["semcep_state_rows"].values()) == 3, "what is read waits for the watermark"
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert [line["event"] for line in lines][:2] == ["metrics", "start"] and lines[-1]["event"] == "stop"
    assert sum(line["late"].get("heat", 0) for line in lines if line["event"] == "dead_letters") == 1
    (done, *_) = [line for line in lines[::-1] if line["event"] == "progress"]
    assert done["records"] == 14 and done["derived"] == lines[-1]["derived"] and "addBatch" in done["phases"]


def test_a_long_micro_batch_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = spark_runs.spark()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    monkeypatch.setattr(query, "_LOOK", 0.05)
    monkeypatch.setattr(watch, "OFTEN", 0.0)
    Path("fire.cep").write_text(PROGRAM)
    Path("days").mkdir()
    for day in range(8):
        record = {"type": "smoke", "time": day, "room": "attic"}
        Path(f"days/{day}.jsonl").write_text(json.dumps(record) + "\n")
    places = ["--output", "out", "--checkpoint", "state", "--buckets", "2", "--log", "json", "--input", "days"]
    result = CliRunner().invoke(app, ["run", "fire.cep", "--on", "spark", *places], prog_name="cep")
    assert result.exit_code == 0, result.stderr
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    working = [line for line in lines if line["event"] == "working"]
    assert working and all(0 <= line["done"] <= line["tasks"] for line in working)
    assert any(line["tasks"] >= 2 for line in working) and lines[-1]["records"] == 8
    assert query.running_tasks(spark) == (0, 0)

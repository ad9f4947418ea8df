"""What a run on Spark tells of its input: dead letters as records, paths that none has, times that fall."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.connectors import files
from cep.connectors.records.batch import Batch
from cep.core.errors import CepError
from cep.core.storage.failures import StorageError, no_bucket, not_there
from cep.core.storage.urls import url
from cep.engine import Engine
from cep.runtime.report import Report
from cep.spark.driver.remarks import InputRemarks
from cep.spark.source.reading import readable_batches
from tests import spark_runs

pytestmark = pytest.mark.xdist_group("spark")

PROGRAM = """\
event reading(k: string, bar: float? FROM "payload.suction.baar") TIME at.
event local(x: int) TIME t FORMAT "%d.%m.%Y %H:%M" ZONE "Europe/Zurich" FOLD order.
fluent near(a: string FROM "who.left", b: string) START since END till.
met(K) <- reading(K, _) WHERE near(K, _).
seen(X) <- local(X).
"""


def test_events_before_1970_do_not_move_the_watermark_of_spark() -> None:
    def told(*latest: int | None, open_ended: bool = True) -> list[str]:
        remarks = InputRemarks({}, open_ended)
        remarks.take([*(Report(latest=one) for one in latest), Report(stage=1, latest=5)])
        return remarks.all()

    assert "before 1970, where the watermark of Spark begins" in told(-5_000_000, None, -7_000_000)[0]
    assert told(-5_000_000, 1) == told(None) == told(-5_000_000, open_ended=False) == []


def test_what_a_store_refuses_may_be_readable_later() -> None:
    """Else a file whose login is over for a moment would count as read."""
    at = url("s3://bucket/day.jsonl")
    for error, lost in [
        (StorageError(errno.EACCES, "access is denied", str(at)), False),
        (no_bucket(at), False),
        (not_there(at), True),
    ]:

        def read(error: StorageError = error) -> Iterator[Batch]:
            raise files._unreadable(str(at), error)
            yield

        if lost:
            assert [one.dead[0].reason for one in readable_batches(read(), str(at))] == ["no such file"]
        else:
            with pytest.raises(CepError):
                list(readable_batches(read(), str(at)))


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
def test_what_is_told_of_the_input(tmp_path: Path) -> None:
    spark_runs.spark()
    (tmp_path / "p.cep").write_text(PROGRAM)
    (tmp_path / "in").mkdir()

    def file(name: str, *rows: dict[str, object]) -> None:
        (tmp_path / "in" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def reading(time: int) -> dict[str, object]:
        return {"type": "reading", "k": "x", "at": time, "payload": {"suction": {"bar": 2.5}}}

    near: dict[str, object] = {"type": "near", "who": {"left": "x"}, "b": "y", "since": 1700000000, "till": 1700000060}
    file("1.jsonl", *(reading(1700000000 + n) for n in range(6)), near)
    file("2.jsonl", *(reading(1700000100 + n) for n in range(6)))
    file("3.jsonl", near | {"till": 1700000090, "bounds": "[)"}, reading(1700000001), reading(1700000200))
    file("4.jsonl", *({"type": "local", "x": n, "t": f"27.10.2024 {13 - n:02}:00"} for n in range(12)))
    program, records = str(tmp_path / "p.cep"), str(tmp_path / "in")
    common = ["--lateness", "10 s", "--dead-letter"]
    where = ["-o", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "state")]
    arguments = [*common, str(tmp_path / "dead"), "--on", "spark", "--master", "local[2]", "--files", "1", *where]
    result = CliRunner().invoke(app, ["run", program, "-i", records, *arguments])
    assert result.exit_code == 0, result.output
    alone = CliRunner().invoke(app, ["run", program, "-i", records, *common, str(tmp_path / "dead.jsonl")])
    told = [line for line in alone.stderr.splitlines() if line.startswith("warning: ")]
    assert len(told) == 2 and any("`bar` is missing in all of them" in line for line in told), alone.stderr
    assert any("`FOLD order` needs the oldest records first" in line for line in told)
    assert [line for line in result.stderr.splitlines() if line.startswith("warning: ")] == told
    letters = [json.loads(line) for path in (tmp_path / "dead").glob("*") for line in path.read_text().splitlines()]
    late = {json.dumps(one["record"], sort_keys=True) for one in letters if one["code"] == "late"}
    first = near | {"since": "2023-11-14T22:13:20Z", "till": "2023-11-14T22:14:50Z", "bounds": "[)"}
    second = {"type": "reading", "at": "2023-11-14T22:13:21Z", "k": "x", "payload": {"suction": {"baar": None}}}
    seconds = {"since": 1700000000, "till": 1700000090}, {"at": 1700000001}
    assert late in (
        {json.dumps(each, sort_keys=True) for each in (first, second)},
        {json.dumps(each | times, sort_keys=True) for each, times in zip((first, second), seconds)},
    ), letters


def test_what_no_record_of_any_file_has() -> None:
    schemas = Engine.from_text("event r(x: int, a: int?, b: int? FROM c) TIME t.\nn(X) <- r(X, _, _).").inputs
    told = InputRemarks(schemas)
    told.take([Report(read={"r": 6}, lacking={"r": {"a": None, "b": "write FROM d"}}, remarks=["times fall"])])
    told.take([Report(read={"r": 7}, lacking={"r": {"b": None}}, remarks=["times fall"]), Report()])
    assert told.all() == [
        "times fall",
        "none of the 13 records of `r` has a value at `c`: `b` is missing in all of them; write FROM d",
    ]
    told.take([Report(read={"r": 1})])
    assert told.all() == ["times fall"]

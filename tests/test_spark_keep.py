"""`--keep` on Spark: what is older leaves the folder and its log, and what is left is what any reader finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.core.compilation import Compilation
from cep.spark.sink.commit_log import CommitLog, file_name
from tests import spark_runs

pytestmark = pytest.mark.xdist_group("spark")

PROGRAM = """event reading(room: string, temp: float).
event hot(room: string, temp: float).
hot(R, T) <- reading(R, T) WHERE T > 30.
"""


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
def test_old_events_leave_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    spark = spark_runs.spark()
    Path("hot.cep").write_text(PROGRAM)
    Path("days").mkdir()
    options = ["--input", "reading=days", "--output", "out", "--checkpoint", "state", "--output-format", "jsonl"]
    options += ["--once", "--lateness", "1s", "--files", "1", "--keep", "500s", "--buckets", "1"]
    for first in (0, 10):  # two runs, of a micro-batch a file: the log is written as a whole after ten, and twenty
        for n in range(first, first + 10):
            Path(f"days/{n:02}.jsonl").write_text(json.dumps({"time": 100 * n, "room": "attic", "temp": 31 + n}))
        done = CliRunner().invoke(app, ["run", "hot.cep", "--on", "spark", *options], prog_name="cep")
        assert done.exit_code == 0, done.output
        if first == 0:
            assert (Path("out") / file_name(next(CommitLog(Path("out")).lines()))).exists(), "files leave the log first"
    commits = CommitLog(Path("out"))
    logged = [file_name(line) for line in commits.lines()]
    there = {file.name for file in Path("out").glob("part-*")}
    assert there == {*logged, *commits.leaving()}, "a file is in the log, has just left it, or is gone"
    assert commits.totals()["hot"] >= 18, "what is gone counts as written"
    temperatures = [json.loads(line)["temp"] for name in logged for line in (Path("out") / name).open()]
    assert max(temperatures) >= 31 + 17 and min(temperatures) > 31 + 5 and len(temperatures) == len(set(temperatures))
    assert sorted(row["temp"] for row in spark.read.json(str(tmp_path / "out")).collect()) == sorted(temperatures)

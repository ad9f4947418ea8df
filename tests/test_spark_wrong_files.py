"""Files that are wrong as a whole: in a query each is a dead letter, not its end."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from cep.command import app
from cep.connectors.files import DEVICE, _unreadable
from cep.connectors.inputs import Input
from cep.core.compilation import Compilation
from cep.core.errors import CepError
from cep.engine import Engine
from cep.runtime.report import Report
from cep.spark.program import ProgramOptions, ShippedProgram
from cep.spark.shuffle_blocks import REPORT
from cep.spark.source.data_source import new_files
from cep.spark.source.file_list import FileList
from cep.spark.source.reading import file_blocks
from tests import spark_runs

pytestmark = pytest.mark.xdist_group("spark")

PROGRAM = """\
event a(k: string, x: int) TIME at.
event b(k: string) TIME at.
pair(K) <- a(K, _) SEQ b(K) WITHIN 1 min.
"""
FINE = [{"at": 1, "k": "one", "x": 1}, {"at": 2, "k": "two", "x": 2}]


def program() -> ShippedProgram:
    return ShippedProgram.of(Engine.from_text(PROGRAM), PROGRAM, "<program>", ProgramOptions(), 2)


def taken(file: Input, folder: Path) -> tuple[dict[str, int], list[tuple[Any, ...]], Report]:
    """How many events of a file there are, its dead letters, and what is reported of it; twice the same."""
    seen = []
    for _ in range(2):
        report = Report()
        for block in file_blocks(program(), 7, file, f"{folder}/ab-"):
            report = Report.of_line(block.source or "") if block.stage == REPORT else report
        letter = folder / "ab-read-00000007.jsonl"
        dead = [json.loads(line) for line in letter.read_text().splitlines()] if letter.exists() else []
        assert all(each["file"] == file.path for each in dead)
        seen.append((report.read, [(each["code"], each["line"], each["reason"]) for each in dead], report))
    assert seen[0] == seen[1]
    return seen[0][0], seen[0][1], seen[0][2]


def test_a_wrong_file_is_one_dead_letter(tmp_path: Path) -> None:
    dead = tmp_path / "dead"
    garbage, missing, other, header = (tmp_path / name for name in ("1.parquet", "2.parquet", "3.parquet", "4.csv"))
    garbage.write_bytes(b"PAR1 and no more")
    pl.DataFrame(FINE).drop("x").write_parquet(missing)
    pl.DataFrame(FINE).with_columns(x=pl.Series([[1], [2]])).write_parquet(other)
    header.write_text("when,k,x\n1,one,1\n")
    for path, reason in [
        (garbage, "this is not a valid Parquet file: "),
        (missing, "a needs a column `x`"),
        (other, "the column `x` holds a list"),
        (header, "a needs a column `at` for the time"),
        (tmp_path / "[5].csv", "no such file or directory"),
        (tmp_path, "is a directory"),
    ]:
        format = path.suffix.removeprefix(".") or "csv"
        read, letters, report = taken(Input(str(path), format, "a", True), dead)
        assert read == {} and [each[:2] for each in letters] == [("file", 0)]
        assert letters[0][2].startswith(reason), letters
        assert report.dead == {"file": 1} and report.unread == [f"{path}: {letters[0][2]}"]


def test_a_file_that_a_worker_alone_does_not_have_is_not_lost(tmp_path: Path) -> None:
    path, journal = tmp_path / "1.jsonl", FileList(str(tmp_path / "files.jsonl"))
    path.write_text('{"type": "a", "at": 1, "k": "one", "x": 1}\n')
    journal.extend([(0, Input(str(path), "jsonl", None, False))])
    (planned,) = (one.seen() for one in journal.entries(0, 1))
    path.unlink()  # or not mounted, or of another user
    with pytest.raises(CepError) as failed:
        list(file_blocks(program(), 0, planned.input, f"{tmp_path}/dead/ab-", planned.readable))
    logged = (
        f"{path} cannot be read by a worker on {socket.gethostname()}: no such file or directory; it exists on the "
    )
    logged += "machine that plans the query"
    assert failed.value.code == DEVICE and failed.value.message.startswith(logged) and failed.value.hint
    assert not list(tmp_path.glob("dead/*"))
    # Gone before it was planned, or planned anew, it is a dead letter.
    (planned,) = (one.seen() for one in journal.entries(0, 1))
    assert not planned.readable
    read, letters, _ = taken(planned.input, tmp_path / "dead")
    assert read == {} and letters == [("file", 0, "no such file or directory")]


def test_what_was_read_before_the_damage_counts(tmp_path: Path) -> None:
    path = tmp_path / "1.parquet"
    rows = 1 << 19
    pl.DataFrame({"at": range(2 * rows), "k": ["one"] * (2 * rows), "x": range(2 * rows)}).write_parquet(
        path, row_group_size=rows, compression="snappy", statistics=False
    )
    data = bytearray(path.read_bytes())
    half = len(data) * 6 // 10
    data[half : half + 4000] = b"\xff" * 4000
    path.write_bytes(data)
    read, letters, _ = taken(Input(str(path), "parquet", "a", True), tmp_path / "dead")
    assert read == {"a": rows}
    ((code, line, reason),) = letters
    assert (code, line) == ("file", rows + 1) and reason.startswith("the rest of the file cannot be read: ")


def test_what_a_file_holds_may_be_unsure_until_it_is_read(tmp_path: Path) -> None:
    schemas = program().schemas
    schemas = {name: schemas[name] for name in ("a", "b")}
    for name in ("1.csv", "2.jsonl", "3.txt"):
        (tmp_path / name).write_text("at,k\n")
    with pytest.raises(CepError, match="holds one event type"):
        new_files(schemas, [str(tmp_path)], None)
    files = new_files(schemas, [f"{tmp_path}/*"], None, unsure=True)
    assert [(Path(each.path).name, each.format, each.type) for each in files] == [
        ("1.csv", "csv", None),
        ("2.jsonl", "jsonl", None),
        ("3.txt", "", None),
    ]
    for file, reason in [
        (files[0], "a file of format csv holds one event type"),
        (files[2], "the format is not known"),
    ]:
        _, ((code, _, logged),), _ = taken(file, tmp_path / "dead")
        assert code == "file" and logged.startswith(reason)


def test_a_disk_that_fails_is_no_wrong_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: str) -> Any:
        raise OSError(5, "Input/output error", path)

    file = Input(str(tmp_path / "1.csv"), "csv", "a", True)
    monkeypatch.setattr(os, "stat", fails)
    with pytest.raises(CepError, match=r"1\.csv: input/output error") as error:
        list(file_blocks(program(), 7, file, f"{tmp_path}/dead/ab-"))
    assert error.value.code == DEVICE
    assert _unreadable("x", OSError("snappy: damaged.\nmore")).message == "x: snappy: damaged"


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
def test_the_query_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_runs.spark()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    Path("pair.cep").write_text(PROGRAM)
    Path("days").mkdir()

    def run(dead: str, *inputs: str) -> Result:
        places = [f"--output=out-{dead}", f"--checkpoint=state-{dead}", "--dead-letter=dead", "--output-format=jsonl"]
        options = ["--lateness=1h", "--once", "--strict", "--log=json", "--buckets=2"]
        named = [part for spec in inputs for part in ("--input", spec)]
        return CliRunner().invoke(app, ["run", "pair.cep", "--on=spark", *places, *options, *named], prog_name="cep")

    Path("days/1.jsonl").write_text('{"type": "a", "at": 1, "k": "one", "x": 1}\n{"type": "b", "at": 2, "k": "one"}\n')
    Path("days/2.parquet").write_bytes(b"no Parquet")
    result = run("one", "days/*.jsonl", "a=days/*.parquet")
    assert result.exit_code == 1, result.stderr
    logged = [json.loads(line) for line in result.stderr.splitlines()]
    (warned,) = [each for each in logged if each["event"] == "unread"]
    assert warned["level"] == "warning" and warned["text"].startswith(
        f"not read: {tmp_path}/days/2.parquet: this is not a valid Parquet file"
    )
    assert logged[-1]["records"] == 2 and logged[-1]["dead"] == {"file": 1}
    # Another query has the same folder of dead letters, and its own files there.
    (first,) = Path("dead").iterdir()
    before = first.read_text()
    Path("days/2.parquet").write_bytes(b"neither")
    assert run("two", "a=days/*.parquet").exit_code == 1
    assert first.read_text() == before and len(list(Path("dead").iterdir())) == 2
    # What has been read may be wrong, or gone: nobody looks again.
    assert run("one", "days/*.jsonl", "a=days/*.parquet").exit_code == 0

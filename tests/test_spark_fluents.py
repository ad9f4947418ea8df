"""Fluents on Spark: by key, a value being no part of it, and written as a run in one process writes them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from cep.command import app
from tests import spark_runs

pytestmark = pytest.mark.xdist_group("spark")

PROGRAM = """event velocity(vessel: string, speed: float) TIME time.
fluent moving(vessel: string).
fluent mode(vessel: string) = kind: string.
initially mode(v3) = off.
initiate moving(V) <- velocity(V, S) WHERE S > 0.5.
terminate moving(V) <- velocity(V, S) WHERE S <= 0.5.
initiate mode(V) = fast <- velocity(V, S) WHERE S > 5, moving(V).
initiate mode(V) = slow <- velocity(V, S) WHERE S <= 5.
mode(V) = fast ENDS AFTER 20 s.
trip(V, D) <- moving(V) WHERE D = duration().
halted(V) <- END OF moving(V) WHERE mode(V) = slow.
braked(V, K) <- velocity(V, S) WHERE S < 1, held(mode(V) = K, end() - 5 s), not held(moving(V), end() - 30 s).
"""


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["run", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
def test_fluents_on_spark_in_one_two_and_seven_buckets(tmp_path: Path) -> None:
    spark_runs.spark()
    rng = random.Random(5)
    (tmp_path / "p.cep").write_text(PROGRAM)
    (tmp_path / "in").mkdir()
    rows = [
        {"type": "velocity", "vessel": f"v{rng.randrange(9)}", "speed": rng.choice((0.1, 3.0, 9.0)), "time": t}
        for t in range(200)
    ]
    for number in range(2):
        lines = "".join(json.dumps(row) + "\n" for row in rows[number * 100 : number * 100 + 100])
        (tmp_path / "in" / f"{number}.jsonl").write_text(lines)
    program, records = str(tmp_path / "p.cep"), str(tmp_path / "in")
    expected = sorted(run(program, "-i", records).splitlines())
    assert any('"end": null' in line for line in expected) and any('"start": null' in line for line in expected)
    assert any('"type": "braked"' in line for line in expected)
    for buckets, format in (("1", "jsonl"), ("2", "parquet"), ("7", "jsonl")):
        out = tmp_path / f"out{buckets}"
        run(program, "-i", records, "--on", "spark", "--master", "local[2]", "--buckets", buckets, "-o", str(out),
            "--checkpoint", str(tmp_path / f"state{buckets}"), "--output-format", format)  # fmt: skip
        if format == "jsonl":
            found = [line for path in out.rglob("*.jsonl") for line in path.read_text().splitlines()]
            assert sorted(found) == expected
            continue
        tables = [pl.read_parquet(path, hive_partitioning=True) for path in out.rglob("*.parquet")]
        table = pl.concat(tables, how="diagonal_relaxed").filter(pl.col("type") == "moving")
        wanted = [json.loads(line) for line in expected if '"type": "moving"' in line]
        second = pl.col("start").dt.epoch("s"), pl.col("end").dt.epoch("s"), "vessel", "bounds"
        assert sorted(table.select(second).rows(), key=str) == sorted(
            ((row["start"], row["end"], row["vessel"], row["bounds"]) for row in wanted), key=str
        )


RECORDED = """event ping(a: string) TIME time.
fluent near(a: string, b: string) START s END e.
fluent held(a: string, b: string) = kind: string START s END e.
fluent lonely(a: string).
met(A, B) <- ping(A) WHERE near(A, B).
lonely(A) WHILE ONCE[0, 3 s] ping(A) AND NOT near(A, _).
gone(A, K) <- END OF held(A, _) = K.
"""


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
def test_changes_of_fluents_and_a_stretch_on_spark(tmp_path: Path) -> None:
    """What one process writes with the same options: when fluents begin and end; what lies in a stretch of time."""
    spark_runs.spark()
    rng = random.Random(7)
    (tmp_path / "p.cep").write_text(PROGRAM)
    (tmp_path / "in").mkdir()
    for number in range(2):
        lines = [
            json.dumps({"type": "velocity", "vessel": f"v{rng.randrange(9)}", "speed": rng.choice((0.1, 3.0, 9.0)),
                        "time": t}) + "\n"
            for t in range(number * 60, number * 60 + 60)
        ]  # fmt: skip
        (tmp_path / "in" / f"{number}.jsonl").write_text("".join(lines))
    program, records = str(tmp_path / "p.cep"), str(tmp_path / "in")
    for number, (format, options) in enumerate((
        ("jsonl", ["--changes"]), ("parquet", ["--changes"]), ("jsonl", ["--from", "20", "--until", "70"]),
    )):  # fmt: skip
        expected = sorted(run(program, "-i", records, *options).splitlines())
        out = tmp_path / f"out{number}"
        folders = ["-o", str(out), "--checkpoint", str(tmp_path / f"state{number}")]
        run(program, "-i", records, "--on", "spark", "--master", "local[2]", "--buckets", "3", *folders,
            "--output-format", format, *options)  # fmt: skip
        if format == "jsonl":
            found = [line for path in out.rglob("*.jsonl") for line in path.read_text().splitlines()]
            assert sorted(found) == expected
            continue
        assert any('"@edge": "begins"' in line for line in expected) and any(
            '"time": null' in line for line in expected
        )
        table = pl.concat([pl.read_parquet(path, hive_partitioning=True) for path in out.rglob("*.parquet")])
        wanted = [json.loads(line) for line in expected if '"type": "mode"' in line]
        columns = "@edge", pl.col("time").dt.epoch("s"), "vessel", "kind", "bounds"
        assert sorted(table.filter(pl.col("type") == "mode").select(columns).rows(), key=str) == sorted(
            ((row["@edge"], row["time"], row["vessel"], row["kind"], row["bounds"]) for row in wanted), key=str
        )


@pytest.mark.long
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
def test_records_of_fluents_on_spark(tmp_path: Path) -> None:
    spark_runs.spark()
    rng = random.Random(11)
    (tmp_path / "p.cep").write_text(RECORDED)
    (tmp_path / "in").mkdir()
    rows: list[dict[str, object]] = []
    for t in range(160):
        a, b = f"v{rng.randrange(5)}", f"v{rng.randrange(5)}"
        kind = rng.choice(("ping", "near", "near", "held"))
        row: dict[str, object] = {"type": kind, "a": a}
        if kind == "ping":
            rows.append(row | {"time": t})
            continue
        end = rng.choice((None, t, t + 1, t + 6, t + 30))
        row |= {"b": b, "s": t, "e": end} | ({"kind": rng.choice("xy")} if kind == "held" else {})
        rows.append(row | ({} if end in (None, t) else {"bounds": rng.choice(("[]", "[)", "(]", "()"))}))
        if end is None and rng.random() < 0.7:  # a later record closes it, which counts by its end
            rows.append(row | {"e": t + 9})
    for number in range(2):
        lines = "".join(json.dumps(row) + "\n" for row in rows[number * 100 : number * 100 + 100])
        (tmp_path / "in" / f"{number}.jsonl").write_text(lines)
    program, records = str(tmp_path / "p.cep"), str(tmp_path / "in")
    expected = sorted(run(program, "-i", records).splitlines())
    assert {json.loads(line)["type"] for line in expected} == {"near", "held", "lonely", "met", "gone"}
    for buckets in ("1", "3"):
        out = tmp_path / f"out{buckets}"
        run(program, "-i", records, "--on", "spark", "--master", "local[2]", "--buckets", buckets, "-o", str(out),
            "--checkpoint", str(tmp_path / f"state{buckets}"), "--output-format", "jsonl")  # fmt: skip
        found = [line for path in out.rglob("*.jsonl") for line in path.read_text().splitlines()]
        assert sorted(found) == expected


def test_what_is_known_at_the_end_alone_is_refused_where_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "p.cep").write_text(
        "event reading(k: string) TIME time.\nfluent seen(k: string).\nseen(K) WHILE EVENTUALLY reading(K).\n"
    )
    spark = [
        "run",
        "--on",
        "spark",
        "-i",
        str(tmp_path),
        "-o",
        str(tmp_path / "o"),
        "--checkpoint",
        str(tmp_path / "c"),
    ]
    for words in (spark, ["serve", "-i", "reading=-", "--port", "0"]):
        result = CliRunner().invoke(app, [words[0], str(tmp_path / "p.cep"), *words[1:]], input="")
        assert result.exit_code == 2
        assert "p.cep:3:15: this EVENTUALLY is known only at the end of the input: " in result.output
        assert "hint: `EVENTUALLY[0, 1 h]` is known an hour later" in result.output

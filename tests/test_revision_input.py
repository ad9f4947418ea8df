"""What can be wrong with input that says what is withdrawn: each has a reason, and none is taken for another thing."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from cep import Engine
from cep.command import app
from cep.core.errors import CepError
from cep.engine import Engine as Running

PROGRAM = """event reading(sensor: string, seq: int, temp: float) TIME time KEY sensor, seq.
hot(S, T) <- reading(S, _, T) WHERE T > 30.
"""
READING = {"time": "2024-05-01T10:00:00Z", "sensor": "a", "seq": 1, "temp": 31.0}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.cep").write_text(PROGRAM)


def cep(*arguments: str, status: int = 0) -> Result:
    found = CliRunner().invoke(app, list(arguments), prog_name="cep")
    assert found.exit_code == status, found.output
    return found


def run(*options: str, status: int = 0) -> list[tuple[str, str]]:
    """The changes, and after them codes and reasons of the dead letters."""
    result = cep("run", "rules.cep", *options, "--dead-letter", "dead.jsonl", "--batch", "1", status=status)
    dead = map(json.loads, Path("dead.jsonl").read_text().splitlines())
    made = [json.loads(line) for line in result.stdout.splitlines()]
    return [(row["@change"], row["type"]) for row in made] + [(each["code"], each["reason"]) for each in dead]


WORDS = "`@change` is `add` or `withdraw`, or 1 or -1, not "


@pytest.mark.parametrize(
    "change, found",
    [
        ("withdraw", ("withdraw", "hot")),
        (-1, ("withdraw", "hot")),
        ("", None),
        (None, None),
        ("delete", ("change", f"{WORDS}`delete`")),
        (0, ("change", f"{WORDS}`0`")),
        (True, ("change", f"{WORDS}`True`")),
    ],
)
@pytest.mark.parametrize("kind", ["jsonl", "csv", "python"])
def test_words_for_changes(change: object, found: tuple[str, str] | None, kind: str) -> None:
    expected = [("add", "hot"), *([found] if found is not None else [])]
    if kind == "csv":
        word = "" if change is None else change
        if isinstance(change, bool):
            return
        for name, said in (("first", ""), ("then", word)):
            Path(f"{name}.csv").write_text(f"time,sensor,seq,temp,@change\n2024-05-01T10:00:00Z,a,1,31,{said}\n")
        assert run("--input", "reading=first.csv", "--input", "reading=then.csv", "--revise", "1h") == expected
    elif kind == "jsonl":
        lines = (json.dumps({"type": "reading"} | each) for each in (READING, READING | {"@change": change}))
        Path("in.jsonl").write_text("\n".join(lines))
        assert run("--input", "in.jsonl", "--revise", "1h") == expected
    else:
        engine = Engine.from_text(PROGRAM, revise="1 h")
        made = [engine.push([each]) for each in (READING, READING | {"@change": change})]
        signs = [sign for each in made for sign in each["hot"]["@change"].to_list()]
        dead = [(row["code"], row["reason"]) for each in made for row in each.dead.iter_rows(named=True)]
        assert [({1: "add", -1: "withdraw"}[sign], "hot") for sign in signs] + dead == expected


def test_values_by_position() -> None:
    record = {"type": "reading", "time": READING["time"], "args": [READING[name] for name in ("sensor", "seq", "temp")]}
    more = record | {"args": [*record["args"], -1]}
    lines = [record, more, record | {"@change": "withdraw"}, record | {"@change": "no"}]
    for number, each in enumerate(lines):
        Path(f"{number}.jsonl").write_text(json.dumps(each))
    inputs = [part for number in range(len(lines)) for part in ("--input", f"{number}.jsonl")]
    assert run(*inputs, "--revise", "1h") == [
        ("add", "hot"),
        ("withdraw", "hot"),
        ("args", "`args` holds 4 values, but reading has 3 attributes"),
        ("change", f"{WORDS}`no`"),
    ]


@pytest.mark.parametrize("type", [pl.Int8, pl.Int64, pl.Float64])
def test_a_column_of_numbers_of_any_type(type: pl.DataType) -> None:
    engine = Engine.from_text(PROGRAM, revise="1 h")
    engine.push({"reading": pl.DataFrame([READING])})
    table = pl.DataFrame([READING] * 2).with_columns(pl.Series("@change", [-1, None], dtype=type))
    made = engine.push({"reading": table})
    assert made["hot"].height == 0 and made.dead.height == 0, "it is withdrawn, and comes again"
    made = engine.push({"reading": table.with_columns(pl.Series("@change", [-1, -1], dtype=type))})
    assert made["hot"]["@change"].to_list() == [-1]
    assert made.dead["code"].to_list() == ["unknown-withdrawal"], "the second finds nothing"
    if type == pl.Float64:
        made = engine.push({"reading": table.with_columns(pl.Series("@change", [0.5, None], dtype=type))})
        assert made.dead["reason"].to_list() == [f"{WORDS}`0.5`"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_without_the_column_come_and_some_have_but_the_key(suffix: str) -> None:
    first, later = pl.DataFrame([READING]), pl.DataFrame([READING]).drop("temp")
    later = later.with_columns(pl.lit("withdraw").alias("@change"))
    for name, table in (("first", first), ("later", later)):
        if suffix == "csv":
            table.write_csv(f"{name}.csv")
        else:
            table.write_parquet(f"{name}.parquet")
    inputs = ("--input", f"reading=first.{suffix}", "--input", f"reading=later.{suffix}")
    assert run(*inputs, "--revise", "1h") == [("add", "hot"), ("withdraw", "hot")]


def test_what_is_final_or_never_was_has_its_reason() -> None:
    late = READING | {"time": "2024-05-01T08:00:00Z", "@change": "withdraw"}
    lines = [READING, late, READING | {"seq": 7, "@change": "withdraw"}]
    Path("in.jsonl").write_text("\n".join(json.dumps({"type": "reading"} | each) for each in lines))
    assert run("--input", "in.jsonl", "--revise", "1h") == [
        ("add", "hot"),
        ("late", "is late by 1 h: results for that time are final"),
        ("unknown-withdrawal", "withdraws a record that does not exist"),
    ]


def test_what_cannot_say_what_is_withdrawn_does_not_come_as_something_else() -> None:
    Path("rules.cep").write_text("both(X) <- a(X).\n")
    record = {"type": "a", "time": "2024-05-01T10:00:00Z", "args": [1]}
    Path("in.jsonl").write_text(json.dumps(record) + "\n" + json.dumps(record | {"@change": "withdraw"}))
    reason = "`a` is not declared: `@change` can be read for declared events only"
    assert run("--input", "in.jsonl", "--revise", "1h") == [("add", "both"), ("change", reason)]
    Path("in.csv").write_text("time,arg1,@change\n2024-05-01T10:00:00Z,1,withdraw\n")
    refused = cep("run", "rules.cep", "--input", "a=in.csv", status=2)
    assert "the column `@change` marks withdrawn records" in refused.stderr and "declare `a`" in refused.stderr
    Path("rules.cep").write_text(PROGRAM.replace(" KEY sensor, seq", ""))
    pl.DataFrame([READING | {"@change": "withdraw"}]).write_csv("in.csv")
    assert "--revise 6h" in cep("run", "rules.cep", "--input", "reading=in.csv", status=2).stderr


def test_no_attribute_is_inferred_of_changes() -> None:
    lines = [READING, READING | {"seq": 2}, {key: READING[key] for key in ("time", "sensor", "seq")} | {"@change": -1}]
    Path("in.jsonl").write_text("\n".join(json.dumps({"type": "reading"} | each) for each in lines))
    told = cep("infer", "in.jsonl").stdout
    assert "temp: float " in told and "% 1 to 2" in told and "change:" not in told
    assert "`@change` is not an attribute" in told


def test_a_key_of_no_attribute_and_a_cycle_that_begins_with_the_input() -> None:
    Path("rules.cep").write_text(PROGRAM.replace("KEY sensor", "KEY sensr"))
    refused = cep("check", "rules.cep", status=2)
    assert "`reading` has no attribute `sensr`" in refused.output and "did you mean `sensor`?" in refused.output
    program = """event start(k: string) TIME t.
    fluent on(k: string).
    fluent running(k: string).
    initiate running(K) <- start(K).
    on(K) WHILE running(K) AND NOT ONCE[1 s, 1 s] on(K)."""
    with pytest.raises(CepError, match="an input that is revised has no first event") as error:
        Running.from_text(program, revise=1)
    assert error.value.hint is not None and "`--lateness` waits for late events" in error.value.hint

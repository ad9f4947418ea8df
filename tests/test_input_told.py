"""What a run tells of input that is read, but hardly as it was meant, and of records that have the time elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cep.command import app

RULE = "n(X) <- r(x: X).\n"
FOLDED = 'event r(x: int) TIME t FORMAT "%d.%m.%Y %H:%M" ZONE "Europe/Zurich" FOLD order.\n'
CLOCKS = ["00:00", "01:00", "02:00", "02:30", "02:00", "02:30", "03:00", "03:30"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(program: str, name: str, text: str, *options: str) -> Result:
    Path("p.cep").write_text(program)
    Path(name.partition("=")[2] or name).write_text(text)
    return CliRunner().invoke(app, ["run", "p.cep", "--input", name, *options], prog_name="cep")


@pytest.mark.parametrize("options", [(), ("--lateness", "1d")])
def test_a_file_that_has_the_newest_first_is_told(options: tuple[str, ...]) -> None:
    rows = [f"27.10.2024 {clock},{x}" for x, clock in enumerate(CLOCKS)]
    forth, back = ["t,x", *rows, ""], ["t,x", *reversed(rows), ""]
    assert "decrease, but `FOLD order` needs" not in run(FOLDED + RULE, "a.csv", "\n".join(forth), *options).stderr
    told = run(FOLDED + RULE, "a.csv", "\n".join(back), *options).stderr
    assert "times of `r` in a.csv decrease, but `FOLD order` needs the oldest records first" in told
    assert "of the 4 times in the hour that comes twice" in told and "or use `FOLD earlier`" in told


@pytest.mark.parametrize(
    ("declared", "times", "said"),
    [
        (
            "event r(x: float).",
            "1714554000123",
            'precision: "ns")`; `FORMAT influx(precision: "ms")` gives a recent time',
        ),
        (
            "event r(x: float) FORMAT influx.",
            "1714554000123456",
            '`FORMAT influx(precision: "us")` gives a recent time',
        ),
        (
            'event r(x: float) FORMAT influx(precision: "us").',
            "1714554000",
            '`FORMAT influx(precision: "s")` gives a recent',
        ),
        ("event r(x: float).", "1714554000123456789", None),
        ('event r(x: float) FORMAT influx(precision: "ms").', "1714554000123", None),
    ],
)
def test_counts_of_line_protocol_in_another_precision(declared: str, times: str, said: str | None) -> None:
    told = run(f"{declared}\n{RULE}", "a.lp", f"r x=1 {times}\nr x=2 {times}\n").stderr
    assert told.count("all times of `r` are in 1970") == (said is not None)
    assert said is None or said in told


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            '{"ts": 1714554000123, "x": 3}',
            "`ts` looks like the time: add `TIME ts FORMAT epoch ms` after the attributes",
        ),
        (
            '{"when": "2024-05-01T08:00:00Z", "x": 3}',
            "`when` looks like the time: add `TIME when` after the attributes",
        ),
        ('{"ts": "1714554000", "x": 3}', "`TIME ts FORMAT epoch s`"),
        ('{"meta": {"sent": "1714554000123"}, "meta2": 1, "x": 3}', '`TIME "meta.sent" FORMAT epoch ms`'),
        ('{"x": 3}', "add `TIME column` after the attributes to name it; `cep infer FILE` prints"),
        (
            '{"time": "1714554000123", "x": 3}',
            "it looks like milliseconds since 1970, which are declared: `FORMAT epoch",
        ),
    ],
)
def test_a_record_without_a_time_says_where_it_may_be(record: str, said: str) -> None:
    assert said in run(f"event r(x: float).\n{RULE}", "a.jsonl", record + "\n").stderr


def test_a_table_without_a_time_says_which_column_it_may_be() -> None:
    told = run(f"event r(x: float).\n{RULE}", "a.csv", "Zeitstempel,x\n2024-05-01T08:00:00Z,3\n").stderr
    assert "`Zeitstempel` looks like the time: add `TIME Zeitstempel`" in told and "`cep infer a.csv`" in told


def test_a_time_of_day_has_its_own_constant() -> None:
    Path("p.cep").write_text('event r(x: int).\nn(X) <- r(X) WHERE local_time(start(), "Europe/Zurich") >= "22:00".\n')
    told = CliRunner().invoke(app, ["check", "p.cep"], prog_name="cep").stderr
    assert 'hint: a time of day is `time("22:00")`' in told


def test_a_file_that_is_named_twice_is_told() -> None:
    declared = "event a(x: int) TIME t. event b(x: int) TIME t. c(X) <- a(X). d(X) <- b(X)."
    text = "t,x\n1,1\n"
    twice = run(declared, "a=a.csv", text, "--input", "a=./a.csv").stderr
    assert "warning: ./a.csv is named twice, so semcep reads its records twice\n" in twice and twice.startswith(
        "warning"
    )
    assert "twice" not in run(declared, "a=a.csv", text, "--input", "b=a.csv").stderr, "each event has its own"

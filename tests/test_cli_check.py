"""`cep check` and `cep plan`, and what is wrong with a program before it runs."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests import cli_runs
from tests.cli_runs import cep

here = pytest.fixture(autouse=True)(cli_runs.here)


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


def test_an_inhibitor_is_counted_and_named_as_it_was_written() -> None:
    """The hidden alert on a fluent that inhibits another is not shown."""
    Path("wet.cep").write_text(
        "event a(x: string).\nfluent wet(x: string).\ninitially wet(k).\nterminate wet(X) <- a(X).\n"
        'ALERT one ON a(X) TITLE "{X}" FOR 1 h KEYED BY X INHIBITED BY wet(X).\n'
        'ALERT two ON a(X) TITLE "{X}" FOR 1 h KEYED BY X INHIBITED BY one(x: X).\n'
    )
    assert cep("check", "wet.cep").stdout == "wet.cep: 2 rules, 2 alerts, 2 event types, no errors, no warnings\n"
    plan = cep("plan", "wet.cep").stdout
    assert "none while wet(X) holds" in plan and "none while one fires" in plan and "inhibited" not in plan


def test_check_tells_every_error_with_its_place() -> None:
    Path("bad.cep").write_text("e(X) <- a(Y).\nf(X, Z) <- a(X).\n")
    result = cep("check", "bad.cep", "fire.cep")
    assert result.exit_code == 2
    assert "bad.cep:1:" in result.stderr and "bad.cep:2:" in result.stderr and "^" in result.stderr
    assert result.stdout.splitlines()[0] == "bad.cep: 2 errors"
    assert result.stdout.splitlines()[1].startswith("fire.cep: 1 rule")


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("fluent warm(k: string FROM n) FORMAT senml.", "warm: a record of SenML has one time, but a fluent"),
        ("event warm(k: string FROM nn) FORMAT senml.", "warm: a record of SenML has no `nn`"),
        (
            'event warm(k: string) FORMAT influx(measurement: "m").\n'
            'event cold(k: string) FORMAT influx(measurement: "m").\ny(K) <- cold(K).',
            "`warm` and `cold` both have the measurement `m`",
        ),
    ],
)
def test_check_refuses_what_records_of_the_declared_format_cannot_hold(declaration: str, message: str) -> None:
    begins = "BEGIN OF warm(K)" if declaration.startswith("fluent") else "warm(K)"
    Path("warm.cep").write_text(f"{declaration}\nx(K) <- {begins}.\n")
    result = cep("check", "warm.cep")
    assert result.exit_code == 2 and message in result.stderr, result.output
    assert result.stdout == "warm.cep: 1 error\n"


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
        "declare `event reading(...).` to name and type them\n"
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
            f"{name}: by its name this is data, not a program\n"
            f"hint: the program comes first: `cep run rules.cep {option}{name}`\n"
        )


def test_an_unknown_policy_is_a_wrong_option() -> None:
    result = cep("run", "fire.cep", "--input", "events.jsonl", "--policy", "latest")
    assert result.exit_code == 2
    assert result.stderr == (
        "--policy: unknown policy `latest`\nhint: the policies are `unrestricted`, `recent` and `chronological`\n"
    )

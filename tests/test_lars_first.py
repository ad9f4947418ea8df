"""The first tick of a stream of LARS, units of windows, both notations, and what comes in without a declaration."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from cep.core.errors import CepError
from cep.lars import answers
from tests import cli_runs
from tests.cli_runs import cep

here = pytest.fixture(autouse=True)(cli_runs.here)

TICKER = """warning(b1) :- highTemp(b1) in [10].
error(b2) :- highTemp(b2) always in [3].
shutdown(b2) :- error(b2).
"""
LASER = """warning(b1) :- time_win(10, 0, 1, diamond(highTemp(b1)))
error(b2) :- time_win(3, 0, 1, box(highTemp(b2)))
shutdown(b2) :- error(b2)
"""
STREAM = [(2, ["highTemp(b1)", "highTemp(b2)"]), (3, ["highTemp(b2)"])]


@pytest.mark.parametrize("program", [TICKER, LASER])
def test_example_1_of_laser_gives_what_the_paper_says(program: str) -> None:
    """Timeline 1 to 15: `warning(b1)` at 2 and as long as the window sees it, and no error, for tick 1 has none."""
    found = dict(answers(program, STREAM, first=1, last=15))
    assert found == {tick: [frozenset({"warning(b1)"} if 2 <= tick <= 12 else ())] for tick in range(1, 16)}
    without = dict(answers(program, STREAM, last=15))
    assert without[2] == [frozenset({"warning(b1)", "error(b2)", "shutdown(b2)"})], "it begins at tick 2 then"


def test_an_earlier_atom_begins_the_stream_whatever_first_says() -> None:
    whole = dict(answers(TICKER, STREAM, last=15))
    for first in (2, 3, 9):
        assert dict(answers(TICKER, STREAM, first=first, last=15)) == whole
    assert min(dict(answers(TICKER, [], first=3, last=5))) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"stream": 3}, "stream: an int is not a list of ticks"),
        ({"stream": "a"}, "stream: a str is not a list of ticks"),
        ({"stream": [3]}, "stream: item 1 is not a tick and its atoms: `3`"),
        ({"stream": [(0, ["a"]), (1,)]}, "stream: item 2 is not a tick and its atoms: `(1,)`"),
        ({"stream": [("0", ["a"])]}, "stream: the tick of item 1 is not a whole number: `'0'`"),
        ({"stream": [(0.5, ["a"])]}, "stream: the tick of item 1 is not a whole number: `0.5`"),
        ({"stream": [(0, "alpha")]}, "stream, item 1: expected a list of atoms, not a str"),
        ({"stream": [(0, None)]}, "stream, item 1: expected a list of atoms, not a NoneType"),
        ({"stream": [(0, ["a", 7])]}, "stream, item 1: `7` is an int; atoms must be texts"),
        ({"stream": [(2, ["a"]), (1, ["a"])]}, "stream: tick 1 of item 2 comes after tick 2"),
        ({"facts": "a"}, "facts: expected a list of atoms, not a str"),
        ({"tick": 3}, "tick: `3` is not a valid duration"),
        ({"first": "x"}, "first: `'x'` is not a whole number"),
        ({"last": 2.5}, "last: `2.5` is not a whole number"),
        ({"models": None}, "models: `None` is not a whole number"),
        ({"program": None}, "program: expected a text of rules, not a NoneType"),
    ],
)
def test_what_answers_cannot_take_is_said(given: dict[str, object], message: str) -> None:
    asked = {"program": "b :- a.", "stream": [(0, ["a"])], **given}
    with pytest.raises(CepError) as raised:
        list(answers(**asked))  # type: ignore[arg-type]
    assert raised.value.message.startswith(message)


def lines(*options: str) -> list[tuple[str, int, int]]:
    result = cep("run", *options, "--input", "in.jsonl", "--output-mode", "intervals")
    assert result.exit_code == 0, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    return sorted((each["type"], each["start"], each["end"]) for each in found)


@pytest.mark.parametrize("suffix", ["lars", "laser"])
def test_the_command_is_told_the_first_tick(suffix: str) -> None:
    Path(f"p.{suffix}").write_text(TICKER if suffix == "lars" else LASER)
    records = [
        {"type": atom.partition("(")[0], "time": tick, "args": [atom[9:-1]]} for tick, atoms in STREAM for atom in atoms
    ]
    Path("in.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    begun = [("error", 2, 4), ("shutdown", 2, 4), ("warning", 2, 13)]
    assert lines(f"p.{suffix}") == lines(f"p.{suffix}", "--first", "9") == begun, "a record that is earlier begins it"
    assert lines(f"p.{suffix}", "--first", "1") == lines(f"p.{suffix}", "--first", "-5") == [("warning", 2, 13)]
    assert lines(f"p.{suffix}", "--first", "1", "--workers", "2") == [("warning", 2, 13)]
    result = cep("explain", f"p.{suffix}", "warning", "--at", "3", "--first", "1", "--input", "in.jsonl")
    assert result.exit_code == 0 and 'highTemp("b1") at 2  in.jsonl:1' in result.output, result.output
    result = cep("explain", f"p.{suffix}", "--not", "error(b2)", "--at", "3", "--first", "1", "--input", "in.jsonl")
    assert result.exit_code == 0, result.output


def test_the_first_tick_is_of_lars_alone() -> None:
    Path("p.cep").write_text("event a(x: int) TIME time.\nb(X) <- a(X).\n")
    Path("in.jsonl").write_text("")
    result = cep("run", "p.cep", "--input", "in.jsonl", "--first", "1")
    assert result.exit_code == 2 and "--first" in result.stderr


@pytest.mark.parametrize(
    ("window", "options", "last"),
    [
        ("[2]", {}, 2),
        ("[2 sec]", {}, 2),
        ("[2 sec]", {"tick": "500 ms"}, 4),
        ("[2 sec]", {"tick": timedelta(milliseconds=250)}, 8),
        ("[1 min]", {}, 60),
        ("[2 sec]", {"window": "n"}, 1),
        ("[inf]", {}, 99),
    ],
)
def test_windows_have_units(window: str, options: dict[str, object], last: int) -> None:
    found = list(answers(f"b :- a in {window}.", [(0, ["a"])], last=99, **options))  # type: ignore[arg-type]
    assert [tick for tick, (model,) in found if model] == list(range(last + 1))


def test_both_notations_are_read() -> None:
    stream = [(0, ["p(1)", "q(2)"])]
    laser = "h(X) :- time_win(2, 0, 1, diamond(p(X))) and not(r(X))\ng(X) :- h(X) and q(Y) and COMP(>=, Y, X)"
    found = list(answers(laser, stream, last=3))
    assert found == list(answers(laser, stream, last=3, dialect="laser"))
    assert [sorted(model) for _, (model,) in found] == [["g(1)", "h(1)"], ["h(1)"], ["h(1)"], []]
    with pytest.raises(CepError, match="is not a value"):
        list(answers(laser, stream, dialect="lars"))
    with pytest.raises(CepError, match="`rtec` is not a dialect of LARS"):
        list(answers("b :- a.", stream, dialect="rtec"))
    with pytest.raises(CepError, match="tick: `soon` is not a valid duration"):
        list(answers("b :- a.", stream, tick="soon"))
    with pytest.raises(CepError) as raised:
        list(answers("h(X) :- time_win(2, 0, 1, p(X)", stream))
    assert "`)`" in str(raised.value) and "time_win" in str(raised.value), (
        "the notation that is meant says what is wrong"
    )


def test_what_comes_in_is_as_the_rules_have_it() -> None:
    Path("t.lars").write_text(
        "high at T :- alpha(V) at T in [2 sec], 18 <= V.\nlfu :- high always in [2 sec].\n"
        "named(X) :- who(X, red) in [1 sec].\n"
    )
    records = [("alpha", 0, [20]), ("alpha", 1, [25]), ("alpha", 1, ["x"]), ("who", 1, ["ann", "red"])]
    records += [("who", 1, [7, "red"]), ("who", 1, ["bob", "blue"])]
    Path("in.jsonl").write_text(
        "".join(json.dumps({"type": name, "time": time, "args": args}) + "\n" for name, time, args in records)
    )
    result = cep(
        "run", "t.lars", "--input", "in.jsonl", "--output-mode", "intervals", "--only", "named", "--only", "lfu"
    )
    assert "6 records, 1 dead letter (1 ill-typed)" in result.stderr, result.stderr
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted((each["type"], str(each.get("x")), each["start"], each["end"]) for each in found) == [
        ("lfu", "None", 0, 2), ("named", "7", 1, 3), ("named", "ann", 1, 3),
    ]  # fmt: skip
    told = cep("check", "t.lars")
    assert "typed by the rules: `alpha(int)`, `who(any, string)`; `event alpha(...).`" in told.stderr

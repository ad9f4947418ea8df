"""`cep plan` of LARS: windows as intervals, rules by their lines, and nothing else by a name that means nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli_runs import cep, here

folder = pytest.fixture(autouse=True)(here)

PROGRAM = """\
event free(r: string).
event wet(r: string).
event v(x: int, y: int).
dry at T :- v(X, _) at T in [10 sec], X < 3.
long(X) :- v(X, _) in [1 min] step 20 sec, not wet(_) in [3 #], dry in [2].
own(X) :- v(X, Y) in [4 #] by X.
used(R) :- free(R) in [3], not closed(R).
closed(R) :- free(R) in [3], not used(R).
:- used(R), wet(R) in [1].
"""


def plan(program: str) -> str:
    Path("p.lars").write_text(program)
    result = cep("plan", "p.lars")
    assert result.exit_code == 0, result.output
    return result.stdout


def test_windows_are_intervals() -> None:
    told = " ".join(plan(PROGRAM).split())
    assert "free(R) in [3 s]" in told
    assert "holds an event at tick k for the ticks from k to k + 3 forgets after 4 s" in told
    assert "v(X, _) at T in [10 s]" in told and "for the ticks from k to k + 10 forgets after 11 s" in told
    assert "in [1 min] step 20 s" in told and "by the last multiple of 20" in told
    assert "in [3 #]" in told and "in [4 #]" in told and "remembers the last 4 atoms" in told


def test_rules_have_names_and_lines() -> None:
    told = plan(PROGRAM)
    shown = told[: told.index("stage 1")]
    assert not re.search(r"'kind|\btimes of|# (for )?line 1\b", shown), shown
    flat = " ".join(told.split())
    for line, head in ((4, "dry at T before constraints"), (5, "long(X) before constraints"), (6, "own(X) before")):
        assert re.search(rf"{re.escape(head)}[^#]* WHILE [^#]*# line {line}", flat), head
    assert "answer set (closed, used) of what is asked(" in flat
    assert "searches when what is asked changes, for the one nearest to the last" in flat
    derives = told[told.index("derives") : told.index("1.  ")]
    assert [line.split("(")[0].split()[-1] for line in derives.splitlines() if line.strip()] == [
        "dry", "at", "long", "own", "streams", "closed", "used"
    ]  # fmt: skip


def test_what_rules_are_lowered_to_is_said_in_their_words() -> None:
    program = (
        "event a(x: int).\nh(X) :- a(X) always in [2].\nm(X) at T :- a(X) at T in [3].\n:- h(X), a(X), X > 9.\n"
        "n(X) :- a(X) in [3 #] by X.\no(X + 1) at S :- m(X) at T in [5], S = T + 1.\n"
    )
    told = plan(program)
    shown = told[told.index("1.  ") :]
    assert not re.search(r"\w'\d|first tick\(|\bat\(|constraints\(|this a\b", shown), shown
    flat = " ".join(shown.split())
    for text in ("the first tick is At WHILE", "m(X) at T before constraints WHILE", "h(X) before constraints WHILE"):
        assert text in flat, text


def test_what_only_helps_is_not_listed() -> None:
    told = plan("event a(x: int).\nb(X) at S :- a(X) at T in [5], S = T + 1.\nc(X) :- b(X) always in [2].\n")
    derives = told[told.index("derives") : told.index("1.  ")]
    assert "first tick" not in derives and "ticks before now" not in derives
    assert re.search(r"c\(X\) WHILE [^#]*# line 3", " ".join(told.split()))
    assert "before constraints" not in told

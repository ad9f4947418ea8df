"""`cep check` and `cep convert` of LARS: circles, what is kept for ever, what is not declared, ticks."""

from __future__ import annotations

from pathlib import Path

import pytest

from cep.core.errors import CepError
from cep.language.reading import converted, lars_program
from tests.cli_runs import cep, here

folder = pytest.fixture(autouse=True)(here)

TICKER = "high at T :- alpha(V) at T in [10 sec], 18 <= V.\nlfu :- high always in [10 sec].\nrandom :- not lfu.\n"
LASER = "@(T, high(V)) :- time_win(2,0,1, @(T, a(V))) and COMP(>=,V,18)\nlfu(V) :- time_win(2,0,1, box(high(V)))\n"
CIRCLE = """% a choice
w(X) :- b(X) in [3],
    not s(X).
s(X) :- b(X) in [3], r, not w(X).
r :- r, c. a :- a always in [3], c. d :- c, not d.
"""


def test_a_file_of_ticker_is_checked_without_declarations() -> None:
    Path("t.lars").write_text(TICKER)
    result = cep("check", "t.lars")
    assert result.exit_code == 0, result.output
    assert "t.lars: not declared, so typed by the rules: `alpha(int)`; `event alpha(...).`" in result.stderr
    assert result.stdout == "t.lars: 3 rules, 3 components, no errors, no warnings\n"


def test_a_declared_program_is_compiled() -> None:
    Path("t.lars").write_text("event alpha(v: int).\n" + TICKER)
    result = cep("check", "t.lars")
    assert (result.exit_code, result.stdout) == (0, "t.lars: 3 rules, 3 components, no errors, no warnings\n")
    Path("t.lars").write_text("event alpha(v: string).\n" + TICKER)
    result = cep("check", "t.lars")
    assert result.exit_code == 2 and "t.lars:2:41: " in result.stderr


def test_why_a_component_is_not_stratified() -> None:
    Path("c.lars").write_text(CIRCLE)
    result = cep("check", "c.lars")
    assert result.exit_code == 0
    assert (
        "c.lars:3:5: `w` and `s` go in a circle through `not s(X)`: there may be none, one or several" in result.stderr
    )
    assert "    not s(X).\n        ^^^^^^^^\n" in result.stderr
    assert "2:1 `w(X) :- b(X) in [3], not s(X).`, 4:1 `s(X) :- b(X) in [3], r, not w(X).`" in result.stderr
    assert "`a` depends on itself through `a always in [3]`: the solver finds its one model" in result.stderr
    assert "`d` depends on itself through `not d`: there may be none" in result.stderr
    assert result.stdout == "c.lars: 5 rules, 4 components, 1 recursive, 3 not stratified, no errors, no warnings\n"


def test_what_never_expires_is_a_warning() -> None:
    Path("k.lars").write_text("event a(x: int).\np :- a(X) at T.\nq(X) :- a(X) in [2 #] by X.\nr :- a(X) in [inf].\n")
    result = cep("check", "k.lars")
    assert result.exit_code == 0 and result.stdout.endswith("no errors, 3 warnings\n")
    assert [line.split(": ")[0] for line in result.stderr.splitlines() if "warning: " in line] == [
        "k.lars:2:6", "k.lars:3:9", "k.lars:4:6"
    ]  # fmt: skip


def test_values_that_grow_for_ever_are_a_warning() -> None:
    def warned(rule: str) -> bool:
        Path("g.lars").write_text(f"event a(x: int).\nr(X) :- a(X).\n{rule}\n")
        return "g.lars:3:1: warning: `r` may be derived with ever new values" in cep("check", "g.lars").stderr

    assert warned("r(X + 1) :- r(X).") and warned("r(Y) :- r(X), Y = X * 2.")
    assert not warned("r(X + 1) :- r(X), X < 9.") and not warned("r(Y) :- r(X), Y = X * 2, Y < 9.")
    assert not warned("r(X + 1) :- a(X), r(Y).")
    assert warned("r(Z) :- r(X), a(Y), Z = X + Y.") and not warned("r(Y) :- r(X), Y = X + 1, a(Y).")
    assert not warned("r(X + 1) :- r(X), a(X).") and not warned("r(X + 1) :- r(X), {X a ?C}.")


DENIED = "event a.\nevent b.\np :- a in [3], not q.\nq :- a in [3], not p.\n:- b.\n"


def test_rules_are_those_that_are_written() -> None:
    """Not those that they are lowered to; a solver's and those of other files too."""
    Path("c.lars").write_text(f"{DENIED}r at T :- p at T in [5].\n")
    assert cep("check", "c.lars").stdout.startswith("c.lars: 4 rules, ")
    assert cep("plan", "c.lars").stdout.startswith("c.lars: 4 rules, ")
    Path("r.cep").write_text("event b() TIME time. event e() TIME time.\nx <- e AND b.\n")
    Path("s.lars").write_text("y :- x in [3].\n")
    checked = cep("check", "--together", "r.cep", "s.lars").stdout
    assert "s.lars: 1 rule, 1 component, 1 rule beside LARS, no errors" in checked
    assert "s.lars: 2 rules, " in cep("plan", "r.cep", "s.lars").stdout


def test_a_run_says_that_there_was_no_answer() -> None:
    Path("c.lars").write_text(DENIED)
    Path("in.jsonl").write_text('{"type": "a", "time": 1}\n{"type": "b", "time": 2}\n')
    assert "warning: at some ticks the rules have no answer" in cep("run", "c.lars", "--input", "in.jsonl").stderr
    assert "no answer" not in cep("run", "c.lars", "--input", "in.jsonl", "--models", "all").stderr
    Path("in.jsonl").write_text('{"type": "a", "time": 1}\n')
    assert "no answer" not in cep("run", "c.lars", "--input", "in.jsonl").stderr


def test_mistakes_are_counted() -> None:
    Path("m.lars").write_text("a(X) :- b.\nc(Y) :- b.\n")
    result = cep("check", "m.lars")
    assert (result.exit_code, result.stdout) == (2, "m.lars: 2 errors\n")


def test_laser_is_read_and_printed_as_lars() -> None:
    Path("rules.txt").write_text(LASER)
    assert cep("check", "rules.txt", "--dialect", "laser").stdout.startswith("rules.txt: 2 rules, 2 components")
    printed = cep("convert", "rules.txt", "--dialect", "laser").stdout
    assert printed == "high(V) at T :- a(V) at T in [2], V >= 18.\nlfu(V) :- high(V) always in [2].\n"
    assert lars_program(printed, "x.lars") == lars_program(LASER, dialect="laser")
    assert converted(printed, "x.lars") == printed


def test_the_clock_is_the_tick() -> None:
    Path("t.lars").write_text(TICKER)
    for option in ("--clock", "--tick"):
        assert "alpha(V) at T in [100]" in cep("convert", "t.lars", option, "100ms").stdout
        assert "`10 sec` is not a whole number of ticks of 1 min" in cep("check", "t.lars", option, "1min").stderr


def test_windows_of_n_ticks() -> None:
    """As the paper of Laser 2 defines them."""
    Path("t.lars").write_text(TICKER)
    Path("rules.txt").write_text(LASER)
    assert "alpha(V) at T in [9]" in cep("convert", "t.lars", "--window", "n").stdout
    assert "alpha(V) at T in [10]" in cep("convert", "t.lars", "--window", "n+1").stdout
    assert "box" not in cep("convert", "rules.txt", "--dialect", "laser", "--window", "n").stdout
    assert "always in [1]" in cep("convert", "rules.txt", "--dialect", "laser", "--window", "n").stdout
    Path("z.lars").write_text("a :- b in [0].\n")
    assert "z.lars:1:12: this window contains no tick" in cep("check", "z.lars", "--window", "n").stderr
    assert "--window: `m` is not a valid way to count" in cep("check", "z.lars", "--window", "m").stderr
    Path("own.cep").write_text("a(X) <- b(X).\n")
    assert "--window: this is not a program of LARS" in cep("check", "own.cep", "--window", "n").stderr
    assert (
        "--window: this is not a program of LARS"
        in cep("check", "own.cep", "--dialect", "rtec", "--window", "n").stderr
    )


def test_other_programs_are_none_of_lars() -> None:
    assert lars_program("a(X) <- b(X).") is None
    with pytest.raises(CepError, match="`lasr` is not a dialect"):
        lars_program("", dialect="lasr")
    with pytest.raises(CepError, match="more than"):
        lars_program(" " * (1 << 23), "x.lars")


def test_what_never_ends_is_told_of_by_the_rules_that_are_written() -> None:
    Path("g.lars").write_text("event a(x: int).\nr(X) :- a(X).\nr(X + 1) :- r(X).\n")
    Path("in.jsonl").write_text('{"type": "a", "time": 1, "x": 1}\n')
    said = cep("run", "g.lars", "--input", "in.jsonl", "--max-derivations", "100").stderr
    assert "intervals in one step, in `r(X) :- a(X).`, `r(X + 1) :- r(X).`\nhint: add a bound, " in said

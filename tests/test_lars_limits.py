"""What LARS refuses, and what it bounds: recursion ahead, many answers, a missing solver, heads beyond the stream."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from cep.lars import answers
from tests.cli_runs import cep, here

folder = pytest.fixture(autouse=True)(here)

CHOICE = "event a(x: int).\nin(X) :- a(X), not out(X).\nout(X) :- a(X), not in(X).\n"


def records(name: str, values: range) -> None:
    lines = (json.dumps({"type": name, "time": 1, "x": value}) + "\n" for value in values)
    Path("in.jsonl").write_text("".join(lines))


def test_recursion_into_the_future_ends_at_a_limit() -> None:
    program = "event a().\nb at T :- a at T in [1].\nb at S :- b at T, S = T + 1.\n"
    engine = Engine.from_text(program, dialect="lars", lateness=None, max_derivations=300)
    engine.receive([Event("a", (), 0, 0)])
    with pytest.raises(CepError) as failed:
        engine.close()
    assert "intervals in one step" in str(failed.value) and "`b at S :- b at T, S = T + 1.`" in str(failed.value)


def test_a_bound_ends_recursion_into_the_future() -> None:
    program = "b at T :- a at T in [1]. b at S :- b at T, S = T + 1, S < 4."
    found = dict(answers(program, [(0, ["a"])], last=2))
    assert found[0] == [frozenset({"b", "b@1", "b@2", "b@3"})] and found[2] == [frozenset()]


def test_heads_beyond_the_stream() -> None:
    """They are in the answer while their rule says so, and later ticks see them if it still does."""
    program = "b at S :- a at T in [3], S = T + 5. c :- b in [2]. d at S :- a at T in [3], S = T - 1."
    found = dict(answers(program, [(0, ["a"])], last=6))
    assert [sorted(each[0]) for each in found.values()] == [["b@5"]] * 4 + [[]] * 3
    program = "b at S :- a at T in [6], S = T + 5. c :- b in [2]."
    assert dict(answers(program, [(0, ["a"])], last=6))[6] == [frozenset({"b@5", "c"})]


def test_windows_of_tuples_over_what_is_derived_are_refused() -> None:
    Path("p.lars").write_text("event a(x: int).\nb(X) :- a(X).\nc(X) :- b(X) in [3 #].\n")
    result = cep("run", "p.lars", "-i", "in.jsonl")
    assert result.exit_code == 2 and "p.lars:3:17: `b` is derived" in result.stderr


def test_an_explosion_of_answers_is_told() -> None:
    Path("p.lars").write_text(CHOICE)
    records("a", range(14))
    result = cep("run", "p.lars", "-i", "in.jsonl", "--models", "all")
    assert result.exit_code == 2, result.output
    assert "there are more than 10000 answer streams at tick 1" in result.stderr
    assert "use `--models 1` for one of them" in result.stderr
    assert cep("run", "p.lars", "-i", "in.jsonl", "-o", "out.jsonl").exit_code == 0


def test_a_missing_solver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("p.lars").write_text(CHOICE)
    records("a", range(1))
    monkeypatch.setitem(sys.modules, "clingo", None)
    result = cep("run", "p.lars", "-i", "in.jsonl")
    assert result.exit_code == 2
    assert "rules depend on each other through `not` here, which needs a solver that is not installed" in result.stderr
    assert "hint: pip install 'clingo>=" in result.stderr
    Path("p.lars").write_text("event a(x: int).\nb(X) :- a(X), not c(X).\nc(1) :- a(1).\n")
    assert cep("run", "p.lars", "-i", "in.jsonl").exit_code == 0, "no circle, no solver"

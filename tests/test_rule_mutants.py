"""Mutants of rules: a fault that shows in the records of a test is found where it expects all that is derived."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from cep.compile import ReadProgram, compiled_rules
from cep.core.errors import CepError
from cep.testing.checks import Checker
from cep.testing.coverage import coverage_of
from cep.testing.mutants import mutants_of, try_mutants
from cep.testing.rule_files import read_test_file
from cep.testing.runs import Programs
from tests.cli_runs import cep
from tests.test_cookbook_tests import RECIPES, write_recipe
from tests.test_rule_tests import FRIDGE, HEAD

SHARE = 0.95
"""How many of the faults that show are to be found, at least."""


def write(folder: Path, checks: str) -> Path:
    (folder / "fridge.cep").write_text(FRIDGE)
    file = folder / "fridge.test.yaml"
    file.write_text(HEAD + checks)
    return file


def test_survivors_are_listed_with_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "    expect: [warming]\n")
    result = cep("test", "--mutants", "--no-laws")
    assert result.exit_code == 0
    passed, made, *survivors = result.stdout.splitlines()
    assert passed == "1 passed" and made.endswith(" survived")
    assert "  fridge.cep:5: `A > Hot (7.0)` as `A >= Hot (7.0)` (no record tells them apart)" in survivors
    assert not [each for each in survivors if "fridge.cep:1:" in each], "only what is written is changed"
    assert any(each.startswith("  fridge.cep:6: half of WITHIN 30 min of UNLESS") for each in survivors)
    write(tmp_path, "    none: warming\n")
    assert "mutant" not in cep("test", "--mutants", "--no-laws").stdout, "only where all tests pass"


def test_a_change_that_shows_and_is_not_expected_is_told_apart(tmp_path: Path) -> None:
    file = write(tmp_path, "    until: end\n    none: nothing\n".replace("none: nothing", "expect: [warming]"))
    report = try_mutants(read_test_file(file), Programs())
    told = {(each.line, each.change): each.seen for each in report.survivors}
    assert told[6, "half of WITHIN 30 min of UNLESS"] is True
    assert told[5, "`A > Hot (7.0)` as `A >= Hot (7.0)`"] is False


HELD = """\
event door(d: string, v: int).
event key(d: string).
fluent open(d: string).
fluent cold(d: string).
fluent soon(d: string).
fluent long(d: string).
initiate open(D) <- door(D, V) WHERE V > 3.
terminate open(D) <- door(D, 0) SEQ key(D) WITHIN 5 s.
open(D) ENDS AFTER 20 s.
initiate cold(D) <- key(D).
long(D) WHILE open(D) LASTING >= 10 s.
soon(D) WHILE ONCE[1 s, 5 s] open(D) AND NOT cold(D).
x(D, V) <- door(D, V) WHERE open(D), V > 2.
last(D, N) <- door(D, V) AGGREGATE N = sum(V) OVER LAST 2 EVENTS BY D.
ALERT seen ON x(d: D) TITLE "{D}" AFTER 3 s FOR 10 s KEYED BY D.
ALERT stuck ON open(d: D) TITLE "{D}" AFTER 4 s KEEP 6 s ESCALATE "Severe" AFTER 8 s KEYED BY D.
"""
CHECKS = """\
program: held.cep
tests:
  - name: a door
    given:
      door: [{time: 0, d: a, v: 4}, {time: 2, d: a, v: 3}, {time: 6, d: a, v: 5}, {time: 9, d: a, v: 0}]
      key: [{time: 40, d: a}]
    until: 60
    holds: {open: [{from: 0, until: 20}]}
    expect: [last: {n: 5}]
    at_least: true
    alerts:
      - {at: 3, pending: [seen, stuck], firing: []}
      - {at: 6, pending: [], firing: [seen, stuck: {severity: Unknown}]}
      - {at: 12, firing: [seen, stuck: {severity: Severe}]}
      - {at: 50, resolved: [seen, stuck]}
"""


def held(folder: Path) -> Path:
    (folder / "held.cep").write_text(HELD)
    (folder / "held.test.yaml").write_text(CHECKS)
    return folder / "held.test.yaml"


def test_deadlines_formulas_and_alerts_have_mutants(tmp_path: Path) -> None:
    file = read_test_file(held(tmp_path))
    prepared = Programs().prepare(file.tests[0])
    read = ReadProgram.of(prepared.source.text, prepared.source.name, prepared.source.options)
    made = {(each.span.line, each.change) for each in mutants_of(read, prepared.source.options)}
    lines = {line for line, _ in made}
    assert lines == {7, 8, 9, 11, 12, 13, 14, 15, 16}, "what says something about time, absence or values"
    for expected in [
        (9, "half of AFTER 20 s"),
        (11, "a tick less than LASTING 10 s"),
        (12, "without `NOT cold(D)`"),
        (12, "a tick more than 5 s of ONCE"),
        (13, "without `open`"),
        (14, "LAST 2 EVENTS as LAST 3 EVENTS"),
        (15, "without AFTER 3 s"),
        (16, "half of KEEP 6 s"),
        (16, "a tick more than 8 s of ESCALATE"),
    ]:
        assert expected in made
    told = {(each.line, each.change): each.seen for each in try_mutants(file, Programs()).survivors}
    for killed in [(9, "half of AFTER 20 s"), (15, "without AFTER 3 s"), (16, "half of AFTER 4 s")]:
        assert killed not in told
    assert told[16, "half of KEEP 6 s"] is True and told[11, "half of LASTING 10 s"] is False
    assert told[8, "half of WITHIN 5 s"] is False


NAMED = """\
event reading(fridge: string, temp: float) TIME time.
PARAM Hot = 7.0 IN 5..7.2 STEP 0.5.
PARAM Patience = 15 min.
PARAM Quiet = 30 min.
PARAM Many = 2 IN 1..9 STEP 3.
warming(F) <- reading(F, A) SEQ reading(F, B) WHERE A > Hot, B > A + Many, duration() > Patience WITHIN Quiet.
silent(F) <- reading(F, _) UNLESS reading(F, _) WITHIN Quiet.
mean(F, M) <- reading(F, T) AGGREGATE M = avg(T) OVER LAST Many EVENTS BY F.
mean2(F, M) <- reading(F, T) AGGREGATE M = avg(T) OVER LAST Patience BY F.
fluent warm(fridge: string).
initiate warm(F) <- reading(F, A) WHERE A > Hot.
warm(F) ENDS AFTER Quiet.
fluent long(f: string).
long(F) WHILE warm(F) LASTING >= Patience.
ALERT w ON warm(fridge: F) TITLE "x {F}" AFTER Patience KEEP 30 min KEYED BY F.
"""


def test_parameters_are_named_and_move_by_their_steps(tmp_path: Path) -> None:
    (tmp_path / "fridge.cep").write_text(NAMED)
    (tmp_path / "fridge.test.yaml").write_text(
        "program: fridge.cep\ntests:\n  - name: t\n    given: {reading: [{time: 0, fridge: a, temp: 8}]}\n"
        "    expect: [mean]\n    params: {Quiet: 40 min}\n"
    )
    file = read_test_file(tmp_path / "fridge.test.yaml")
    source = Programs().prepare(file.tests[0]).source
    read = ReadProgram.of(source.text, source.name, source.options)
    changes = {(each.span.line, each.change) for each in mutants_of(read, source.options)}
    assert changes >= {
        (6, "half of WITHIN Quiet (40 min)"),
        (6, "`Hot (7.0)` as `6.5`"),
        (6, "`Many (2)` as `5`"),
        (6, "half of `Patience (15 min)`"),
        (7, "a tick more than WITHIN Quiet (40 min) of UNLESS"),
        (8, "LAST Many (2) EVENTS as LAST 3 EVENTS"),
        (9, "half of the window of Patience (15 min)"),
        (11, "`Hot (7.0)` as `6.5`"),
        (12, "half of AFTER Quiet (40 min)"),
        (14, "a tick less than LASTING Patience (15 min)"),
        (15, "half of AFTER Patience (15 min)"),
        (15, "half of KEEP 30 min"),
    }
    texts = {(each.kind, each.text) for each in coverage_of(file, Programs())}
    assert texts >= {
        ("bound", "WITHIN Quiet (40 min)"),
        ("window", "LAST Many (2) EVENTS"),
        ("window", "LAST Patience (15 min)"),
        ("bound", "LASTING Patience (15 min)"),
        ("condition", "duration() > Patience (15 min)"),
    }
    plan = source.compiled().plan
    assert pickle.loads(pickle.dumps(plan.nodes)) == plan.nodes
    assert "NamedNumber" not in str(pickle.dumps((plan.nodes, plan.rules.rules))), "a plan has plain numbers"


@pytest.mark.parametrize("program", ["fridge", "held"])
def test_mutants_that_run_together_fail_the_tests_that_each_fails_alone(program: str, tmp_path: Path) -> None:
    checks = "    until: end\n    expect: [warming, silent]\n    holds: {warm: [{fridge: milk}]}\n"
    file = read_test_file(write(tmp_path, checks) if program == "fridge" else held(tmp_path))
    programs = Programs()
    prepared = programs.prepare(file.tests[0])
    options = replace(prepared.source.options, alerts=True)
    read = ReadProgram.of(prepared.source.text, prepared.source.name, options)
    survived, before = set(), prepared.program
    for mutant in mutants_of(read, options):
        try:
            alone = compiled_rules(read, read.tree, mutant.rules, options)
        except CepError:
            continue
        same = (before.plan.nodes, before.plan.heads, before.alerts)
        changed = replace(prepared, program=alone)
        if (alone.plan.nodes, alone.plan.heads, alone.alerts) != same and Checker(changed).passes(changed.run()):
            survived.add((mutant.span.line, mutant.change))
    report = try_mutants(file, programs)
    assert {(each.line, each.change) for each in report.survivors} == survived
    assert len(survived) < report.count


def test_faults_in_recipes_are_found(tmp_path: Path) -> None:
    """Of the faults that change what a recipe derives from its own records nearly all fail its test."""
    made = killed = unseen = 0
    for number, title in enumerate(RECIPES):
        folder = tmp_path / str(number)
        folder.mkdir()
        report = try_mutants(read_test_file(write_recipe(title, folder)), Programs())
        made += report.count
        killed += report.count - len(report.survivors)
        unseen += sum(each.seen for each in report.survivors)
    assert made >= 150
    assert killed >= SHARE * (killed + unseen), (made, killed, unseen)

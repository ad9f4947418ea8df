"""Mutants of rules: a fault that shows in the records of a test is found where it expects all that is derived."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cep.compile import ReadProgram, compiled_rules, lowered
from cep.testing.checks import Checker
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
    assert "  fridge.cep:5: `A > 7.0` as `A >= 7.0` (no record shows it)" in survivors
    assert not [each for each in survivors if "fridge.cep:1:" in each], "only what is written is changed"
    assert any(each.startswith("  fridge.cep:6: half of WITHIN 30 min of UNLESS") for each in survivors)
    write(tmp_path, "    none: warming\n")
    assert "mutant" not in cep("test", "--mutants", "--no-laws").stdout, "only where all tests pass"


def test_a_change_that_shows_and_is_not_expected_is_told_apart(tmp_path: Path) -> None:
    file = write(tmp_path, "    until: end\n    none: nothing\n".replace("none: nothing", "expect: [warming]"))
    report = try_mutants(read_test_file(file), Programs())
    told = {(each.line, each.change): each.seen for each in report.survivors}
    assert told[6, "half of WITHIN 30 min of UNLESS"] is True
    assert told[5, "`A > 7.0` as `A >= 7.0`"] is False


def test_mutants_that_run_together_fail_the_tests_that_each_fails_alone(tmp_path: Path) -> None:
    checks = "    until: end\n    expect: [warming, silent]\n    holds: {warm: [{fridge: milk}]}\n"
    file = read_test_file(write(tmp_path, checks))
    programs = Programs()
    prepared = programs.prepare(file.tests[0])
    options = replace(prepared.source.options, alerts=True)
    read = ReadProgram.of(prepared.source.text, prepared.source.name, options)
    checker, survived = Checker(prepared), set()
    for mutant in mutants_of(lowered(read.tree, options)):
        alone = compiled_rules(read, read.tree, mutant.rules, options)
        other = (alone.plan.nodes, alone.plan.heads) != (prepared.program.plan.nodes, prepared.program.plan.heads)
        if other and checker.passes(replace(prepared, program=alone).run()):
            survived.add((mutant.span.line, mutant.change))
    report = try_mutants(file, programs)
    assert {(each.line, each.change) for each in report.survivors} == survived
    assert len(survived) < report.made


def test_faults_in_recipes_are_found(tmp_path: Path) -> None:
    """Of the faults that change what a recipe derives from its own records nearly all fail its test."""
    made = killed = unseen = 0
    for number, title in enumerate(RECIPES):
        folder = tmp_path / str(number)
        folder.mkdir()
        report = try_mutants(read_test_file(write_recipe(title, folder)), Programs())
        made += report.made
        killed += report.made - len(report.survivors)
        unseen += sum(each.seen for each in report.survivors)
    assert made >= 200
    assert killed >= SHARE * (killed + unseen), (made, killed, unseen)

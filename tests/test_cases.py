"""Every case under tests/cases, by the reference interpreter and by the engine."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from cep.core.errors import CepError
from cep.engine import Engine, detect
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program
from tests import reference
from tests.cases_format import FOLDER, difference, known, read_case, read_events, sort_key
from tests.reference_knowledge import read

PATHS = sorted(FOLDER.rglob("*.case"))


def case_name(path: Path) -> str:
    return str(path.relative_to(FOLDER).with_suffix(""))


@pytest.mark.parametrize("path", PATHS, ids=case_name)
def test_case(path: Path) -> None:
    case = read_case(path)
    knowledge = None if case.knowledge is None else known(case.knowledge)
    if "error" in case.sections:
        with pytest.raises(CepError) as caught:
            Engine.from_text(case.program, policy=case.policy, name="case", knowledge=knowledge)
        assert str(caught.value) == case.sections["error"].strip()
        return
    tree = parse(case.program)
    assert parse(print_program(tree)) == tree
    expected = read_events(case.sections["expected"])
    assert expected == sorted(expected, key=sort_key), "`expected` is sorted by (end, start, type, arguments)"
    always = {-math.inf: read(case.knowledge or "")}
    by_reference = reference.detect(case.program, case.events, case.policy, always)
    assert not difference(expected, by_reference), "the reference gives something else than the case"
    by_engine = detect(case.program, case.events, policy=case.policy, knowledge=knowledge)
    assert not difference(expected, by_engine), "the engine gives something else than the case"
    if "warnings" in case.sections:
        warnings = Engine.from_text(case.program, policy=case.policy, name="case", knowledge=knowledge).warnings
        assert "\n\n".join(map(str, warnings)) == case.sections["warnings"].strip()


def test_the_case_of_the_readme(tmp_path: Path) -> None:
    _, _, rest = (FOLDER / "README.md").read_text(encoding="utf-8").partition("```case\n")
    path = tmp_path / "readme.case"
    path.write_text(rest.partition("```")[0], encoding="utf-8")
    test_case(path)


def test_there_are_cases_of_every_area() -> None:
    assert len({path.parent for path in PATHS}) >= 15
    assert len(PATHS) >= 150

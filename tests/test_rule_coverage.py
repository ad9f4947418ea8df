"""Coverage of rules by tests: what no test has tried both ways is listed with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cep.testing.coverage import coverage_of
from cep.testing.rule_files import read_test_file
from cep.testing.runs import Programs
from tests.cli_runs import cep
from tests.test_cookbook_tests import RECIPES, write_recipe
from tests.test_rule_mutants import held

PROGRAM = """\
event reading(box: string, temp: float).
event opened(box: string).
fluent open(box: string).
hot(B) <- reading(B, T) WHERE T > 7, T < 90.
rise(B) <- reading(B, X) SEQ reading(B, Y) WHERE Y > X WITHIN 20 s.
quiet(B) <- reading(B, _) UNLESS reading(B, _) WITHIN 10 s.
calm(B) <- NOT(opened(B)).[reading(B, X), reading(B, Y)].
initiate open(B) <- opened(B).
ALERT fire ON hot(box: B) TITLE "{B}" FOR 10 s KEYED BY B.
"""


def lacking(folder: Path, rows: str, until: str, opened: str = "") -> dict[tuple[int, str], str]:
    """What lacks, by line and text, where a test has these records."""
    (folder / "rules.cep").write_text(PROGRAM.replace("hot(box: B)", "hot(b: B)"))
    lines = "".join(f"        {each}\n" for each in ("time,box,temp", *rows.split()))
    text = f"program: rules.cep\ntests:\n  - name: t\n    until: {until}\n    given:\n      reading: |\n{lines}"
    text += f"      opened: [{opened}]\n    at_least: true\n    dead: 0\n"
    (folder / "rules.test.yaml").write_text(text)
    items = coverage_of(read_test_file(folder / "rules.test.yaml"), Programs())
    return {(each.span.line, each.text): each.lacking for each in items}


def test_nothing_is_covered_where_nothing_is_derived(tmp_path: Path) -> None:
    found = lacking(tmp_path, "0,a,1", "0")
    assert found[4, "hot"] == found[5, "rise"] == found[6, "quiet"] == "derived nothing"
    assert found[4, "T > 7"] == "was never true"
    assert found[4, "T < 90"] == "was never false"
    assert found[5, "Y > X"] == "was never true and was never false"
    assert found[6, "UNLESS"] == "let nothing through and blocked nothing"
    assert found[5, "WITHIN 20 s"] == "alone never rejected a match"
    assert next(told for (_, text), told in found.items() if text == "open") == "never held"
    assert found[9, "fire"] == "never fired and was never resolved"


def test_all_is_covered_where_all_was_tried_both_ways(tmp_path: Path) -> None:
    rows = "0,a,8 5,a,9 6,a,5 7,b,95 50,a,6 51,b,99"
    found = lacking(tmp_path, rows, "90", "{time: 8, box: b}")
    assert set(found.values()) == {""}, found


def test_a_condition_counts_by_itself(tmp_path: Path) -> None:
    """`T < 90` is false of a value that `T > 7` lets through, and true of one that it does not."""
    found = lacking(tmp_path, "0,a,95 1,a,5", "1")
    assert found[4, "T < 90"] == found[4, "T > 7"] == ""
    assert found[4, "hot"] == "derived nothing"


def test_fluents_formulas_and_windows_are_covered(tmp_path: Path) -> None:
    """A part of a formula counts by what the fluent would be without it; a window, by what it leaves out."""
    file = read_test_file(held(tmp_path))
    items = coverage_of(file, Programs())
    told = {(each.kind, each.span.line, each.text): each.lacking for each in items}
    assert told["rule", 7, "open"] == told["condition", 7, "V > 3"] == told["condition", 13, "open"] == ""
    assert told["rule", 8, "open"] == "derived nothing"
    assert told["bound", 11, "LASTING 10 s"] == "alone never rejected a match"
    assert told["absence", 12, "NOT cold(D)"] == "blocked nothing"
    assert told["window", 14, "LAST 2 EVENTS"] == told["alert", 16, "stuck"] == ""
    text = file.path.read_text().replace("{time: 9, d: a, v: 0}", "{time: 9, d: a, v: 0}, {time: 38, d: b, v: 4}")
    text = text.replace("key: [", "key: [{time: 11, d: a}, {time: 41, d: b}, {time: 42, d: c}, ")
    file.path.write_text(text.replace("v: 4}, {time: 2", "v: 4}, {time: 1, d: c, v: 4}, {time: 2"))
    other = {
        (each.kind, each.span.line, each.text): each.lacking
        for each in coverage_of(read_test_file(file.path), Programs())
    }
    assert other["rule", 8, "open"] == other["absence", 12, "NOT cold(D)"] == ""
    assert other["bound", 11, "LASTING 10 s"] == "alone never rejected a match", "what is open is so for long"


def test_an_alert_fires_when_its_condition_has_lasted(tmp_path: Path) -> None:
    (tmp_path / "held.cep").write_text(
        'event a(k: int).\nALERT x ON a(k: K) TITLE "{K}" AFTER 5 s FOR 10 s KEYED BY K.\n'
    )
    found = []
    for times in ("1, k: 1", "1, k: 1}, {time: 7, k: 1"):
        (tmp_path / "t.test.yaml").write_text(
            f"program: held.cep\ntests:\n  - {{name: t, given: {{a: [{{time: {times}}}]}}, until: end, dead: 0}}\n"
        )
        items = coverage_of(read_test_file(tmp_path / "t.test.yaml"), Programs())
        found += [each.lacking for each in items if each.kind == "alert"]
    assert found == ["never fired and was never resolved", ""]


def test_coverage_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lacking(tmp_path, "0,a,8 5,a,9", "5")
    result = cep("test", "--no-laws", "--coverage")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].startswith("covered: 3 of 5 rules, 0 of 3 conditions, 0 of 2 absences, 0 of")
    assert "  rules.cep:6: UNLESS let nothing through" in result.stdout
    assert "  rules.cep:4: condition `T > 7` was never false" in result.stdout
    items = json.loads(cep("test", "--no-laws", "--coverage", "--json").stdout)["coverage"]
    assert {"kind": "rule", "text": "quiet", "file": "rules.cep", "line": 6, "lacking": "derived nothing"} in items
    assert cep("test", "--no-laws", "--coverage-page", "page.html").exit_code == 0
    page = Path("page.html").read_text()
    assert "white-space:pre-wrap" in page, "a long line is broken"
    assert '<tr class="lacking"><td>6</td>' in page and "T &gt; 7 was never false" in page


def test_recipes_have_a_coverage(tmp_path: Path) -> None:
    for number, title in enumerate(RECIPES):
        folder = tmp_path / str(number)
        folder.mkdir()
        items = coverage_of(read_test_file(write_recipe(title, folder)), Programs())
        rules = [each for each in items if each.kind == "rule"]
        assert rules and not [each.text for each in rules if each.lacking], title

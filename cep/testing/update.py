"""Test files rewritten: `expect` and `holds` from what was derived, comments and layout kept."""

from __future__ import annotations

import io
from typing import Any

from cep.diff.rows import sorted_rows
from cep.testing.checks import Checker
from cep.testing.rule_files import RuleTestFile
from cep.testing.runs import Outcome, Programs

WIDTH = 4096


def updated(file: RuleTestFile, programs: Programs) -> str:
    """Return the text of a test file with the expectations that hold. CepError: a program or a test is wrong.

    Only expectations of failing types are rewritten: those that match keep the attributes they name.
    """
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    document: Any = yaml.load(file.root.source.text)
    for test, written in zip(file.tests, document["tests"]):
        prepared = programs.prepare(test)
        checker = Checker(prepared)
        outcome = prepared.run()
        if test.expected_types:
            _rewrite_events(checker, outcome, written)
        for name in test.held_types:
            rows = sorted_rows(outcome.rows[name.word("a fluent")]) if name.text in outcome.rows else []
            if checker.differs(outcome, name):
                texts = [checker.row_text(row, checker.fluents[str(name.text)]) for row in rows]
                written["holds"][name.text] = _sequence([_flow(text) for text in texts])
        if len(outcome.dead) != test.dead:
            written["dead"] = len(outcome.dead)
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def _rewrite_events(checker: Checker, outcome: Outcome, written: Any) -> None:
    """Replace the expectations of each type that differs, at the place of its first."""
    items = written["expect"]
    for name in checker.test.expected_types:
        word = name.word("an event")
        if not checker.differs(outcome, name):
            continue
        places = [place for place, item in enumerate(items) if _type(item) == word]
        for place in reversed(places):
            del items[place]
        rows = sorted_rows(outcome.rows[word]) if word in outcome.rows else []
        for offset, row in enumerate(rows):
            items.insert(places[0] + offset, _flow(f"{word}: {checker.row_text(row, checker.events[word])}"))


def _type(item: Any) -> str:
    return item if isinstance(item, str) else str(next(iter(item)))


def _flow(text: str) -> Any:
    """Return a text of YAML as a node that is written on one line."""
    from ruamel.yaml import YAML

    return YAML().load(text)


def _sequence(items: list[Any]) -> Any:
    from ruamel.yaml.comments import CommentedSeq

    return CommentedSeq(items)

"""Rewrite test files so that derived results replace the expectations that fail. Comments and layout are kept."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

from cep.core.schema import Schema
from cep.diff.rows import Row, sorted_rows
from cep.testing.checks import Checker
from cep.testing.matching import Wanted, nearest
from cep.testing.rule_files import RuleTestFile
from cep.testing.runs import Outcome, Programs
from cep.testing.yaml_tree import Value

WIDTH = 4096


def updated(file: RuleTestFile, programs: Programs) -> str:
    """Return the text of a test file in which derived results replace the expectations that fail.

    Only the events and fluents that have a failure are rewritten. Expectations that do not fail stay unchanged. Raises
    CepError if the program or a test is not valid.
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
        for name in test.expected_types:
            if checker.differs(outcome, name):
                schema = checker.events[name.word("an event")]
                _rewrite(checker, outcome, name, schema, written["expect"], f"{schema.name}: ", schema.name)
        for name in test.held_types:
            if checker.differs(outcome, name):
                schema = checker.fluents[name.word("a fluent")]
                _rewrite(checker, outcome, name, schema, written["holds"][name.text], "", None)
        if len(outcome.dead) != test.dead:
            written["dead"] = len(outcome.dead)
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def _rewrite(
    checker: Checker, outcome: Outcome, name: Value, schema: Schema, items: Any, head: str, type_name: str | None
) -> None:
    """Replace each failing expectation of an event or fluent by the nearest row that no expectation matches.

    A replaced expectation keeps its list of attributes. The remaining rows are added as new expectations, with the
    attributes of the first expectation.
    """
    left = checker.remainder(outcome, name)
    wanted, rows = checker.wanted(name), sorted_rows(Counter(left.unexpected))
    places = [place for place, item in enumerate(items) if type_name is None or _type(item) == type_name]

    def node(names: Sequence[str], row: Row) -> Any:
        return _flow(f"{head}{checker.row_text(row, schema, names)}") if names or not head else type_name

    gone = []
    for expectation, place in zip(wanted, places):
        if not any(expectation is expected for expected in left.missing):
            continue
        row = nearest(expectation, rows)
        if row is None:
            gone.append(place)
            continue
        rows.remove(row)
        items[place] = node(_named(expectation), row)
    if not checker.allows_more(name):
        first = _named(wanted[0]) if wanted else ()
        insert_place = places[-1] + 1 if places else len(items)
        for offset, row in enumerate(rows):
            items.insert(insert_place + offset, node(first, row))
    for place in reversed(gone):
        del items[place]


def _named(wanted: Wanted) -> Sequence[str]:
    return () if wanted.expectation is None else tuple(wanted.expectation.values)


def _type(item: Any) -> str:
    return item if isinstance(item, str) else str(next(iter(item)))


def _flow(text: str) -> Any:
    from ruamel.yaml import YAML

    return YAML().load(text)

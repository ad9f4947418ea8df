"""Mutation testing: run the tests of a file on copies of its program. Each copy has one change.

The copies that pass all tests are reported, because the tests do not detect their change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cep.compile import CompiledProgram, CompileOptions, ReadProgram, compiled_rules, lowered
from cep.connectors.alerts.lifecycle import AlertChange
from cep.core.errors import NOWHERE, CepError, Span
from cep.plan.algebra import Rules
from cep.rule_changes import mutations, statement_mutations
from cep.testing.checks import Checker
from cep.testing.rule_files import RuleTest, RuleTestFile
from cep.testing.runs import Outcome, Prepared, Programs
from cep.variants import Variants, compiled_together

AT_ONCE = 200
"""The number of mutants that run in one pass."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A copy of a program in which one rule, deadline, formula or alert is changed.

    - `span`: the place of the change.
    - `change`: a description of the change.
    - `rules`: the changed program.
    """

    span: Span
    change: str
    rules: Rules


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that passes all tests: the file and line of its change, and the description of the change.

    `seen`: True if its results differ from the original program's in some test, but no expectation covers this.
    """

    file: str
    line: int
    change: str
    seen: bool


@dataclass(slots=True)
class MutantReport:
    """The number of mutants of a test file's program, and the mutants that survived."""

    count: int
    survivors: list[Survivor]


def try_mutants(file: RuleTestFile, programs: Programs) -> MutantReport:
    """Run the tests of a file on every mutant of its program. Raises CepError if the program or a test is wrong."""
    by_params: dict[tuple[tuple[str, object], ...], list[tuple[RuleTest, Prepared]]] = {}
    for test in file.tests:
        prepared = programs.prepare(test)
        key = tuple(sorted((prepared.source.options.params or {}).items()))
        by_params.setdefault(key, []).append((test, prepared))
    killed: set[tuple[Span, str]] = set()
    seen: set[tuple[Span, str]] = set()
    known: dict[tuple[Span, str], Mutant] = {}
    program: CompiledProgram | None = None
    for own in by_params.values():
        program = own[0][1].program
        source = own[0][1].source
        read = ReadProgram.of(source.text, source.name, source.options)
        mutants = list(_meaningful(read, own[0][1]))
        known |= {(mutant.span, mutant.change): mutant for mutant in mutants}
        for begin in range(0, len(mutants), AT_ONCE):
            part = mutants[begin : begin + AT_ONCE]
            failing, differing = _killed(read, part, own)
            killed |= {(part[number].span, part[number].change) for number in failing}
            seen |= {(part[number].span, part[number].change) for number in differing}
    assert program is not None, "a file has tests"
    survivors = []
    for place, mutant in sorted(known.items(), key=lambda placed: placed[0]):
        if place not in killed:
            name, line = program.plan.source.place(mutant.span.line)
            survivors.append(Survivor(name, line, mutant.change, place in seen))
    return MutantReport(len(known), survivors)


def _meaningful(read: ReadProgram, prepared: Prepared) -> Iterator[Mutant]:
    options = replace(prepared.source.options, alerts=True)
    plan = prepared.program.plan
    for mutant in mutants_of(read, prepared.source.options):
        try:
            other = compiled_rules(read, read.tree, mutant.rules, options)
        except CepError:
            continue
        if (other.plan.nodes, other.plan.heads, other.alerts) != (plan.nodes, plan.heads, prepared.program.alerts):
            yield mutant


def _killed(
    read: ReadProgram, mutants: Sequence[Mutant], own: Sequence[tuple[RuleTest, Prepared]]
) -> tuple[set[int], set[int]]:
    """Run the tests on mutants. Return two sets of indexes of mutants:

    - the mutants that fail a test,
    - the mutants that have other results in a test than the original program.
    """
    first = own[0][1]
    events = list(first.engine().outputs)
    alerts = [alert.name for alert in first.program.alerts]
    variants = compiled_together(read, [mutant.rules for mutant in mutants], first.source.options, events, alerts)
    failing: set[int] = set()
    differing: set[int] = set()
    for _, prepared in own:
        checker, plain = Checker(prepared), prepared.run()
        told = _told(prepared, plain)
        together = prepared.reading(variants.program).run()
        for number in range(len(mutants)):
            outcome = _own(together, variants, number)
            own_alerts = mutants[number].rules.alerts
            judged, other = checker, prepared
            if own_alerts != first.program.alerts:
                other = replace(prepared, program=replace(prepared.program, alerts=own_alerts))
                judged = Checker(other)
            same = outcome.rows == {name: rows for name, rows in plain.rows.items() if rows}
            if not same or (judged is not checker and _told(other, outcome) != told):
                differing.add(number)
                if number not in failing and not judged.passes(outcome):
                    failing.add(number)
    return failing, differing


def _own(together: Outcome, variants: Variants, number: int) -> Outcome:
    names: dict[str, str] = dict(variants.names[number])
    for alert in variants.alerts[number].values():
        names |= {table.partition("#")[0]: table for table in alert.tables}
    rows: Mapping[str, Counter[Any]] = {name: together.rows[own] for name, own in names.items() if own in together.rows}
    return Outcome(rows, together.dead)


def _told(prepared: Prepared, outcome: Outcome) -> list[AlertChange]:
    alerts = prepared.program.alerts
    if not alerts:
        return []
    latest = int(prepared.records.ends.max()) if len(prepared.records) else 0
    longest = max(alert.after + alert.keep + alert.duration for alert in alerts)
    return prepared.alerts(outcome, latest + longest if prepared.until is None else prepared.until)


def mutants_of(read: ReadProgram, options: CompileOptions) -> Iterator[Mutant]:
    """Yield the mutants of a program: first those with a changed statement, then those with a changed lowered rule."""
    rules = lowered(read.tree, options)
    for place, statement in enumerate(read.tree.statements):
        for changed, span, change in statement_mutations(statement, read.parameters):
            tree = replace(
                read.tree, statements=(*read.tree.statements[:place], changed, *read.tree.statements[place + 1 :])
            )
            where = statement.span if span == NOWHERE else span
            if where == NOWHERE:  # it is not in the text of the program
                continue
            try:
                yield Mutant(where, change, lowered(tree, options))
            except CepError:
                continue
    for place, rule in enumerate(rules.rules):
        for body, span, change in mutations(rule.body, read.parameters):
            if span == NOWHERE:  # it is not in the text of the program
                continue
            other = replace(rule, body=body)
            yield Mutant(span, change, replace(rules, rules=(*rules.rules[:place], other, *rules.rules[place + 1 :])))

"""Mutants: a program with one change of a rule each, and those that pass all tests of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cep.compile import CompiledProgram, ReadProgram, compiled_rules, lowered
from cep.core.errors import NOWHERE, CepError, Span
from cep.core.literals import write_duration
from cep.operators.aggregate import Window
from cep.operators.pair import Pair
from cep.operators.unless import Unless
from cep.operators.where import SelectPattern
from cep.plan.algebra import Rule, Rules
from cep.rules.printing import print_condition, print_expression
from cep.rules.terms import Comparison, Condition, Constant, PolicyChoice, Variable
from cep.testing.checks import Checker
from cep.testing.edits import Edit, condition_text, edits, with_bound
from cep.testing.rule_files import RuleTest, RuleTestFile
from cep.testing.runs import Outcome, Prepared, Programs
from cep.variants import Variants, compiled_together

NEIGHBOURS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "=": "!=", "!=": "="}
POLICIES = {"unrestricted": "recent", "recent": "chronological", "chronological": "recent"}
AT_ONCE = 200
"""How many mutants run in one pass."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of a rule: the rule's place, and the change in words."""

    rule: Rule
    span: Span
    change: str
    rules: Rules


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that passes all tests: the file and line of the change, and the change in words. `seen`: it derives
    something else of the records of a test, and no expectation tells."""

    file: str
    line: int
    change: str
    seen: bool


@dataclass(slots=True)
class MutantReport:
    """The mutants of the programs of a test file: how many there are, and those that survived."""

    made: int
    survivors: list[Survivor]


def try_mutants(file: RuleTestFile, programs: Programs) -> MutantReport:
    """Run the tests of a file with every mutant of its program. CepError: the program or a test is wrong."""
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
        base = lowered(read.tree, source.options)
        mutants = list(_meaningful(read, base, own[0][1]))
        known |= {(each.span, each.change): each for each in mutants}
        for begin in range(0, len(mutants), AT_ONCE):
            part = mutants[begin : begin + AT_ONCE]
            failing, differing = _killed(read, part, own)
            killed |= {(part[number].span, part[number].change) for number in failing}
            seen |= {(part[number].span, part[number].change) for number in differing}
    assert program is not None, "a file has tests"
    survivors = []
    for place, mutant in sorted(known.items(), key=lambda each: each[0]):
        if place not in killed:
            name, line = program.plan.source.place(mutant.span.line)
            survivors.append(Survivor(name, line, mutant.change, place in seen))
    return MutantReport(len(known), survivors)


def _meaningful(read: ReadProgram, base: Rules, prepared: Prepared) -> Iterator[Mutant]:
    """Yield the mutants that are programs, and that are planned otherwise than the original."""
    options = replace(prepared.source.options, alerts=True)
    plan = prepared.program.plan
    for mutant in mutants_of(base):
        try:
            other = compiled_rules(read, read.tree, mutant.rules, options)
        except CepError:
            continue
        if (other.plan.nodes, other.plan.heads) != (plan.nodes, plan.heads):
            yield mutant


def _killed(
    read: ReadProgram, mutants: Sequence[Mutant], own: Sequence[tuple[RuleTest, Prepared]]
) -> tuple[set[int], set[int]]:
    """Return the numbers of the mutants that fail a test, and of those that derive something else in one."""
    first = own[0][1]
    events = list(first.engine().outputs)
    alerts = [alert.name for alert in first.program.alerts]
    variants = compiled_together(read, [each.rules for each in mutants], first.source.options, events, alerts)
    failing: set[int] = set()
    differing: set[int] = set()
    for _, prepared in own:
        checker, plain = Checker(prepared), prepared.run()
        together = replace(prepared, program=variants.program).run()
        for number in range(len(mutants)):
            outcome = _own(together, variants, number)
            if outcome.rows != {name: rows for name, rows in plain.rows.items() if rows}:
                differing.add(number)
                if number not in failing and not checker.passes(outcome):
                    failing.add(number)
    return failing, differing


def _own(together: Outcome, variants: Variants, number: int) -> Outcome:
    """Return what one variant derived, by the names of the original program."""
    names: dict[str, str] = dict(variants.names[number])
    for alert in variants.alerts[number].values():
        names |= {table.partition("#")[0]: table for table in alert.tables}
    rows: Mapping[str, Counter[Any]] = {name: together.rows[own] for name, own in names.items() if own in together.rows}
    return Outcome(rows, together.dead)


def mutants_of(rules: Rules) -> Iterator[Mutant]:
    """Yield the mutants of lowered rules, in the order of the program."""
    for place, rule in enumerate(rules.rules):
        for body, span, change in edits(rule.body, _changes):
            if span == NOWHERE:  # nobody wrote it
                continue
            other = replace(rule, body=body)
            yield Mutant(
                rule, span, change, replace(rules, rules=(*rules.rules[:place], other, *rules.rules[place + 1 :]))
            )


def _changes(value: Any, bound: int | None) -> Iterator[Edit]:
    yield from _own_changes(value)
    if isinstance(value, SelectPattern | Pair) and value.within not in (None, bound):
        for ticks, told in (*_durations(value.within or 0), (None, "without")):
            text = f"{told} WITHIN {write_duration(value.within or 0)}"
            yield with_bound(value, value.within, ticks), value.span, text


def _own_changes(value: Any) -> Iterator[Edit]:
    match value:
        case Comparison(operator, _, _):
            other = replace(value, operator=NEIGHBOURS[operator])
            if not (operator == "=" and _binds(value)):
                yield other, value.span, f"`{print_condition(value)}` as `{print_condition(other)}`"
        case Constant(int() | float() as number, "int" | "float"):
            moved = replace(value, value=_moved(number))
            yield moved, value.span, f"`{print_expression(value)}` as `{print_expression(moved)}`"
        case SelectPattern():
            for place, condition in enumerate(value.conditions):
                rest = (*value.conditions[:place], *value.conditions[place + 1 :])
                body = replace(value, conditions=rest) if rest else value.pattern
                yield body, _span(condition, value.span), f"without `{condition_text(condition)}`"
        case Pair():
            yield from _pair_changes(value)
        case Unless():
            yield value.left, value.span, "without UNLESS"
            for ticks, told in _durations(value.duration):
                text = f"{told} WITHIN {write_duration(value.duration)} of UNLESS"
                yield replace(value, duration=ticks), value.span, text
        case Window() if value.duration is not None:
            for ticks, told in _durations(value.duration or 0):
                text = f"{told} the window of {write_duration(value.duration or 0)}"
                yield replace(value, duration=ticks), value.span, text


def _pair_changes(value: Pair) -> Iterator[Edit]:
    if value.relation == "SEQ":
        yield replace(value, relation="AND", gap=None), value.span, "SEQ as AND"
    if value.absent is not None:
        yield replace(value, absent=None), value.span, "without NOT"
    name = POLICIES[value.policy.name]
    yield replace(value, policy=PolicyChoice(name)), value.span, f"policy {value.policy.name} as {name}"
    left, right = (set(side.properties().binds) for side in (value.left, value.right))
    for name in sorted(left & right):
        if not name.startswith("_"):
            split = value.right.renamed({name: f"{name}_apart"})
            yield replace(value, right=split), value.span, f"`{name}` of both sides as two variables"


def _durations(ticks: int) -> tuple[tuple[int, str], ...]:
    """Return the neighbours of a duration, each with what is said of it."""
    found = ((ticks - 1, "a tick less than"), (ticks + 1, "a tick more than"), (ticks // 2, "half of"))
    return tuple((each, told) for each, told in found if 0 < each != ticks)


def _moved(number: float) -> float:
    """Return a number larger by one in its last decimal."""
    if isinstance(number, int):
        return number + 1
    decimals = len(repr(number).partition(".")[2]) if "e" not in repr(number) else 1
    return round(number + 10.0**-decimals, decimals)


def _binds(comparison: Comparison) -> bool:
    """Return True if an equation may give a variable its value."""
    return isinstance(comparison.left, Variable) or isinstance(comparison.right, Variable)


def _span(condition: Condition, other: Span) -> Span:
    return getattr(condition, "span", other)

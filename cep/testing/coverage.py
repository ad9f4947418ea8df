"""Coverage of a program by its tests. A condition, for example, is covered if it has been both true and false in tests.

The parts of a program are rules, conditions, absences, time limits, windows, fluents and alerts. For each part, the
tests should try one or two cases. Most parts have probes, which are copies of the part's rule under other names. One
probe is the rule itself, and one is the rule without the part. A condition has two more probes: the rule without other
comparisons, and the rule without any comparison. All probes run together with the program, in one pass over the records
of a test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from cep.compile import CompiledProgram, ReadProgram, compiled_rules, lowered
from cep.core.errors import NOWHERE, CepError, Source, Span
from cep.core.fluents import HOLDS, TRANSITIONS
from cep.diff.rows import Row
from cep.plan.algebra import Rule, Rules
from cep.plan.rule_edits import ABSENCE, BOUND, CONDITION, WINDOW, span_of
from cep.rule_changes import formula_omissions, omissions, with_conditions
from cep.rules.terms import Comparison, Condition
from cep.testing.rule_files import RuleTestFile
from cep.testing.runs import Outcome, Prepared, Programs
from cep.variants import compiled_together

RULE, FLUENT, ALERT = "rule", "fluent", "alert"
LACKING = {
    RULE: ("derived nothing", ""),
    CONDITION: ("was never true", "was never false"),
    ABSENCE: ("let nothing through", "blocked nothing"),
    BOUND: ("", "alone never rejected a match"),
    WINDOW: ("", "left nothing out"),
    FLUENT: ("never held", ""),
    ALERT: ("never fired", "was never resolved"),
}
"""The remarks that a report makes about untried cases, by kind of part: the remark if the first case is untried, and
the remark if the second case is. A report shows no remark if the text is empty."""


@dataclass(slots=True)
class CoverageItem:
    """A part of a program. `first`: True if the tests have tried the first case of the part. `second`: True if they
    have tried the second case."""

    kind: str
    text: str
    span: Span
    first: bool = False
    second: bool = False

    @property
    def lacking(self) -> str:
        """Return a text about the cases that the tests have not tried. It is empty if they have tried both cases."""
        told = zip(LACKING[self.kind], (self.first, self.second))
        return " and ".join(text for text, shown in told if text and not shown)


@dataclass(frozen=True, slots=True)
class _Probe:
    """The names of the copies of a rule that together show whether the tests have tried a part of the rule.

    - `whole`: the rule itself.
    - `without`: the rule without the part.
    - `alone`: if the part is a condition, the rule without other comparisons.
    - `none`: if the part is a condition, the rule without comparisons.

    Equations (`=`) remain in the last two copies, because they may give values to variables. A name is None if the copy
    would not be a valid program.
    """

    kind: str
    text: str
    span: Span
    whole: str
    without: str | None = None
    alone: str | None = None
    none: str | None = None


def coverage_of(file: RuleTestFile, programs: Programs) -> list[CoverageItem]:
    """Return the coverage of a test file's program, in the order of the program.

    Raises CepError if the program or a test is wrong.
    """
    items: dict[tuple[str, str, Span], CoverageItem] = {}
    probed: dict[int, tuple[CompiledProgram, list[_Probe]]] = {}
    for test in file.tests:
        prepared = programs.prepare(test)
        key = id(prepared.source)
        if key not in probed:
            probed[key] = _probed(prepared)
        program, probes = probed[key]
        outcome = replace(prepared, program=program).run()
        ended = replace(prepared, program=program, until=None).run()  # at its end, every UNLESS is decided
        for probe in probes:
            item = items.setdefault(
                (probe.kind, probe.text, probe.span), CoverageItem(probe.kind, probe.text, probe.span)
            )
            _judge(item, probe, outcome, ended if probe.kind == ABSENCE else outcome)
        _judge_formulas(items, prepared)
        _judge_alerts(items, prepared, outcome)
    return sorted(items.values(), key=lambda entry: (entry.span, entry.kind != RULE))


def _judge(item: CoverageItem, probe: _Probe, outcome: Outcome, compared: Outcome) -> None:
    """Record which cases of a part a test has tried.

    - `outcome`: the results that show whether the first case was tried.
    - `compared`: the results that show whether the second case was tried.
    """
    item.first |= _total(outcome, probe.whole) > 0 or _total(outcome, probe.alone) > 0
    if probe.kind == WINDOW:
        item.second |= _rows(compared, probe.without) != _rows(compared, probe.whole)
        return
    item.second |= probe.without is not None and _total(compared, probe.without) > _total(compared, probe.whole)
    item.second |= probe.none is not None and _total(compared, probe.none) > _total(compared, probe.alone)


def _rows(outcome: Outcome, name: str | None) -> Counter[Row]:
    return outcome.rows.get(name or "", Counter())


def _total(outcome: Outcome, name: str | None) -> int:
    return _rows(outcome, name).total()


def _judge_formulas(items: dict[tuple[str, str, Span], CoverageItem], prepared: Prepared) -> None:
    """Record which parts of formulas matter for a test. A part matters if the test has other results without it.

    One run evaluates many programs, each of which lacks one part. The run continues to the end of the input, so that
    all formulas that refer to later times have their results.
    """
    options = prepared.source.options
    read = ReadProgram.of(prepared.source.text, prepared.source.name, options)
    base, parts, every = lowered(read.tree, options), list[tuple[str, CoverageItem]](), list[Rules]()
    for place, statement in enumerate(read.tree.statements):
        for fluent, (changed, span, told) in formula_omissions(statement):
            if fluent not in base.schemas:
                break
            kind, _, text = told.partition(" ")
            own = statement.span if span == NOWHERE else span
            statements = (*read.tree.statements[:place], changed, *read.tree.statements[place + 1 :])
            try:
                rules = lowered(replace(read.tree, statements=statements), options)
                compiled_rules(read, read.tree, rules, options)
            except CepError:
                continue
            every.append(rules)
            parts.append((fluent, items.setdefault((kind, text, own), CoverageItem(kind, text, own))))
    if not parts:
        return
    names = sorted({name for name, _ in parts})
    variants = compiled_together(read, [base, *every], options, names, ())
    outcome = replace(prepared, until=None).reading(variants.program).run()
    for number, (name, item) in enumerate(parts, 1):
        whole, other = (_rows(outcome, variants.names[variant][name]) for variant in (0, number))
        item.first |= bool(whole)
        item.second |= whole != other


def _judge_alerts(items: dict[tuple[str, str, Span], CoverageItem], prepared: Prepared, outcome: Outcome) -> None:
    alerts = prepared.program.alerts
    if not alerts:
        return
    latest = int(prepared.records.ends.max()) if len(prepared.records) else 0
    longest = max(alert.after + alert.keep + alert.duration for alert in alerts)
    horizon = latest + longest if prepared.until is None else prepared.until
    changes = prepared.alerts(outcome, horizon)
    for alert in alerts:
        if alert.hidden:
            continue
        rule = next(rule for rule in prepared.program.rules.rules if rule.event == alert.table)
        item = items.setdefault((ALERT, alert.name, rule.span), CoverageItem(ALERT, alert.name, rule.span))
        own = [change for change in changes if change.name == alert.name and change.fired is not None]
        item.first |= bool(own)
        item.second |= any(change.state == "resolved" for change in own)


def _probed(prepared: Prepared) -> tuple[CompiledProgram, list[_Probe]]:
    """Return a program to which probes were added as rules, and these probes."""
    options = replace(prepared.source.options, alerts=True)
    read = ReadProgram.of(prepared.source.text, prepared.source.name, prepared.source.options)
    rules = lowered(read.tree, prepared.source.options)
    tables = {table for alert in rules.alerts for table in alert.tables}
    merged, probes = rules, list[_Probe]()

    def copied(rule: Rule, body: Any, name: str) -> str | None:
        """Add to the program a copy of a rule that has another body and derives the event `name`. Return `name`, or
        None if the program would not be valid with this copy."""
        nonlocal merged
        schema = replace(rules.schemas[rule.event], name=name, fluent=None)
        copy = replace(rule, event=name, body=body)
        other = replace(merged, schemas={**merged.schemas, name: schema}, rules=(*merged.rules, copy))
        try:
            compiled_rules(read, read.tree, replace(other, rules=(*rules.rules, copy)), options)
        except CepError:
            return None
        merged = other
        return name

    for number, rule in enumerate(rules.rules):
        schema = rules.schemas[rule.event]
        if schema.fluent is not None and schema.fluent.part == HOLDS and rule.span != NOWHERE:
            probes.append(_Probe(FLUENT, schema.fluent.name, rule.span, rule.event))
        derived = schema.fluent is None or (schema.fluent.part == TRANSITIONS and not schema.fluent.defined)
        if not derived or rule.event in tables or rule.event in rules.helpers or rule.span == NOWHERE:
            continue
        whole = copied(rule, rule.body, f"probe {number}")
        assert whole is not None, "the rule itself is one"
        name = rule.event if schema.fluent is None else schema.fluent.name
        probes.append(_Probe(RULE, rule.label or name, rule.span, whole))
        for place, (body, span, told) in enumerate(omissions(rule.body)):
            kind, _, text = told.partition(" ")
            without = copied(rule, body, f"probe {number} without {place}")
            alone = none = None
            if kind == CONDITION:
                alone, none = _isolated(rule, span, number, place, copied)
            probes.append(_Probe(kind, text, span, whole, without, alone, none))
    return compiled_rules(read, read.tree, merged, options), probes


def _isolated(rule: Rule, span: Span, number: int, place: int, copied: Any) -> tuple[str | None, str | None]:
    """Add two copies of a rule to the program, which show the effect of the comparison at `span`. Return their names.

    The first copy keeps only this comparison and all equations (`=`). The second copy keeps only the equations. Both
    names are None if one of the copies is not valid.
    """

    def kept(condition: Condition, only: bool) -> bool:
        binds = not isinstance(condition, Comparison) or condition.operator == "="
        return binds or (only and span_of(condition, NOWHERE) == span)

    bodies = [with_conditions(rule.body, lambda condition, sole=own: kept(condition, sole)) for own in (True, False)]
    names = [f"probe {number} alone {place}", f"probe {number} none {place}"]
    alone, none = (copied(rule, body, name) for body, name in zip(bodies, names))
    return (alone, none) if alone is not None and none is not None else (None, None)


def coverage_lines(items: Sequence[CoverageItem], source: Source) -> Iterator[str]:
    """Yield a line with the number of covered parts of each kind. Then yield a line for each part with an untried
    case."""
    counts = []
    for kind in (RULE, CONDITION, ABSENCE, BOUND, WINDOW, FLUENT, ALERT):
        own = [item for item in items if item.kind == kind]
        if own:
            covered = sum(not entry.lacking for entry in own)
            counts.append(f"{covered} of {len(own)} {kind}{'s' * (len(own) != 1)}")
    yield f"covered: {', '.join(counts)}"
    for item in items:
        if item.lacking:
            file, line = source.place(item.span.line)
            named = f"`{item.text}`" if item.kind in (RULE, CONDITION, FLUENT, ALERT) else item.text
            kind = "" if item.kind in (ABSENCE, BOUND, WINDOW) else f"{item.kind} "
            yield f"  {file}:{line}: {kind}{named} {item.lacking}"


def coverage_page(items: Sequence[CoverageItem], source: Source) -> str:
    """Return the program as an HTML page that marks covered lines, and lists the untried cases of the other lines."""
    by_line: dict[int, list[CoverageItem]] = {}
    for item in items:
        by_line.setdefault(item.span.line, []).append(item)
    rows = []
    for number, text in enumerate(source.lines, 1):
        own = by_line.get(number, [])
        lacking = [f"{entry.text} {entry.lacking}" for entry in own if entry.lacking]
        kind = "lacking" if lacking else "covered" if own else ""
        notes = "".join(f"<div>{escape(note)}</div>" for note in lacking)
        rows.append(f'<tr class="{kind}"><td>{number}</td><td><pre>{escape(text)}</pre>{notes}</td></tr>')
    style = (
        "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}"
        "pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}td{padding:1px 8px;"
        "vertical-align:top}td:first-child{color:#777;text-align:right}.covered{background:#e6f4e6}"
        ".lacking{background:#fbe9d7}div{color:#8a3c00;font-size:12px}"
        "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}.covered{background:#12301a}"
        ".lacking{background:#3d2609}div{color:#f0b070}}"
    )
    title = escape(source.name)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{style}</style>'
        f"<h1>{title}</h1><table>{''.join(rows)}</table></html>\n"
    )

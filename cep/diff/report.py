"""The report of a comparison: text for a terminal of 80 columns, Markdown for a pull request, or JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from cep.connectors.records.times import time_text
from cep.connectors.why.lines import origins, refusals
from cep.connectors.why.text import Explainer
from cep.core.fluents import author_name
from cep.core.schema import Schema
from cep.diff.alerts import life_lines
from cep.diff.comparison import Comparison
from cep.diff.matching import KINDS, Difference, names_of
from cep.diff.meaning import Place, ProgramDiff, RuleChange
from cep.diff.reasons import Explained, Reason
from cep.diff.rows import FIRST, Row
from cep.runtime.run_stats import RunStats, count

WIDTH = 80
LINES = 16
"""The greatest number of lines that are printed from the explanation of one program."""
SAME = "the programs mean the same"


def lines(diff: ProgramDiff, comparison: Comparison | None, shown: int, exceeded: Sequence[str]) -> Iterator[str]:
    """Yield the report, line by line.

    - `shown`: the number of differences to list, per event and kind.
    - `exceeded`: the limits that are exceeded, each as text.
    """
    yield from _program_lines(diff)
    if comparison is None:
        return
    yield ""
    yield from _counts(comparison)
    for difference in comparison.first(shown):
        yield ""
        yield from _difference(comparison, difference)
    if exceeded:
        yield ""
    yield from (f"not allowed: {text}" for text in exceeded)


# --- programs ---


def _program_lines(diff: ProgramDiff) -> Iterator[str]:
    for name, old, new in diff.parameters:
        yield f"parameter {name}: {_value(old)} -> {_value(new)}"
    if not diff:
        yield SAME
    for rule in diff.rules:
        yield f"{rule.change} {rule.of}: {_places(rule)}"
        yield from _texts(rule)
    for declaration in diff.declarations:
        yield from textwrap.wrap(
            f"{declaration.change} declaration of {declaration.of}: {declaration.told}", WIDTH, subsequent_indent="    "
        )
    if diff.reached:
        yield "affected rules:"
    for reached in diff.reached:
        yield f"  {reached.of}: {_place(reached.place)}"


def _value(text: str | None) -> str:
    return "none" if text is None else text


def _place(place: Place) -> str:
    return f"{place.file}:{place.line}"


def _places(rule: RuleChange) -> str:
    places = list(dict.fromkeys(_place(rule_place) for rule_place in (rule.old, rule.new) if rule_place is not None))
    return " -> ".join(places)


def _texts(rule: RuleChange) -> Iterator[str]:
    if rule.old is not None and rule.new is not None and rule.old.text == rule.new.text:
        yield from _wrapped("    ", rule.new.text)
        return
    for sign, place in (("  - ", rule.old), ("  + ", rule.new)):
        if place is not None:
            yield from _wrapped(sign, place.text)


def _wrapped(sign: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=sign, subsequent_indent="        ", break_long_words=False, break_on_hyphens=False
    )


# --- what they derive ---


def _counts(comparison: Comparison) -> Iterator[str]:
    stats = [run.stats for run in comparison.runs]
    told = list(dict.fromkeys(_records(run_stats) for run_stats in stats))
    yield f"history   {told[0]}" if len(told) == 1 else f"history   old: {told[0]}; new: {told[1]}"
    for first in dict.fromkeys(run.first_dead for run in comparison.runs if run.first_dead is not None):
        yield from _wrapped("          one dead letter is ", first)
    rows = [
        [_shown(comparison, name), *(f"{own[kind]:,}" for kind in KINDS)] for name, own in comparison.counts.items()
    ]
    if not comparison.differences:
        yield "          both derive the same events"
        return
    table = [["", *KINDS], *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(table[0]))]
    for first, *numbers in table:
        yield f"{first:{widths[0]}}  " + "  ".join(f"{number:>{width}}" for number, width in zip(numbers, widths[1:]))


def _shown(comparison: Comparison, name: str) -> str:
    event = comparison.events[name]
    schema = event.old if event.new is None else event.new
    return name if schema is None or schema.fluent is None else author_name(schema.fluent.name)


def _records(stats: RunStats) -> str:
    return f"{count(stats.records, 'record')}, {count(stats.dead.total(), 'dead letter')}"


def _difference(comparison: Comparison, difference: Difference) -> Iterator[str]:
    if difference.event in comparison.alert_names:
        yield from _alert_difference(comparison, difference)
        return
    reasons = comparison.reasons
    reason = reasons.of(difference)
    sides = [(reasons.old, difference.old), (reasons.new, difference.new)]
    alike = comparison.events[difference.event].alike
    words = ("moved: was ", "       is  ") if difference.kind == "moved" else (f"{difference.kind}: ",) * 2
    for (explainer, row), word in zip(sides, words):
        if row is not None:
            yield from _wrapped(word, row_text(explainer, difference.event, row, not alike))
    yield from _side("old", reason.old, reason.new, difference, alike)
    yield from _side("new", reason.new, reason.old, difference, alike)


def _alert_difference(comparison: Comparison, difference: Difference) -> Iterator[str]:
    explainers = comparison.reasons.old, comparison.reasons.new
    rows = difference.old, difference.new
    words = ("moved: was ", "       is  ") if difference.kind == "moved" else (f"{difference.kind}: ",) * 2
    event = comparison.events[difference.event]
    for explainer, row, schema, word in zip(explainers, rows, (event.old, event.new), words):
        if row is not None and schema is not None:
            values = zip(schema.attributes, row[FIRST:])
            told = ", ".join(
                f"{attribute.name}: {explainer.value_text((value, attribute.type))}" for attribute, value in values
            )
            start, end = (None if instant is None else time_text(instant, explainer.times) for instant in row[:2])
            yield from _wrapped(word, f"{difference.event}({told}) from {start} {'on' if end is None else f'to {end}'}")
    for side, explainer, reason in zip(("old", "new"), explainers, comparison.alert_reason(difference)):
        if reason is None:
            yield f"  {side}: it has no `{difference.event}`"
        elif not reason["alerts"]:
            yield f"  {side}: nothing begins it for this key at that time"
        else:
            yield f"  {side}: {'it fires' if reason['exists'] else 'nobody is notified'}"
            for life in reason["alerts"]:
                for line in life_lines(life.told(explainer.time)):
                    yield from textwrap.wrap(
                        line, WIDTH, initial_indent="    ", subsequent_indent="        ", break_on_hyphens=False
                    )


def _side(
    name: str, explained: Explained | None, other: Explained | None, difference: Difference, alike: bool
) -> Iterator[str]:
    if explained is None:
        yield f"  {name}: it does not derive `{difference.event}`"
        return
    if "exists" in explained:
        told = _there(explained, other, alike) if explained["exists"] else "why not"
        own = refusals(explained, WIDTH - 2, ids=False)[1:]
    else:
        told, own = "why", origins(explained, WIDTH - 2)
    yield f"  {name}: {told}"
    yield from (f"  {line}" for line in own[:LINES])
    if len(own) > LINES:
        yield f"    {len(own) - LINES} more lines: `--json` has all"


def _there(explained: Explained, other: Explained | None, alike: bool) -> str:
    if not alike:
        return "derived, but its attributes have other names"
    times = () if other is None else (other.get("start"), other.get("end"), other.get("bounds"))
    if any((event["start"], event["end"], event.get("bounds")) == times for event in explained["found"]):
        return "derived, but fewer times"
    return "derived, but at another time"


def row_text(explainer: Explainer, name: str, row: Row, named: bool = False) -> str:
    """Return an occurrence as text: written as in a rule, followed by its time.

    `named`: True to include the names of the occurrence's attributes.
    """
    schema = explainer.engine.plan.schemas[name]
    text = explainer.event_text(name, dict(enumerate(row[FIRST : FIRST + len(schema.attributes)])))
    if named and schema.fluent is None:
        values = zip(schema.attributes, row[FIRST:])
        told = [f"{attribute.name}: {explainer.value_text((value, attribute.type))}" for attribute, value in values]
        text = f"{name}({', '.join(told)})"
    start, end = (None if instant is None else time_text(instant, explainer.times) for instant in row[:2])
    if schema.fluent is None:
        return f"{text} at {end}" if start == end else f"{text} from {start} to {end}"
    if end is None:
        return f"{text} {'always' if start is None else f'from {start} on'}"
    return f"{text} over {row[-1][0]}{'...' if start is None else start}, {end}{row[-1][1]}"


# --- Markdown ---


def markdown(diff: ProgramDiff, comparison: Comparison | None, shown: int, exceeded: Sequence[str]) -> Iterator[str]:
    yield from (f"**Not allowed:** {text}\n" for text in exceeded)
    if comparison is not None:
        yield "| event | appeared | gone | moved |"
        yield "|---|---:|---:|---:|"
        for name, counts in comparison.counts.items():
            yield f"| `{_shown(comparison, name)}` | {' | '.join(f'{counts[kind]:,}' for kind in KINDS)} |"
        stats = list(dict.fromkeys(_records(run.stats) for run in comparison.runs))
        yield f"\nOver {' (old) and '.join(stats)}{' (new)' if len(stats) > 1 else ''}.\n"
    yield from _folded("What changed in the rules", list(_program_lines(diff)))
    first = [] if comparison is None else comparison.first(shown)
    if comparison is not None and first:
        own = [line for difference in first for line in (*_difference(comparison, difference), "")]
        yield from _folded(f"The first {shown} of each kind, with reasons", own[:-1])


def _folded(title: str, own: Sequence[str]) -> Iterator[str]:
    fence = "```"
    while any(fence in line for line in own):
        fence += "`"
    yield f"<details><summary>{title}</summary>\n\n{fence}text"
    yield from own
    yield f"{fence}\n\n</details>\n"


# --- JSON ---


def as_json(diff: ProgramDiff, comparison: Comparison | None, shown: int, exceeded: Sequence[str]) -> str:
    """Return the whole report as JSON, with the first differences of each kind."""
    told: dict[str, Any] = {
        "same": not diff,
        "parameters": {name: {"old": old, "new": new} for name, old, new in diff.parameters},
        "rules": [
            {"change": rule.change, "of": rule.of, "old": _json_place(rule.old), "new": _json_place(rule.new)}
            for rule in diff.rules
        ],
        "declarations": [
            {"change": declaration.change, "of": declaration.of, "told": declaration.told}
            for declaration in diff.declarations
        ],
        "reached": [{"of": reached_rule.of, **_json_place(reached_rule.place)} for reached_rule in diff.reached],
    }
    if comparison is not None:
        runs = {"old": comparison.runs[0].stats, "new": comparison.runs[1].stats}
        told["records"] = {name: stats.records for name, stats in runs.items()}
        told["dead"] = {name: stats.dead.total() for name, stats in runs.items()}
        told["first_dead"] = {name: run.first_dead for name, run in zip(runs, comparison.runs)}
        told["counts"] = {
            _shown(comparison, name): {kind: own[kind] for kind in KINDS} for name, own in comparison.counts.items()
        }
        told["differences"] = [difference_json(comparison, difference) for difference in comparison.first(shown)]
        told["not_allowed"] = list(exceeded)
    return json.dumps(told, ensure_ascii=False, indent=2)


def _json_place(place: Place | None) -> Any:
    return None if place is None else {"file": place.file, "line": place.line, "text": place.text}


def difference_json(comparison: Comparison, difference: Difference) -> dict[str, Any]:
    """Return a difference and its reasons as JSON."""
    if difference.event in comparison.alert_names:
        return _alert_json(comparison, difference)
    reasons = comparison.reasons
    reason: Reason = reasons.of(difference)
    rows = [
        None if row is None else row_json(explainer, difference.event, row)
        for explainer, row in ((reasons.old, difference.old), (reasons.new, difference.new))
    ]
    return {
        "event": _shown(comparison, difference.event),
        "kind": difference.kind,
        "old": rows[0],
        "new": rows[1],
        "reasons": {"old": reason.old, "new": reason.new},
    }


def _alert_json(comparison: Comparison, difference: Difference) -> dict[str, Any]:
    event = comparison.events[difference.event]
    rows: list[Any] = []
    reasons: list[Any] = []
    sides = zip(
        (comparison.reasons.old, comparison.reasons.new),
        (event.old, event.new),
        (difference.old, difference.new),
        comparison.alert_reason(difference),
    )
    for explainer, schema, row, reason in sides:
        rows.append(None if row is None or schema is None else _row_json(explainer, schema, row))
        lives = None if reason is None else [life.told(explainer.time) for life in reason["alerts"]]
        reasons.append(None if reason is None else {"exists": reason["exists"], "alerts": lives})
    return {
        "event": difference.event,
        "kind": difference.kind,
        "old": rows[0],
        "new": rows[1],
        "reasons": {"old": reasons[0], "new": reasons[1]},
    }


def row_json(explainer: Explainer, name: str, row: Row) -> dict[str, Any]:
    """Return an occurrence as JSON. Its values are stored by attribute name."""
    schema = explainer.engine.plan.schemas[name]
    document = _row_json(explainer, schema, row)
    return document if schema.fluent is None else document | {"bounds": row[-1]}


def _row_json(explainer: Explainer, schema: Schema, row: Row) -> dict[str, Any]:
    start, end = (None if instant is None else explainer.time(instant) for instant in row[:2])
    types = [attribute.type for attribute in schema.attributes]
    values = zip(names_of(schema), zip(row[FIRST:], types))
    return {"start": start, "end": end, **{column: explainer.json_value(typed) for column, typed in values}}

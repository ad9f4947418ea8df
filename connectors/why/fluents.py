"""Explanations of fluents as JSON. `cep.connectors.why.text` explains events.

An interval has `start`, `end` (null for an open interval) and `bounds`.

A simple fluent also has `began` and `ended`: {time, how, told, by}. `by` contains the nodes of the events that caused
the change by a rule. If a deadline caused the change, `statement` is the deadline's statement. While the fluent holds,
`deadline` is {time, statement}.

A fluent that has formulas also has `formulas`: {formula, rule, variables, intervals, negated, conditions, parts,
left_out}. The parts are formulas or nodes. A part of a formula that is not true (`gaps`) has `formula`, `kind` and
`told`. Depending on its kind, it also has `before`, `after`, `intervals`, `conditions`, `ended`, `because` (refusals)
or `gaps`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cep.core.errors import Span
from cep.core.fluents import EDGES, RECORDED, SINCE_EVER, TRANSITIONS, author_name
from cep.core.interval_sets import INFINITE
from cep.core.literals import say_duration
from cep.core.schema import Schema
from cep.core.time import END_OF_TIME
from cep.events import Value
from cep.explain.formulas import When
from cep.explain.gaps import Gap
from cep.explain.judging import BoundValues
from cep.explain.nodes import DerivationNode, FormulaNode, Turn
from cep.explain.occurrences import Occurrence
from cep.plan.pattern import Pattern
from cep.rules.pattern_text import WORDS
from cep.rules.terms import Variable

if TYPE_CHECKING:
    from cep.connectors.why.text import Explainer
    from cep.explain.refusal import Refusal

Json = dict[str, Any]


def name_of(schema: Schema) -> str:
    """Return the name of the event or fluent to which a table belongs."""
    return schema.name if schema.fluent is None else author_name(schema.fluent.name)


def fluent_text(schema: Schema, values: list[str], kind: Value) -> str:
    """Return a fluent as a rule writes it: `moving("v1")`, `location("ann") = "pub"`, `BEGIN OF moving("v1")`.

    `values`: the values of all columns of the fluent's table. `kind`: the kind of the change, if the table contains
    beginnings and ends.
    """
    fluent = schema.fluent
    assert fluent is not None, "it is a fluent's"
    word = ""
    if fluent.part in (EDGES, TRANSITIONS):
        values = values[: len(values) - 1 - (fluent.part == TRANSITIONS and fluent.defined)]
        word = WORDS.get(kind, "") if isinstance(kind, int) and fluent.part == EDGES else ""
    *own, value = values if fluent.valued else (*values, "")
    text = f"{word}{name_of(schema)}" + (f"({', '.join(own)})" if own else "")
    return f"{text} = {value}" if fluent.valued else text


def times(explainer: Explainer, occurrence: Occurrence) -> Json:
    """Return the start, end and bounds of an occurrence as JSON."""
    if not occurrence.bounds:
        return {"start": explainer.time(occurrence.start), "end": explainer.time(occurrence.end)}
    start = None if occurrence.start == SINCE_EVER else explainer.time(occurrence.start)
    return {
        "start": start,
        "end": None if occurrence.end == END_OF_TIME else explainer.time(occurrence.end),
        "bounds": occurrence.bounds,
    }


def interval_of(explainer: Explainer, when: tuple[int, int]) -> Json:
    """Return an interval as JSON. `when`: the codes of its first and last time (see `cep.core.interval_sets`)."""
    first, last = when
    start = None if first == -INFINITE else explainer.time(first >> 1)
    end = None if last == INFINITE else explainer.time((last + 1) >> 1)
    return {"start": start, "end": end, "bounds": ("(" if first & 1 else "[") + (")" if last & 1 else "]")}


def intervals_of(explainer: Explainer, when: When) -> list[Json]:
    return [interval_of(explainer, interval) for interval in when]


def fluent_keys(explainer: Explainer, node: DerivationNode) -> Json:
    """Return the keys of a node that only fluents have, as JSON."""
    answer: Json = {}
    if node.began is not None:
        answer["began"] = turn(explainer, node.began, "began")
    if node.ended is not None:
        answer["ended"] = turn(explainer, node.ended, "ended")
    if node.deadline is not None:
        time, span = node.deadline
        answer["deadline"] = {"time": explainer.time(time)} | statement(explainer, span)
    if node.formulas:
        answer["formulas"] = [formula(explainer, node_of_formula) for node_of_formula in node.formulas]
    return answer


def statement(explainer: Explainer, span: Span | None) -> Json:
    if span is None:
        return {}
    return {"statement": explainer.place(span)}


def turn(explainer: Explainer, change: Turn, word: str) -> Json:
    """Describe the beginning or end of a fluent as JSON. `word`: `began` or `ended`."""
    time = None if change.time == SINCE_EVER else explainer.time(change.time)
    match change.how:
        case "initially":
            told = "it held from before all time"
        case "other":
            told = f"it {word} at {time}, as another value began"
        case "deadline":
            told = (
                f"it {word} at {time}, {say_duration(change.time - change.since)} after {explainer.time(change.since)}"
            )
        case "forgotten":
            told = f"it {word} at {time}; the cause is no longer known"
        case _:
            told = f"it {word} at {time}"
    answer = {"time": time, "how": change.how, "told": told, "by": [explainer.node(node) for node in change.nodes]}
    return answer | statement(explainer, change.deadline)


def becomes_text(explainer: Explainer, refusal: Refusal) -> str:
    """Explain in a sentence why a deadline has not replaced the current value of a fluent by another value."""
    failure = refusal.failure
    if failure.occurrence is None:
        values = {place: value for place, value in enumerate(failure.arguments or ()) if value is not None}
        return f"{explainer.event_text(refusal.rule.event, values)} did not hold before"
    fluent_text, due = explainer.occurrence_text(failure.occurrence), failure.time or 0
    if failure.kind == "waits":
        does = "becomes" if failure.occurrence.end == due else "would become"
        after = f"{say_duration(failure.by)} after {explainer.time(due - failure.by)}"
        return f"{fluent_text} {does} the requested value at {explainer.time(due)}, {after}"
    if failure.kind == "stopped":
        return f"{fluent_text} ended before its deadline at {explainer.time(due)}"
    return f"{fluent_text} holds from before all time, and has no deadline until it is renewed"


def formula(explainer: Explainer, node: FormulaNode) -> Json:
    """Return a formula as JSON, with its parts and their intervals."""
    answer: Json = {"formula": explainer.pattern_text(node.pattern, node.bound)}
    if node.rule is not None:
        answer["rule"] = explainer.rule(node.rule)
        answer["variables"] = explainer.variables(node.bound)
    answer["negated"] = node.negated
    answer["intervals"] = intervals_of(explainer, node.when)
    if node.judged:
        answer["conditions"] = [explainer.condition(condition) for condition in node.judged]
    parts = [formula(explainer, part) if isinstance(part, FormulaNode) else explainer.node(part) for part in node.parts]
    if len(parts) == 1 and all(parts[0].get(key) == answer[key] for key in ("formula", "negated", "intervals")):
        parts = parts[0]["parts"]  # flatten parts with the same formula
    answer["parts"] = parts
    if node.left_out:
        answer["left_out"] = node.left_out
    return answer


def gap(explainer: Explainer, missing: Gap) -> Json:
    """Describe, as JSON, a part of a formula that is not true."""
    text = explainer.pattern_text(missing.pattern, missing.bound)
    answer: Json = {"formula": text, "kind": missing.kind, "told": _told(explainer, missing, text)}
    if missing.kind != "held":
        answer |= {
            key: explainer.occurrence(occurrence, False)
            for key, occurrence in (("before", missing.before), ("after", missing.after))
            if occurrence is not None
        }
    if missing.when:
        answer["intervals"] = intervals_of(explainer, missing.when)
    if missing.judged:
        answer["conditions"] = [explainer.condition(condition) for condition in missing.judged]
    if missing.values:
        answer["values"] = explainer.variables(missing.values)
    if missing.ended is not None:
        answer["ended"] = turn(explainer, missing.ended, "ended")
    if missing.because:
        answer["because"] = [explainer.refusal(refusal_behind) for refusal_behind in missing.because]
    if missing.parts:
        answer["gaps"] = [gap(explainer, part) for part in missing.parts]
    return answer


def _told(explainer: Explainer, missing: Gap, text: str) -> str:
    moment, until = _moment(explainer, missing.moment), _end(explainer, missing.until, missing.open)
    schema = explainer.engine.plan.schemas.get(missing.pattern.properties().event or "")
    match missing.kind:
        case "missing" if schema is not None and schema.fluent is None:
            return f"there is no {text} {moment}"
        case "missing" if schema is not None and schema.fluent is not None and schema.fluent.name.endswith(RECORDED):
            return f"no record says that {text} holds {moment}"
        case "missing":
            return f"{text} does not hold {moment}"
        case "held":
            return f"{text} holds {moment}"
        case "condition":
            return f"{text} holds {moment}, but not for these values"
        case "never" | "not always" if missing.since == missing.until:
            return f"{text} does not hold {_moment(explainer, missing.since)}"
        case "never":
            return f"{text} holds at no time from {_end(explainer, missing.since)} to {until}"
        case "not always":
            return f"{text} does not hold at all times from {_end(explainer, missing.since)} to {until}"
        case "short":
            return f"{text} holds {moment}, but not for long enough"
        case _:
            assert missing.kind == "group", "all kinds have a sentence"
            return f"the aggregate has other values {moment}"


def _moment(explainer: Explainer, code: int) -> str:
    if abs(code) >= INFINITE:
        return f"at {_end(explainer, code)}"
    time = explainer.time(code >> 1)
    return f"just after {time}" if code & 1 else f"at {time}"


def _end(explainer: Explainer, code: int, open: bool = False) -> str:
    """Return the time that a code (see `cep.core.interval_sets`) represents, as text.

    A code between two instants is described as just before the second instant if `open` is True, and as just after the
    first instant otherwise.
    """
    if abs(code) >= INFINITE:
        return "the beginning" if code < 0 else "the end"
    if not code & 1:
        return str(explainer.time(code >> 1))
    return f"just before {explainer.time((code + 1) >> 1)}" if open else f"just after {explainer.time(code >> 1)}"


def identity_times(occurrence: Occurrence) -> list[Any]:
    """Return the times that identify an occurrence. An interval of a fluent is identified by its start alone."""
    if not occurrence.bounds:
        return [occurrence.start, occurrence.end]
    return [None if occurrence.start == SINCE_EVER else occurrence.start]


def shown_arguments(schema: Schema, args: tuple[Value, ...]) -> Mapping[int, Value]:
    """Return the arguments of an occurrence by index, without columns that fluents use internally."""
    fluent = schema.fluent
    if fluent is None or fluent.part not in (EDGES, TRANSITIONS):
        return dict(enumerate(args))
    return dict(enumerate(args[: len(args) - 1 - (fluent.part == TRANSITIONS and fluent.defined)]))


def absent(explainer: Explainer, pattern: Pattern, bound: BoundValues, time: int) -> Json:
    """Describe, as JSON, an event that did not occur until `time`, or a fluent that did not hold at `time`."""
    properties = pattern.properties()
    schema = explainer.engine.plan.schemas.get(properties.event or "")
    asked = schema is not None and schema.fluent is not None and isinstance(properties.arguments[-1], Variable)
    return {"pattern": explainer.pattern_text(pattern, bound), "at" if asked else "until": explainer.time(time)}

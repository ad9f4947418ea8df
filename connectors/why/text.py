"""Explanations of derived and missing events as JSON.

A node describes an event. It has `event`, `text` (as a rule writes it), `arguments` by name, `start`, `end` and `id`.

- If the event is an input record, its node has `record`: {file, line} if both are known.
- If the event is derived, its node has `rule` (name, line, text), `also` (other rules that have the same result),
  `variables`, `conditions`, `absent`, `parts`, `chain`, `again` and `left_out` (see
  `cep.explain.nodes.DerivationNode`).

A condition has `text`, `holds` and `values`. A comparison also has `sides`. If a static rule makes the condition true,
`because` contains the conditions of this static rule. `triples` contains the triples of the knowledge that the
condition uses. Each triple has a text, a proof as lines of text, and the proof's `steps` as N-Triples terms. Times are
in ISO 8601 or seconds, durations in seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cep.connectors.records.times import ISO, time_text
from cep.connectors.why import answers, fluents, revised
from cep.core.errors import CepError, Span
from cep.core.identity import identity
from cep.core.literals import say_duration, write_duration
from cep.engine import Engine
from cep.events import Value
from cep.explain.absence import Absence, Back, absence
from cep.explain.derivation import DEEPEST, MOST, derivation
from cep.explain.judging import BoundValues, Fact, Judge, Judged, SupportingTriples, TypedValue
from cep.explain.matching import Failure
from cep.explain.nodes import DerivationNode
from cep.explain.occurrences import Memory, Occurrence
from cep.explain.question import BEGINNING, END, EventQuestion
from cep.explain.refusal import Refusal, fixed_of
from cep.explain.revisions import Revisions
from cep.plan.algebra import Rule
from cep.plan.names import used_variables
from cep.plan.pattern import Pattern
from cep.rules.graph_text import on_one_line
from cep.rules.printing import parameters_named, print_condition, print_expression
from cep.rules.terms import (
    Comparison,
    Condition,
    Constant,
    Disjunction,
    Predicate,
    Variable,
    each_condition,
    rename_condition,
)

RecordFinder = Callable[[Occurrence], tuple[str, int] | None]
"""A function that returns the file and line of an input record, or None if they are unknown."""
LONGEST = 240
"""The maximum number of characters of a graph pattern that an explanation shows."""


def _no_limit() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Explainer:
    """A maker of explanations for the results of an engine that was created with `remember`. Call its methods only
    between two steps of the engine.

    - `facts`: finds the triples that make the solutions of graph patterns true (see `cep.knowledge.provenance`).
    - `origin`: finds the file and line of an input record.
    - `times`: the format of times.
    - `check_limit`: a function that is called repeatedly. It raises an error when the time limit is exceeded.
    - `revisions`: the late, corrected and withdrawn records.
    """

    engine: Engine
    facts: SupportingTriples | None = None
    origin: RecordFinder | None = None
    times: str = ISO
    check_limit: Callable[[], None] = _no_limit
    revisions: Revisions | None = None

    def why(
        self, occurrence: Occurrence, most: int = MOST, depth: int = DEEPEST, instant: int | None = None
    ) -> dict[str, Any]:
        """Explain why an event was derived.

        - `most`, `depth`: the limits on the number of nodes and on the depth of the tree.
        - `instant`: the time of the question, if the explanation depends on it.
        """
        judge = Judge(self.engine, self.facts, None, self.check_limit)
        answer = self.node(derivation(Memory(self.engine), judge, occurrence, most, depth, instant))
        changes = revised.of_event(self, answer["id"])
        return answer | {"changes": changes} if changes else answer

    def why_not(self, wanted: EventQuestion, back: Back = None) -> dict[str, Any]:
        """Explain for each rule why it did not derive an event. If the event was derived, the result says so."""
        judge = Judge(self.engine, self.facts, check_limit=self.check_limit)
        return self.absence(absence(Memory(self.engine), judge, wanted, back))

    # --- nodes ---

    def node(self, node: DerivationNode) -> dict[str, Any]:
        answer = self.occurrence(node.occurrence, node.record)
        if node.rule is not None:
            answer["rule"] = self.rule(node.rule)
            answer["also"] = [self.rule(rule) for rule in node.also]
            answer["variables"] = self.variables(node.bound or {})
            answer["conditions"] = [self.condition(condition) for condition in node.judged]
            answer["absent"] = [
                fluents.absent(self, pattern, node.bound or {}, until) for pattern, until in node.silent
            ]
        answer |= fluents.fluent_keys(self, node)
        if node.answer is not None:
            answer["answer"] = answers.answer(self, node.answer)
        answer["parts"] = [self.node(part) for part in node.parts]
        if node.chain:
            answer["chain"] = [self.node(link) for link in node.chain]
        if node.again:
            answer["again"] = True
        if node.left_out:
            answer["left_out"] = node.left_out
        return {key: value for key, value in answer.items() if value != [] or key == "conditions"}

    def occurrence(self, occurrence: Occurrence, record: bool) -> dict[str, Any]:
        schema = self.engine.plan.schemas[occurrence.event]
        own = zip(schema.attributes, fluents.shown_arguments(schema, occurrence.args).values())
        answer: dict[str, Any] = {
            "event": fluents.name_of(schema),
            "text": self.occurrence_text(occurrence),
            "arguments": {a.name: self.json_value((value, a.type)) for a, value in own},
            **fluents.times(self, occurrence),
            "id": occurrence_id(occurrence, "" if record else self.engine.meanings().get(occurrence.event, "")),
        }
        if record:
            answer["record"] = {}
            if self.origin is not None and (place := self.origin(occurrence)) is not None:
                answer["record"] = {"file": place[0], "line": place[1]}
            answer |= revised.of_record(self, occurrence)
        return answer

    def rule(self, rule: Rule) -> dict[str, Any]:
        return {"name": rule.label} | self.place(rule.span)

    def place(self, span: Span) -> dict[str, Any]:
        """Return the position and text of a span of the program. If the program has several files, the result also has
        `file` and `line_of_file`."""
        source = self.engine.plan.source
        file, line = source.place(span.line)
        own = {"file": file, "line_of_file": line} if source.files else {}
        return {"line": span.line, "column": span.column, "text": self.excerpt(span)} | own

    def variables(self, bound: BoundValues) -> dict[str, Any]:
        own = {name: typed for name, typed in bound.items() if not name.startswith("_") and own_name(name) == name}
        return {name: self.json_value(typed) for name, typed in own.items()}

    def condition(self, judged: Judged) -> dict[str, Any]:
        answer: dict[str, Any] = {"text": condition_text(judged.condition), "holds": judged.holds}
        if judged.sides is not None and isinstance(judged.condition, Comparison):
            operator = judged.condition.operator
            answer["sides"] = [self.json_value(side) for side in judged.sides]
            left, right = (self.value_text(side, people=True) for side in judged.sides)
            answer["told"] = left if operator == "=" and left == right else f"{left} {operator} {right}"
        answer["values"] = {
            own_name(name): self.json_value((v, "any")) for name, v in judged.values.items() if not name.endswith(")")
        }
        if judged.within:
            answer["because"] = [self.condition(inner) for inner in judged.within]
        if judged.facts:
            answer["triples"] = [self.fact(fact) for fact in judged.facts]
        return answer

    def fact(self, fact: Fact) -> dict[str, Any]:
        steps = []
        for step in fact.steps:
            answer: dict[str, Any] = {"triple": list(step.triple), "rule": step.rule}
            steps.append(answer | ({"from": [list(premise) for premise in step.premises]} if step.premises else {}))
        return {"triple": fact.triple, "proof": list(fact.proof), "steps": steps}

    # --- absence ---

    def absence(self, absent: Absence) -> dict[str, Any]:
        wanted = absent.wanted
        answer: dict[str, Any] = {
            "event": wanted.event,
            "asked": self.event_text(wanted.event, wanted.fixed),
            "at": None if wanted.since == BEGINNING else [self.time(wanted.since), self.time(wanted.until)],
            "exists": bool(absent.occurrences),
        }
        if self.engine.plan.schemas[wanted.event].fluent is not None:
            answer["fluent"] = True
        if absent.occurrences:
            memory = Memory(self.engine)
            answer["found"] = [
                self.occurrence(occurrence, memory.is_input(occurrence)) for occurrence in absent.occurrences
            ]
            return answer
        answer["rules"] = [self.refusal(refusal) for refusal in absent.refusals]
        answer["rules"] += [answers.refusal(self, answer) for answer in absent.answers]
        if absent.ended is not None:
            answer["ended"] = fluents.turn(self, absent.ended, "ended")
        return answer | self._around(absent.before, absent.after)

    def _around(self, before: Occurrence | None, after: Occurrence | None) -> dict[str, Any]:
        answer = {}
        if before is not None:
            answer["before"] = self.occurrence(before, False)
        if after is not None:
            answer["after"] = self.occurrence(after, False)
        return answer

    def refusal(self, refusal: Refusal) -> dict[str, Any]:
        attempt, failure = refusal.attempt, refusal.failure
        answer = {
            "rule": self.rule(refusal.rule),
            "since": None if refusal.since == BEGINNING else self.time(refusal.since),
            "failure": {"kind": failure.kind, "told": self.failure_text(refusal)}
            | ({"by": float(failure.by) / 1_000_000} if failure.by else {})
            | ({"occurrence": self.occurrence(failure.occurrence, False)} if failure.occurrence else {})
            | ({"conditions": [self.condition(condition) for condition in failure.judged]} if failure.judged else {})
            | self._around(refusal.before, refusal.after),
            "parts": [self.occurrence(part, False) for part in dict.fromkeys(attempt.parts)],
            "variables": self.variables(attempt.bound),
            "conditions": [self.condition(condition) for condition, _ in attempt.judged],
        }
        if refusal.gaps:
            answer["gaps"] = [fluents.gap(self, gap) for gap in refusal.gaps]
        if refusal.ended is not None:
            answer["ended"] = fluents.turn(self, refusal.ended, "ended")
        if refusal.because:
            answer["because"] = [self.refusal(reason) for reason in refusal.because]
        return answer

    def failure_text(self, refusal: Refusal) -> str:
        """Explain in a sentence why a rule did not derive an event."""
        failure, attempt = refusal.failure, refusal.attempt
        what = "" if failure.pattern is None else self.pattern_text(failure.pattern, attempt.bound)
        match failure.kind:
            case "missing":
                return f"there is no {self.missing_text(failure)}{self._when(refusal)}"
            case "condition":
                conditions = " and ".join(f"`{condition_text(condition.condition)}`" for condition in failure.judged)
                return f"{conditions} {_does(failure)} hold"
            case "relation":
                return f"their times do not fit `{what}`"
            case "deadline":
                within = failure.pattern.within if failure.pattern is not None else None
                bound = "" if within is None else f"WITHIN {write_duration(within)} "
                return f"{bound}is exceeded by {say_duration(failure.by)}"
            case "came":
                subject = "something" if failure.occurrence is None else self.occurrence_text(failure.occurrence)
                when = "" if failure.occurrence is None else f", at {self.time(failure.occurrence.end)}"
                return f"{subject} came{when}"
            case "unheld":
                then = self.time(attempt.end if failure.time is None else failure.time)
                return f"{self.missing_text(failure)} does not hold at {then}"
            case "held":
                subject = "it" if failure.occurrence is None else self.occurrence_text(failure.occurrence)
                return f"{subject} holds at {self.time(attempt.end if failure.time is None else failure.time)}"
            case "over":
                end = 0 if failure.occurrence is None else failure.occurrence.end
                return f"all conditions hold at {self.time(end)}, but the fluent has ended since"
            case "cancelled":
                end = 0 if failure.occurrence is None else failure.occurrence.end
                time = self.time(end)
                return f"it initiates the fluent at {time}, but is then terminated as well, or another value begins"
            case "later":
                begins = self.time(attempt.end)
                return f"all conditions hold at {begins}: the fluent holds from just after that"
            case "waits" | "stopped" | "endless" | "unbegun":
                return fluents.becomes_text(self, refusal)
            case "formula":
                return f"its formula does not hold at {self.time(refusal.moment >> 1)}"
            case "open":
                return f"it is not known yet: its time comes {say_duration(failure.by)} later"
            case "head":
                if failure.arguments is None:
                    return "it derives other values"
                return f"it derives {self.event_text(refusal.rule.event, dict(enumerate(failure.arguments)))}"
            case "whole":
                return "all conditions hold: the reason is not known"
            case "apart":
                early = say_duration(failure.by)
                return f"this match had ended {early} before the time asked for; all other conditions hold"
            case _:
                assert failure.kind == "policy", "all kinds have a sentence"
                return "all conditions hold, but its policy chose another partner"

    def missing_text(self, failure: Failure) -> str:
        pattern = failure.pattern
        event = None if pattern is None else pattern.properties().event
        if pattern is None or event is None:
            return f"`{'' if pattern is None else self.pattern_text(pattern, {})}`"
        return self.event_text(event, fixed_of(pattern, failure.values), _twice(pattern))

    def _when(self, refusal: Refusal) -> str:
        if refusal.since == BEGINNING:
            return ""
        return f" since {self.time(refusal.since)}"

    # --- words ---

    def event_text(self, event: str, fixed: Mapping[int, Value], names: Mapping[int, str] | None = None) -> str:
        """Return an event as text, such as `warning("EWR", _)`.

        `fixed`: known values of its arguments, by position. `names`: names of variables for the others, by position.
        """
        schema = self.engine.plan.schemas[event]
        told = {} if names is None else names
        arguments = [
            self.value_text((fixed[i], a.type)) if i in fixed else told.get(i, "_")
            for i, a in enumerate(schema.attributes)
        ]
        if schema.fluent is not None:
            return fluents.fluent_text(schema, arguments, fixed.get(len(arguments) - 1))
        return f"{event}({', '.join(arguments)})" if arguments else event

    def occurrence_text(self, occurrence: Occurrence) -> str:
        return self.event_text(occurrence.event, dict(enumerate(occurrence.args)))

    def pattern_text(self, pattern: Pattern, bound: BoundValues) -> str:
        """Return a pattern as the author wrote it. A single event is written with the known values of its arguments."""
        parts = pattern.properties().parts
        if len(parts) == 1 and parts[0].span == pattern.span:  # the text is an event alone
            return self.pattern_text(parts[0], bound)
        event = pattern.properties().event
        if event is None:
            return self.excerpt(pattern.span)
        fixed = fixed_of(pattern, {name: value for name, (value, _) in bound.items()})
        return self.event_text(event, fixed, _twice(pattern))

    def excerpt(self, span: Span) -> str:
        """Return the text of a span on one line, without comment lines."""
        source = self.engine.plan.source
        lines = [source.line(number) for number in range(span.line, span.end_line + 1)]
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        return " ".join(line.strip() for line in lines if not line.lstrip().startswith(("#", "%")))

    def time(self, ticks: int) -> Any:
        text = time_text(ticks, self.times)
        if self.times == ISO:
            return text
        return float(text) if "." in text else int(text)

    def json_value(self, typed: TypedValue) -> Any:
        value, type = typed
        if value is None or isinstance(value, str | bool):
            return None if value is None else value if isinstance(value, bool) else str(value)
        if type == "time":
            return self.time(int(value))
        return float(value) / 1_000_000 if type == "duration" else value

    def value_text(self, typed: TypedValue, people: bool = False) -> str:
        """Return a value as a program writes it. `people`: True to write durations in a readable form."""
        value, type = typed
        if value is None:
            return "nothing"
        if type == "time":
            return str(self.time(int(value)))
        if type == "duration":
            return say_duration(int(value)) if people else write_duration(int(value))
        if isinstance(value, float):
            return f"{value:.6g}"
        kind = "iri" if type == "iri" else {bool: "bool", int: "int", str: "string"}.get(value.__class__, "iri")
        return print_expression(Constant(value, kind))


def occurrence_id(occurrence: Occurrence, meaning: str) -> str:
    """Return the `@id` of an occurrence, which is the same as in RDF output.

    `meaning`: the fingerprint of the event's definition, or "" for an input record. Equal records have the same id.
    """
    text = f"{json.dumps(occurrence.event)} {json.dumps([*fluents.identity_times(occurrence), *occurrence.args])}"
    return identity(text, meaning, occurrence.number if meaning else 0)


def by_id(
    engine: Engine,
    id: str,
    event: str | None = None,
    end: int | None = None,
    cuts: Mapping[str, int] | None = None,
) -> Occurrence:
    """Return the derived event whose `@id` is `id`. The prefix `@` may be left out.

    `event`, `end`: the event's name and end time, which make the search faster. `cuts`: for each fluent, the time
    before which its intervals are cut off. Raises CepError if there is no such event.
    """
    memory = Memory(engine)
    since, until = (BEGINNING, END) if end is None else (end, end)
    for name in engine.outputs if event is None else [event]:
        if memory.fluents.knows(name):  # the interval may have ended since
            since, until = BEGINNING, END
        for occurrence in memory.find(name, {}, since, until):
            known = cut(occurrence, (cuts or {}).get(name))
            if occurrence_id(known, engine.meanings()[name]) == id.removeprefix("@") and not memory.is_input(
                occurrence
            ):
                return occurrence
    hint = "the id is from another program, another input, or an event that is no longer kept"
    raise CepError(f"no derived event has the id `{id.removeprefix('@')}`", hint=hint, code="option")


def cut(occurrence: Occurrence, time: int | None) -> Occurrence:
    """Return an interval without the part that lies before `time`."""
    return (
        occurrence
        if time is None or occurrence.start >= time
        else replace(occurrence, start=time, end=max(occurrence.end, time))
    )


def why(engine: Engine, event: str | None, id: str, facts: SupportingTriples | None = None) -> dict[str, Any]:
    """Explain why the event that has an `@id` was derived.

    The engine must have been created with `remember`, and must not be in the middle of a step.
    """
    return Explainer(engine, facts).why(by_id(engine, id, event))


def _twice(pattern: Pattern) -> dict[int, str]:
    names = [argument.name if isinstance(argument, Variable) else "_" for argument in pattern.properties().arguments]
    return {place: own_name(name) for place, name in enumerate(names) if name[0] != "_" and names.count(name) > 1}


def own_name(name: str) -> str:
    """Return the name that a variable has in the program. The plan renames variables of repeated patterns."""
    return name.partition("'")[0]


def condition_text(condition: Condition) -> str:
    """Return a condition as text on one line."""
    condition = rename_condition(
        condition, {variable.name: own_name(variable.name) for variable in used_variables([condition])}
    )
    condition = parameters_named(condition)
    if isinstance(condition, Predicate) and condition.graph is not None:
        text = on_one_line(condition.graph.text, longest=LONGEST)
        return f"not {text}" if condition.negated else text
    if isinstance(condition, Disjunction):
        written = [", ".join(map(condition_text, inside)) for inside in condition.alternatives]
        return print_condition(condition) if _plain(condition) else f"({' or '.join(written)})"
    return print_condition(condition)


def _plain(condition: Disjunction) -> bool:
    return not any(isinstance(inner, Predicate) and inner.graph is not None for inner in each_condition([condition]))


def _does(failure: Failure) -> str:
    return "does not" if len(failure.judged) == 1 else "do not"

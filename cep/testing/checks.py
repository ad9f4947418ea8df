"""Compare a test's expectations with the derived results, and explain the differences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cep.connectors.alerts.lifecycle import AlertChange
from cep.connectors.records.times import ISO, time_text
from cep.connectors.why.lines import refusals, tree
from cep.connectors.why.text import Explainer
from cep.core.errors import CepError, Mistakes, mistakes_together
from cep.core.fluents import HOLDS
from cep.core.literals import write_duration
from cep.core.schema import Attribute, Schema
from cep.core.suggest import did_you_mean
from cep.diff.reasons import why
from cep.diff.rows import FIRST, Row, sorted_rows
from cep.events import Value as EventValue
from cep.explain.question import BEGINNING, END, EventQuestion
from cep.explain.revisions import InputRevisions
from cep.testing.matching import Matched, ValueReader, Wanted, match, nearest
from cep.testing.rule_files import AlertCheck, Expectation, RuleTest
from cep.testing.runs import Outcome, Prepared
from cep.testing.yaml_tree import Value

ALWAYS = 2**62
"""A duration in microseconds that is longer than any input."""
LINES = 40
"""The greatest number of lines of an explanation that are shown."""
MOST = 10
"""The greatest number of unexpected events that are shown per event type."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A difference between a test's expectations and the derived results.

    - `place`: the place of the expectation in the test file.
    - `message`: the difference in one line.
    - `details`: further lines, such as an explanation.
    """

    place: Value
    message: str
    details: tuple[str, ...] = ()


@dataclass(slots=True)
class Result:
    """The result of a test.

    `laws`: the number of runs under a law (see `cep.testing.laws`) that had the same result as the run without laws.
    """

    test: RuleTest
    failures: list[Failure] = field(default_factory=list)
    laws: int = 0

    @property
    def passed(self) -> bool:
        return not self.failures


class Checker:
    """An object that compares a run's results with the expectations of a test.

    Raises CepError if an expectation names an event, fluent, alert or attribute that the program does not have.
    """

    def __init__(self, prepared: Prepared) -> None:
        self.prepared, self.test = prepared, prepared.test
        self.engine = prepared.engine()
        self.times = prepared.records.origins.times or ISO
        self.reader = ValueReader(self.engine.written.prefixes, prepared.records.unit, self.test.tolerance)
        self.events = {name: schema for name, schema in self.engine.outputs.items() if schema.fluent is None}
        self.fluents = {
            name: schema
            for name, schema in self.engine.outputs.items()
            if schema.fluent is not None and schema.fluent.part == HOLDS
        }
        self._expected: list[tuple[Value, list[Wanted]]] = []
        self._held: list[tuple[Value, list[Wanted]]] = []
        self._alerts: list[tuple[AlertCheck, int, list[Wanted]]] = []
        with mistakes_together() as wrong:
            for name in self.test.expected_types:
                with wrong.kept():
                    own = [expectation for expectation in self.test.expect if expectation.type == name.text]
                    self._expected.append((name, self._wanted(own, self.reader.event, self._schema(name))))
            for name in self.test.none:
                with wrong.kept():
                    self._schema(name)
            for name in self.test.held_types:
                with wrong.kept():
                    own = [held_check for held_check in self.test.holds if held_check.name is name]
                    self._held.append((name, self._wanted(own, self.reader.interval, self._fluent(name))))
            for check in self.test.alerts:
                with wrong.kept():
                    self._alerts.append((check, self._time(check.time), self._wanted_alerts(check)))

    def check(self, outcome: Outcome) -> list[Failure]:
        """Return the differences between the expectations of the test and the results of a run."""
        failures: list[Failure] = []
        for name, wanted in self._expected:
            failures += self._compare(name, wanted, self._rows(outcome, name), self.test.at_least)
        for name in self.test.none:
            rows = self._rows(outcome, name)
            failures += [self._unexpected(name, row, "it must not occur") for row in rows[:MOST]]
        for name, wanted in self._held:
            failures += self._compare(name, wanted, self._rows(outcome, name), False)
        failures += self._check_alerts(outcome)
        if len(outcome.dead) != self.test.dead:
            failures.append(self._dead(outcome))
        return failures

    def passes(self, outcome: Outcome) -> bool:
        """Return True if the results of a run satisfy all expectations of the test.

        This is faster than `check`, which also explains the failures.
        """
        for name, wanted in (*self._expected, *self._held):
            matched = match(wanted, self._rows(outcome, name))
            if matched.missing or (matched.unexpected and not self.allows_more(name)):
                return False
        if any(self._rows(outcome, name) for name in self.test.none) or len(outcome.dead) != self.test.dead:
            return False
        return not any(True for _ in self._check_alerts(outcome))

    def differs(self, outcome: Outcome, name: Value) -> bool:
        """Return True if the derived rows of an expected event or fluent differ from the rows that the test lists."""
        matched = self.remainder(outcome, name)
        return bool(matched.missing or (matched.unexpected and not self.allows_more(name)))

    def wanted(self, name: Value) -> list[Wanted]:
        """Return the expectations of an event or fluent, in the order of the file."""
        return next(own for check_name, own in (*self._expected, *self._held) if check_name is name)

    def remainder(self, outcome: Outcome, name: Value) -> Matched:
        """Return the expectations of an event or fluent that no derived row satisfies, and the derived rows that no
        expectation matches."""
        return match(self.wanted(name), self._rows(outcome, name))

    def allows_more(self, name: Value) -> bool:
        return self.test.at_least and name.text in self.events

    # --- events and fluents ---

    @staticmethod
    def _wanted(
        own: Sequence[Expectation], read: Callable[[Expectation, Schema], Wanted], schema: Schema
    ) -> list[Wanted]:
        wanted: list[Wanted] = []
        with mistakes_together() as wrong:
            for expectation in own:
                with wrong.kept():
                    wanted.append(read(expectation, schema))
        return wanted

    def _schema(self, name: Value) -> Schema:
        word = name.word("the name of an event")
        if word in self.fluents:
            name.fail(f"`{word}` is a fluent, not an event", f"use `holds: {{{word}: [...]}}`")
        if word not in self.events:
            self._unknown(name, word, "event", self.events)
        return self.events[word]

    def _fluent(self, name: Value) -> Schema:
        word = name.word("the name of a fluent")
        if word in self.events:
            name.fail(f"`{word}` is an event, not a fluent", f"use `expect: [{{{word}: ...}}]`")
        if word not in self.fluents:
            self._unknown(name, word, "fluent", self.fluents)
        return self.fluents[word]

    def _unknown(self, name: Value, word: str, kind: str, known: Mapping[str, Schema]) -> None:
        listed = ", ".join(f"`{known_name}`" for known_name in known) or "none"
        hint = did_you_mean(word, list(known)) or f"it derives {listed}"
        if word in self.engine.inputs:
            hint = f"it reads `{word}`; it derives {listed}"
        name.fail(f"the program derives no {kind} `{word}`", hint)

    def _rows(self, outcome: Outcome, name: Value) -> list[Row]:
        return sorted_rows(outcome.rows[name.word("a name")]) if name.text in outcome.rows else []

    def _compare(self, name: Value, wanted: Sequence[Wanted], rows: list[Row], more: bool) -> Iterator[Failure]:
        matched = match(wanted, rows)
        free = list(matched.unexpected)
        for missed in matched.missing:
            near = nearest(missed, free)
            if near is not None:
                free.remove(near)  # it is shown with the nearest expectation
            yield self._missing(missed, near or nearest(missed, rows))
        if not more:
            for row in free[:MOST]:
                yield self._unexpected(name, row, "no expectation matches it")
            if (rest := len(free) - MOST) > 0:
                yield Failure(name, f"{rest} more of `{name.text}` that no expectation matches")

    def _missing(self, wanted: Wanted, near: Row | None) -> Failure:
        expectation = wanted.expectation
        assert expectation is not None, "it was read from a file"
        name = expectation.type
        schema = self.engine.outputs[name]
        details = [f"expected {name} {self._values(wanted, schema)}"]
        if near is not None:
            details += [f"nearest  {name} {self.row_text(near, schema)}", *self._differences(wanted, near, schema)]
        return Failure(expectation.place, f"there is no such `{name}`", (*details, *self._why_not(wanted, schema)))

    def _unexpected(self, name: Value, row: Row, why: str) -> Failure:
        word = name.word("a name")
        details = (f"derived  {word} {self.row_text(row, self.engine.outputs[word])}", *self._why(word, row))
        return Failure(name, f"`{word}` is derived, and {why}", details)

    # --- explanations ---

    @cached_property
    def explainer(self) -> Explainer:
        """An explainer of the program's results. It runs the program again, with an engine that remembers all
        occurrences."""
        prepared, records = self.prepared, self.prepared.records
        engine = prepared.engine(remember=ALWAYS, corrected=True)
        engine.advance_only()
        tables = records.batch(np.arange(len(records)))
        revisions = None
        if prepared.revise is not None or any(schema.key is not None for schema in engine.inputs.values()):
            first = prepared.engine(explain=True)
            revisions = InputRevisions(first)
            for piece in revisions.pieces(tables):
                first.receive(piece)
                derived = first.advance(first.reached)
                revisions.take({name: table for name, table in derived.items() if name in first.outputs})
            tables = revisions.corrected()
        engine.receive(tables)
        if prepared.until is None:
            engine.close()
        else:
            engine.advance(prepared.until)
        facts = None
        if prepared.source.known is not None:
            from cep.knowledge.provenance import Provenance
            from cep.knowledge.report import prefixes

            facts = Provenance(prepared.source.known, prefixes(prepared.knowledge))
        return Explainer(engine, facts, records.origins, self.times, revisions=revisions)

    def _why(self, name: str, row: Row) -> list[str]:
        explained = why(self.explainer, name, row)
        return [] if explained is None else _cut(["why", *(f"  {line}" for line in tree(explained, 72))])

    def _why_not(self, wanted: Wanted, schema: Schema) -> list[str]:
        fixed = {
            place - FIRST: value
            for place, value in wanted.values.items()
            if FIRST <= place < FIRST + len(schema.attributes) and value is not None
        }
        since, until = BEGINNING, END
        if isinstance(end := wanted.values.get(1), int):
            since = until = end
        elif isinstance(start := wanted.values.get(0), int):
            since = until = start
        answer = self.explainer.why_not(EventQuestion(schema.name, fixed, since, until))
        if answer["exists"]:  # it exists at another time, which the nearest row shows
            return []
        lines = _cut(["why not", *(f"  {line}" for line in refusals(answer, 72))])
        if self.prepared.until is not None and any(rule["failure"]["kind"] == "whole" for rule in answer["rules"]):
            stops = time_text(self.prepared.until, self.times)
            lines.append(f"time stops at {stops}, before it is known: `until: end` lets every deadline pass")
        return lines

    # --- alerts ---

    def _time(self, instant: Value) -> int:
        time = instant.read(self.reader.time, "a time, e.g. `2024-05-01 08:45`")
        if self.prepared.until is not None and time > self.prepared.until:
            until = time_text(self.prepared.until, self.times)
            instant.fail(f"the test ends before that, at {until}", f"use `until: {instant.text}`")
        return time

    def _wanted_alerts(self, check: AlertCheck) -> list[Wanted]:
        alerts = {alert.name: alert for alert in self.prepared.program.alerts}
        wanted = []
        for expectation in check.expected:
            word = expectation.name.word("the name of an alert")
            if word not in alerts:
                listed = ", ".join(f"`{name}`" for name in alerts) or "none"
                hint = did_you_mean(word, list(alerts)) or f"its alerts are {listed}"
                expectation.name.fail(f"the program has no alert `{word}`", hint)
            wanted.append(self.reader.event(expectation, self._alert_schema(word)))
        return wanted

    def _alert_schema(self, name: str) -> Schema:
        alert = next(alert for alert in self.prepared.program.alerts if alert.name == name)
        schema = self.engine.plan.schemas[alert.table]
        own = tuple(attribute for attribute in schema.attributes if not attribute.name.startswith("the "))
        names = {attribute.name for attribute in own}
        texts = tuple(Attribute(key, "string") for key in ("severity", "title", "text") if key not in names)
        return Schema(name, (*own, *texts), True, False)

    def _check_alerts(self, outcome: Outcome) -> Iterator[Failure]:
        if not self._alerts:
            return
        latest = max(time for _, time, _ in self._alerts)
        changes = self.prepared.alerts(outcome, latest)
        for check, time, wanted in self._alerts:
            rows = self._alert_rows(changes, time, check.state)
            for name in dict.fromkeys([*(alert.expectation.type for alert in wanted if alert.expectation), *rows]):
                own = [alert for alert in wanted if alert.expectation is not None and alert.expectation.type == name]
                matched = match(own, rows.get(name, []))
                schema = self._alert_schema(name)
                instant = f"at {time_text(time, self.times)}"
                for missed in matched.missing:
                    assert missed.expectation is not None, "it was read from a file"
                    details = [f"expected {name} {self._values(missed, schema)}"]
                    if (near := nearest(missed, matched.unexpected)) is not None:
                        details += [f"nearest  {name} {self.row_text(near, schema)}"]
                    told = f"no such alert `{name}` is {check.state} {instant}"
                    yield Failure(missed.expectation.place, told, tuple(details))
                for row in matched.unexpected:
                    told = f"the alert `{name}` is {check.state} {instant}, and no expectation matches it"
                    yield Failure(check.place, told, (f"{check.state:8} {name} {self.row_text(row, schema)}",))

    def _alert_rows(self, changes: Sequence[AlertChange], time: int, state: str) -> dict[str, list[Row]]:
        last: dict[str, AlertChange] = {}
        for change in changes:
            if change.time <= time:
                last[change.alert] = change
        rows_by_alert: dict[str, list[Row]] = {}
        for change in last.values():
            if alert_state(change) == state:
                schema = self._alert_schema(change.name)
                texts = {"severity": change.severity, "title": change.title, "text": change.text}
                values = {**texts, **change.values}
                row = (change.start, change.end, *(values.get(attribute.name) for attribute in schema.attributes))
                rows_by_alert.setdefault(change.name, []).append(row)
        return rows_by_alert

    # --- texts ---

    def _dead(self, outcome: Outcome) -> Failure:
        number = len(outcome.dead)
        records = "1 record is a dead letter" if number == 1 else f"{number} records are dead letters"
        details = [
            f"{'' if dead.file is None else f'{dead.file}:{dead.line}: '}{dead.reason}" for dead in outcome.dead[:MOST]
        ]
        return Failure(self.test.place, f"{records}, expected {self.test.dead}", tuple(details))

    def _differences(self, wanted: Wanted, row: Row, schema: Schema) -> list[str]:
        names = self._names(schema)
        differences = []
        for place, value in wanted.values.items():
            if not Wanted(None, {place: value}, wanted.tolerance).matches(row):
                told, own = (self._text(cell, place, schema) for cell in (row[place], value))
                differences.append(f"{names[place]} is {told}, expected {own}")
        return differences

    def _names(self, schema: Schema) -> list[str]:
        times = ["start", "end"] if schema.fluent is None else ["from", "until"]
        return [*times, *(attribute.name for attribute in schema.attributes), "bounds"]

    def _values(self, wanted: Wanted, schema: Schema) -> str:
        names = self._names(schema)
        order = sorted(wanted.values, key=lambda place: (place < FIRST, place))
        return f"{{{', '.join(f'{names[i]}: {self._text(wanted.values[i], i, schema)}' for i in order)}}}"

    def row_text(self, row: Row, schema: Schema, named: Collection[str] = ()) -> str:
        """Return a row as text, in the form in which test files write expectations.

        `named`: the names of the attributes to write, in the order of the text. If it is empty, all are written.
        """
        names = self._names(schema)
        if named:
            by_name = {"time": [0, 1], **{name: [place] for place, name in enumerate(names)}}
            if row[0] == row[1]:
                by_name["time"], names = [0], ["time" if "time" in named else names[0], *names[1:]]
            wanted = [place for name in named for place in by_name[name]]
            return f"{{{', '.join(f'{names[i]}: {self._text(row[i], i, schema)}' for i in wanted)}}}"
        places = [*range(FIRST, FIRST + len(schema.attributes)), 0, 1]
        if row[0] == row[1] and schema.fluent is None and "time" not in names:
            places[-2:], names = [0], ["time", *names[1:]]
        return f"{{{', '.join(f'{names[place]}: {self._text(row[place], place, schema)}' for place in places)}}}"

    def _text(self, value: EventValue, place: int, schema: Schema) -> str:
        if value is None:
            return "null"
        kind = "time" if place < FIRST else "string"
        if FIRST <= place < FIRST + len(schema.attributes):
            kind = schema.attributes[place - FIRST].type
        if kind == "time" and isinstance(value, int):
            return time_text(value, self.times)
        if kind == "duration" and isinstance(value, int):
            return write_duration(value)
        if kind == "iri":
            return f"<{value}>"
        if isinstance(value, bool):
            return str(value).lower()
        return _quoted(value) if isinstance(value, str) else repr(value)


def alert_state(change: AlertChange) -> str | None:
    """Return the state of an alert after a change, as it is called in test files.

    Returns None if the alert never fired, or if it is hidden from receivers.
    """
    if change.hidden or (change.state == "resolved" and change.fired is None):
        return None
    if change.state == "resolved":
        return "resolved"
    if change.fired is None:
        return "pending"
    return "inhibited" if change.inhibited else "firing"


def _quoted(text: str) -> str:
    """Return a text as a YAML scalar. It is quoted if YAML would read the unquoted text as another value."""
    from cep.testing.yaml_tree import read_yaml

    plain = (
        text and text == text.strip() and not any(mark in text for mark in ",[]{}#&*!|>%@`\"'\n\t") and ": " not in text
    )
    if plain:
        try:
            plain = read_yaml(f"a: {text}", "", Mistakes()).entries("a mapping")["a"][1].scalar == text
        except CepError:
            plain = False
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _cut(lines: list[str]) -> list[str]:
    return (
        lines
        if len(lines) <= LINES
        else [*lines[:LINES], f"  {len(lines) - LINES} more lines: `cep explain` shows all"]
    )

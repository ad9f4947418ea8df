"""Alerts: each is lowered to a rule that makes its occurrences, so that it is checked, typed and run like others."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from cep.core.errors import CepError, Source, Span
from cep.core.schema import Attribute, Schema
from cep.core.suggest import did_you_mean
from cep.language.syntax.ast import AlertStatement
from cep.plan.algebra import Atom, Given, Pattern, Rule, Rules
from cep.plan.names import used_variables
from cep.rules.alert import AREA, CATEGORY, CERTAINTY, LATITUDE, LONGITUDE, RADIUS, SEVERITY, URGENCY, Alert, Template
from cep.rules.terms import (
    Comparison,
    Condition,
    Constant,
    Expression,
    Variable,
    condition_variables,
    expression_variables,
)
from cep.rules.typed import a

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_VARIABLE = re.compile(r"[^\W\d]\w*")
_NUMBERS = ("int", "float", "any")
_PLACES = {LATITUDE: ("a latitude is a number of degrees", _NUMBERS),
           LONGITUDE: ("a longitude is a number of degrees", _NUMBERS),
           RADIUS: ("a radius is a number of metres", _NUMBERS),
           AREA: ('an area is a text in WKT, `"POLYGON((...))"`', ("string", "any"))}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Alerting:
    """An alert, the rule that makes its occurrences, and their schema."""

    alert: Alert
    rule: Rule
    schema: Schema


def alert_variables(statement: AlertStatement) -> list[str]:
    """The variables of conditions, templates, key and place, with repetitions."""
    found = [name for condition in statement.conditions for name in condition_variables(condition)]
    for template in (statement.title, statement.text, statement.instruction):
        found += [] if template is None else [name for name in _PIECE.findall(str(template.value)) if name]
    places = [each for each in (*statement.at, statement.radius, statement.area) if each is not None]
    return found + [each.name for each in statement.keys] + [n for each in places for n in expression_variables(each)]


def alerting(
    statement: AlertStatement, atom: Atom, conditions: tuple[Condition, ...], event: Schema, source: Source
) -> tuple[Alerting, list[CepError]]:
    """Lower an alert on `atom`; its mistakes with their places.

    The rule's head has the event's arguments, then the other variables that are spoken of, then the place.
    """
    own, head = _named(atom, event)
    atom = replace(atom, arguments=tuple(head))
    bound = {each.name: name for name, each in zip(own, head) if isinstance(each, Variable)}
    given = [name for condition in conditions for name in condition_variables(condition) if _binds(condition)]
    reader = _Reader(statement, {**{name: name for name in given}, **bound}, source)
    title, text, instruction = map(reader.template, (statement.title, statement.text, statement.instruction))
    keys = [reader.column(each, "the key") for each in statement.keys]
    places = {}
    for column, value in zip(
        (LATITUDE, LONGITUDE, RADIUS, AREA), (*(statement.at or (None, None)), statement.radius, statement.area)
    ):
        if value is not None:
            for variable in used_variables([value]):
                reader.column(variable, "the place")
            places[column] = value
    others = [name for name in reader.used if name not in bound]
    body: Pattern = Given(atom, conditions, None, statement.span) if conditions else atom
    table = f"alert {statement.name}"
    columns = [*own, *others, *places]
    rule = Rule(
        table,
        (*head, *(Variable(name, reader.used[name]) for name in others), *places.values()),
        body,
        None,
        statement.span,
        statement.event.span,
    )
    schema = Schema(table, tuple(Attribute(name, "unknown", True) for name in columns), False, False)
    alert = Alert(
        statement.name,
        event.name,
        table,
        tuple(own),
        tuple(keys),
        title,
        text,
        instruction,
        statement.severity or SEVERITY,
        statement.urgency or URGENCY,
        statement.certainty or CERTAINTY,
        statement.category or CATEGORY,
        statement.duration,
    )
    return Alerting(alert, rule, schema), reader.errors


def ill_placed(alerts: Sequence[Alert], rules: Sequence[Rule], schemas: Mapping[str, Schema],
               source: Source) -> list[CepError]:  # fmt: skip
    """Places of alerts whose values are no numbers, or no text, once the types are known."""
    found = []
    for rule in rules:
        if rule.event not in {alert.table for alert in alerts} or rule.event not in schemas:
            continue
        for attribute, value in zip(schemas[rule.event].attributes, rule.arguments):
            said, types = _PLACES.get(attribute.name, ("", ()))
            if said and (wrong_place := _ill(attribute.name, value)):
                found.append(CepError(wrong_place[0], source, value.span, wrong_place[1], "area"))
                continue
            if said and attribute.type not in (*types, "unknown"):
                wrong = f"{said}, this is {a(attribute.type)}"
                hint = "e.g. `AREA Shape`" if attribute.name == AREA else "e.g. `AT Lat, Long RADIUS 40000`"
                found.append(CepError(wrong, source, value.span, hint, "type"))
    return found


def _ill(column: str, value: Expression) -> tuple[str, str | None] | None:
    """Why a constant can be no place on earth, and what can; None where it can, and where it is known only later."""
    if not isinstance(value, Constant):
        return None
    given = value.value
    if column == AREA and value.type == "string":
        from cep.rules.areas import WrongArea, read  # shapely: loaded only where there are areas

        try:
            shape = read(str(given))
        except WrongArea as wrong:
            return str(wrong), wrong.hint
        if not shape.convex_hull.area:
            return "an area has an inside", "a place with a circle around it is `AT Lat, Long RADIUS 40000`"
    if column == AREA or not isinstance(given, int | float) or isinstance(given, bool):
        return None
    if column == LATITUDE and abs(given) > 90:
        return "a latitude lies from -90 to 90 degrees", "latitude first: `AT 40.7, -74.2`"
    if column == LONGITUDE and abs(given) > 720:
        return "a longitude lies beyond 720 degrees", "a place has one from -180 to 180"
    if column == RADIUS and given < 0:
        return "a radius is not negative", "in metres: `RADIUS 40000`"
    return None


def without_alerts(rules: Rules) -> Rules:
    """The program without what makes the occurrences of alerts."""
    tables = {alert.table for alert in rules.alerts}
    return replace(
        rules,
        schemas={name: schema for name, schema in rules.schemas.items() if name not in tables},
        rules=tuple(rule for rule in rules.rules if rule.event not in tables),
        alerts=(),
    )


def _named(atom: Atom, event: Schema) -> tuple[list[str], list[Variable | Constant]]:
    """The columns of the event's arguments, and these with a name for what had none."""
    own = [attribute.name for attribute in event.attributes]
    return own, [
        Variable(f"{name}'", each.span) if isinstance(each, Variable) and each.name == "_" else each
        for name, each in zip(own, atom.arguments)
    ]


def _binds(condition: Condition) -> bool:
    """Whether a condition may give values to its variables; that it does is checked with the rule."""
    return condition.operator == "=" if isinstance(condition, Comparison) else not condition.negated


class _Reader:
    """What an alert speaks of: `used` variables with the first place of each; `known`: their columns."""

    def __init__(self, statement: AlertStatement, known: Mapping[str, str], source: Source) -> None:
        self.statement = statement
        self.known = known
        self.source = source
        self.used: dict[str, Span] = {}
        self.errors: list[CepError] = []

    def error(self, message: str, span: Span, hint: str) -> None:
        self.errors.append(CepError(message, self.source, span, hint, "unsafe"))

    def column(self, variable: Variable, place: str) -> str:
        name = variable.name
        if name not in self.known and name not in self.used:
            wrong = "`_` has no value" if name == "_" else f"`{name}` of {place} is not bound by the event"
            self.error(wrong, variable.span, _close(name, self.known, self.statement.event.name))
        self.used.setdefault(name, variable.span)
        return self.known.get(name, name)

    def template(self, constant: Constant | None) -> Template:
        """`Blizzard at {S}`; `{{` and `}}` are braces."""
        if constant is None:
            return ()
        text = str(constant.value)
        pieces: list[str | tuple[str]] = []
        at = 0
        for match in _PIECE.finditer(text):
            pieces.append(text[at : match.start()])
            at = match.end()
            name = match[1]
            if match[0] in ("{{", "}}"):
                pieces.append(match[0][0])
            elif name is not None and _VARIABLE.fullmatch(name) and (name[0] == "_" or name[0].isupper()):
                pieces.append((self.column(Variable(name, self.span(constant, match.span())), "the text"),))
            else:
                self.error(*self.ill(match[0], constant, match.span()))
        pieces.append(text[at:])
        return tuple(piece for piece in pieces if piece)

    def ill(self, written: str, constant: Constant, place: tuple[int, int]) -> tuple[str, Span, str]:
        """What is wrong with braces in a text."""
        span = self.span(constant, place)
        if len(written) == 1:
            return f"this `{written}` stands alone", span, f"a value is `{{S}}`, a brace itself `{written}{written}`"
        name = written[1:-1].strip()
        if _VARIABLE.fullmatch(name):
            return f"`{written}` holds no variable", span, f"`{{{name[0].upper()}{name[1:]}}}`"
        hint = "bind it in a WHERE: `WHERE X = ...`, and write `{X}`" if name else "a value is `{S}`"
        return f"`{written}` holds no variable", span, hint

    def span(self, constant: Constant, place: tuple[int, int]) -> Span:
        """Where a piece of a string is written; the whole string where escapes move it."""
        span = constant.span
        line = self.source.line(span.line)[span.column - 1 : span.end_column - 1]
        if "\\" in line:
            return span
        return Span(span.line, span.column + 1 + place[0], span.line, span.column + 1 + place[1])


def _close(name: str, known: Collection[str], event: str) -> str:
    written = sorted(each for each in known if "'" not in each)
    return did_you_mean(name, written) or f"name it in the event, `ON {event}(...)`, or bind it: `WHERE {name} = ...`"

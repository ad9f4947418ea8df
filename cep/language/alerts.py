"""Lowering of alerts. Each alert becomes a rule that derives its occurrences, so it is checked, typed and run like
other rules."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cep.core.errors import CepError, Source, Span
from cep.core.fluents import BEFORE, HELD, WHOLE
from cep.core.schema import Attribute, Schema
from cep.core.suggest import did_you_mean
from cep.language.syntax.ast import AlertStatement
from cep.operators.event import Atom
from cep.operators.where import SelectPattern
from cep.plan.algebra import Rule
from cep.plan.names import used_variables
from cep.plan.pattern import Pattern
from cep.rules.alert import (
    AREA,
    CATEGORY,
    CERTAINTY,
    EXPECTED,
    LATITUDE,
    LONGITUDE,
    RADIUS,
    SEVERITIES,
    SEVERITY,
    TAKEN,
    URGENCY,
    Alert,
    Inhibitor,
    Template,
)
from cep.rules.terms import (
    Comparison,
    Condition,
    Constant,
    Disjunction,
    Expression,
    Variable,
    condition_variables,
    expression_variables,
)

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_VARIABLE = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Alerting:
    """An alert, the rules that derive its occurrences, and the schema of these occurrences.

    `ends`: for an alert on a fluent, the schema of the event `Alert.ends`. `key`: for each KEYED BY variable of the
    alert, the name of the column that contains it.
    """

    alert: Alert
    rules: tuple[Rule, ...]
    schema: Schema
    ends: Schema | None = None
    key: Mapping[str, str] = field(default_factory=dict)


def alert_variables(statement: AlertStatement) -> list[str]:
    """Return the names of all variables that an alert statement uses: in its conditions, texts, labels, key and
    position.

    A variable can occur several times.
    """
    names = [name for condition in statement.conditions for name in condition_variables(condition)]
    for template in (statement.title, statement.text, statement.instruction, statement.runbook):
        names += [] if template is None else [name for name in _PIECE.findall(str(template.value)) if name]
    places = [place for place in (*statement.position, statement.radius, statement.area) if place is not None]
    names += [value.name for _, value in statement.labels if isinstance(value, Variable)]
    return names + [key.name for key in statement.keys] + [n for place in places for n in expression_variables(place)]


def alerting(
    statement: AlertStatement, atom: Atom, conditions: tuple[Condition, ...], event: Schema, source: Source
) -> tuple[Alerting, list[CepError]]:
    """Lower an alert on the event that `atom` matches. Return the lowered alert, and an error for each mistake in the
    statement.

    The columns of the alert's rule are the event's arguments, then the other variables that the alert uses, then the
    alert's position on the map.
    """
    lowered, errors = _alerting(statement, atom, conditions, event, source, False)
    if statement.duration is None:
        hint = "add `FOR 3 h`: the alert ends that long after its last occurrence"
        errors.append(
            CepError(f"the alert `{statement.name}` has no duration", source, statement.name_span, hint, "syntax")
        )
    if "KEEP" in statement.clauses:
        hint = "make `FOR` longer: an alert on an event lasts that long after its last occurrence"
        errors.append(
            CepError("only alerts on fluents can have `KEEP`", source, statement.clauses["KEEP"], hint, "syntax")
        )
    return lowered, errors


def _alerting(
    statement: AlertStatement,
    atom: Atom,
    conditions: tuple[Condition, ...],
    event: Schema,
    source: Source,
    whole: bool,
) -> tuple[Alerting, list[CepError]]:
    """Lower an alert on an event or on the beginning of a fluent.

    `whole`: selects the key of a statement that has no KEYED BY. True: all arguments. False: an empty key.
    """
    own, head = _named(atom, event)
    atom = replace(atom, arguments=(*head, *atom.arguments[len(head) :]))
    bound = {argument.name: name for name, argument in zip(own, head) if isinstance(argument, Variable)}
    bound_names = [name for condition in conditions for name in condition_variables(condition) if _binds(condition)]
    reader = _AlertReader(statement, {**{name: name for name in bound_names}, **bound}, source)
    texts = statement.title, statement.text, statement.instruction, statement.runbook
    title, text, instruction, runbook = map(reader.template, texts)
    keys = [reader.column(key, "the key") for key in statement.keys]
    key = [key.name for key in statement.keys] or (list(bound) if whole else [])
    labels = tuple((name, reader.label(name, value, key)) for name, value in statement.labels)
    reader.check_runbook(runbook)
    reader.check_escalations()
    places = {}
    for column, value in zip(
        (LATITUDE, LONGITUDE, RADIUS, AREA), (*(statement.position or (None, None)), statement.radius, statement.area)
    ):
        if value is not None:
            for variable in used_variables([value]):
                reader.column(variable, "the place")
            places[column] = value
    others = [name for name in reader.used if name not in bound]
    body: Pattern = SelectPattern(atom, conditions, None, statement.span) if conditions else atom
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
        EXPECTED if statement.duration is None else statement.duration,
        after=statement.after,
        keep=statement.keep,
        escalations=tuple((severity, ticks) for severity, ticks, _ in statement.escalations),
        runbook=runbook,
        labels=labels,
        repeat=statement.repeat,
    )
    columns_of_key = {name: reader.known.get(name, name) for name in key}
    return Alerting(alert, (rule,), schema, key=columns_of_key), reader.errors


def on_fluent(
    statement: AlertStatement, atom: Atom, conditions: tuple[Condition, ...], fluent: Schema, source: Source
) -> tuple[Alerting, list[CepError]]:
    """Lower an alert on a fluent. `atom` matches the beginning of an interval of the fluent. The alert lasts until this
    interval ends.

    If the statement has no KEYED BY, all arguments are the key, because a fluent begins and ends independently for each
    combination of arguments.
    """
    lowered, errors = _alerting(statement, atom, conditions, fluent, source, True)
    alert = lowered.alert
    for variable, column in zip(statement.keys, alert.keys):
        if column not in alert.arguments:
            hint = f"use an argument of the fluent, `ON {fluent.name}(..)`"
            errors.append(CepError(f"`{variable.name}` of the key is not known when `{fluent.name}` ends", source,
                                   variable.span, hint, "unsafe"))  # fmt: skip
    table = f"{alert.table} ends"
    own, head = _named(atom, fluent)
    over = replace(atom, arguments=(*head, *atom.arguments[len(head) : -1], Constant(WHOLE, "int")))
    rule = Rule(table, tuple(head), over, None, statement.span, statement.event.span)
    ends = Schema(table, tuple(Attribute(name, "unknown", True) for name in own), False, False)
    alert = replace(alert, keys=alert.keys or alert.arguments, ends=table)
    return replace(lowered, alert=alert, rules=(*lowered.rules, rule), ends=ends), errors


def watching(statement: AlertStatement) -> AlertStatement:
    """Create a hidden alert on the fluent that `statement` names as its inhibitor."""
    fluent = statement.inhibitor
    assert fluent is not None, "something inhibits it"
    values = (*fluent.arguments, *(() if fluent.value is None else (fluent.value,)))
    keys = {value.name: value for value in values if isinstance(value, Variable) and value.name != "_"}
    title = Constant("", "string", fluent.span)
    return AlertStatement(
        f"{statement.name} inhibited", fluent, (), None, None, None, None, title, None, None, None,
        tuple(keys.values()), span=statement.span, name_span=fluent.span,
    )  # fmt: skip


def since_ever(watched: Alerting) -> Alerting:
    """Add two rules to a hidden alert on a fluent. They let the alert also inhibit during intervals of the fluent that
    began before the stream."""
    more = [
        replace(rule, body=replace(rule.body, arguments=(*rule.body.arguments[:-1], Constant(kind, "int"))))
        for rule, kind in zip(watched.rules, (BEFORE, HELD), strict=True)
        if isinstance(rule.body, Atom)
    ]
    return replace(watched, rules=(*watched.rules, *more))


def inhibited(
    statement: AlertStatement, alerting: Alerting, by: Alerting, source: Source
) -> tuple[Alert, list[CepError]]:
    """Add the inhibitor to an alert. Return the alert, and an error for each mistake in its INHIBITED BY clause.

    `by`: the alert that the clause names. If the clause names a fluent, `by` is the hidden alert on this fluent.

    In INHIBITED BY, the arguments of an alert are its KEYED BY variables in lower case. If an alert on a fluent has no
    KEYED BY, its arguments are those of the fluent.
    """
    pattern, errors = statement.inhibitor, list[CepError]()
    assert pattern is not None, "something inhibits it"

    def error(message: str, span: Span, hint: str) -> None:
        errors.append(CepError(message, source, span, hint, "unsafe"))

    values: Sequence[Expression]
    if by.alert.hidden:
        written = {name: column for name, column in by.key.items() if "'" not in name}
        columns, values = tuple(written.values()), [Variable(name, pattern.span) for name in written]
    else:
        names = {name.lower(): column for name, column in by.key.items()}
        if len(names) < len(by.alert.keys):
            names = {column: column for column in by.alert.keys}
        form = f"`{pattern.name}({', '.join(f'{name}: {name.upper()}' for name in names)})`"
        argument_names = pattern.names if pattern.names is not None else tuple(names)[: len(pattern.arguments)]
        if pattern.names is None and len(pattern.arguments) not in (0, len(names)):
            message = (
                f"the alert `{pattern.name}` has {len(names)} in its key, but here it has {len(pattern.arguments)}"
            )
            error(message, pattern.span, f"{form}; `{pattern.name}` alone means any key")
        for name in argument_names:
            if name not in names:
                hint = f"{form}; `{pattern.name}` alone means any key"
                error(f"`{name}` is not in the key of the alert `{pattern.name}`", pattern.span, hint)
        columns, values = tuple(names.get(name, "") for name in argument_names), pattern.arguments
    equal: list[tuple[str, str]] = []
    constants: list[tuple[str, str | int | float | bool]] = []
    for column, value in zip(columns, values):
        match value:
            case Constant(bool() | int() | float() | str() as constant):
                constants.append((column, constant))
            case Variable("_"):
                pass
            case Variable(name) if name in alerting.key:
                equal.append((column, alerting.key[name]))
            case Variable(name):
                key = ", ".join((*alerting.key, name))
                hint = f"add it to the key, `KEYED BY {key}`, or write `_` for any value"
                error(f"`{name}` of `INHIBITED BY` is not in the key of the alert", value.span, hint)
            case _:
                error(
                    "an inhibitor's argument is a constant or a variable",
                    pattern.span,
                    "use a variable, and bind it in the WHERE",
                )
    return replace(alerting.alert, inhibitor=Inhibitor(by.alert.name, tuple(equal), tuple(constants))), errors


def _named(atom: Atom, event: Schema) -> tuple[list[str], list[Variable | Constant]]:
    own = [attribute.name for attribute in event.attributes]
    return own, [
        Variable(f"{name}'", argument.span) if isinstance(argument, Variable) and argument.name == "_" else argument
        for name, argument in zip(own, atom.arguments)
    ]


def _binds(condition: Condition) -> bool:
    """Return True for a condition that can give a value to a variable.

    Such a condition is an equation, or a predicate that is not negated. It can also be a disjunction in which each
    alternative contains such a condition.
    """
    if isinstance(condition, Disjunction):
        return all(any(_binds(inner) for inner in inside) for inside in condition.alternatives)
    return condition.operator == "=" if isinstance(condition, Comparison) else not condition.negated


class _AlertReader:
    """A reader of the variables that an alert uses.

    `known`: the column of each variable that the event or a condition binds. `used`: the span of the first use of each
    variable.
    """

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
        """Split a text such as `Blizzard at {S}` into literal texts and columns. The texts `{{` and `}}` mean a literal
        `{` and a literal `}`."""
        if constant is None:
            return ()
        text = str(constant.value)
        pieces: list[str | tuple[str]] = []
        position = 0
        for match in _PIECE.finditer(text):
            pieces.append(text[position : match.start()])
            position = match.end()
            name = match[1]
            if match[0] in ("{{", "}}"):
                pieces.append(match[0][0])
            elif name is not None and _VARIABLE.fullmatch(name) and (name[0] == "_" or name[0].isupper()):
                pieces.append((self.column(Variable(name, self.span(constant, match.span())), "the text"),))
            else:
                self.error(*self.ill(match[0], constant, match.span()))
        pieces.append(text[position:])
        return tuple(piece for piece in pieces if piece)

    def label(self, name: str, value: Constant | Variable, key: Sequence[str]) -> Template:
        """Return the value of a label. Report an error if it depends on anything but the key.

        Receivers identify an alert by its labels, so labels must not change while an alert lasts.
        """
        if name in TAKEN:
            hint = f"choose another name: `alert_{name}`"
            self.error(f"every alert already has the label `{name}`", self.statement.clauses["LABELS"], hint)
        if isinstance(value, Constant):
            return (str(value.value),)
        column = self.column(value, "a label")
        if value.name not in key and value.name in self.known:
            hint = f"add it to the key, `KEYED BY {', '.join((*key, value.name))}`, or say it in the `TEXT`"
            self.error(f"`{value.name}` of the label `{name}` is not in the key of the alert", value.span, hint)
        return ((column,),)

    def check_runbook(self, runbook: Template) -> None:
        """Report a runbook address that does not begin with `https://` and a host."""
        first = runbook[0] if runbook else "https://a/"
        if not isinstance(first, str) or not re.match(r"https://[^/?#]+([/?#]|$)", first):
            assert self.statement.runbook is not None, "it has an address"
            hint = 'e.g. `RUNBOOK "https://example.org/smoke/{R}"`; the host cannot be a variable'
            self.error("a runbook must be an address that begins with `https://`", self.statement.runbook.span, hint)

    def check_escalations(self) -> None:
        """Report each escalation whose severity or time is not greater than in the escalation before it."""
        word, time = self.statement.severity or SEVERITY, 0
        for severity, ticks, span in self.statement.escalations:
            if SEVERITIES.index(severity) >= SEVERITIES.index(word):
                hint = f"the severities are, from high to low, {', '.join(f'`{severity}`' for severity in SEVERITIES)}"
                self.error(
                    f'an alert must escalate to a higher severity than "{word}", but this is "{severity}"', span, hint
                )
            if ticks <= time:
                hint = "count each time from when the alert fires, and write them in ascending order"
                self.error("this time is not later than the one before it", span, hint)
            word, time = severity, ticks

    def ill(self, written: str, constant: Constant, place: tuple[int, int]) -> tuple[str, Span, str]:
        """Return the message, span and hint of the error for an unmatched brace, or for a pair of braces that does not
        contain a variable.

        `written`: the faulty part of the text. `place`: its start and end in the string.
        """
        span = self.span(constant, place)
        if len(written) == 1:
            return (
                f"this `{written}` is unmatched",
                span,
                f"write a value as `{{S}}`, and a brace as `{written}{written}`",
            )
        name = written[1:-1].strip()
        if _VARIABLE.fullmatch(name):
            return f"`{written}` holds no variable", span, f"`{{{name[0].upper()}{name[1:]}}}`"
        hint = "bind the value in a WHERE, `WHERE X = ...`, and write `{X}`" if name else "a value is `{S}`"
        return f"`{written}` holds no variable", span, hint

    def span(self, constant: Constant, place: tuple[int, int]) -> Span:
        """Return the span of a part of a string. If the string has escapes, which shift columns, return the span of the
        whole string."""
        span = constant.span
        line = self.source.line(span.line)[span.column - 1 : span.end_column - 1]
        if "\\" in line:
            return span
        return Span(span.line, span.column + 1 + place[0], span.line, span.column + 1 + place[1])


def _close(name: str, known: Collection[str], event: str) -> str:
    written = sorted(name for name in known if "'" not in name)
    return did_you_mean(name, written) or f"name it in the event, `ON {event}(...)`, or bind it: `WHERE {name} = ...`"

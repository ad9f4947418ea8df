"""Parser of ALERT statements: an event, followed by clauses in any order, each at most once."""

from __future__ import annotations

from dataclasses import dataclass, field

from cep.core.errors import Span
from cep.core.literals import read_string
from cep.core.suggest import nearest
from cep.language.syntax import ast, messages
from cep.language.syntax.conditions import conditions
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.declarations import end_statement
from cep.language.syntax.durations import duration
from cep.language.syntax.patterns import occurrence
from cep.language.syntax.terms import expression
from cep.language.syntax.tokens import Token
from cep.rules.alert import SEVERITIES
from cep.rules.keywords import ALERTING, OPERATORS, POSTFIXES
from cep.rules.terms import Condition, Constant, Expression, Variable

CHOICES = {
    "SEVERITY": SEVERITIES,
    "URGENCY": ("Immediate", "Expected", "Future", "Past", "Unknown"),
    "CERTAINTY": ("Observed", "Likely", "Possible", "Unlikely", "Unknown"),
    "CATEGORY": (
        "Geo", "Met", "Safety", "Security", "Rescue", "Fire", "Health", "Env", "Transport", "Infra", "CBRNE", "Other",
    ),
}  # fmt: skip
"""For each clause, the values that the Common Alerting Protocol 1.2 (OASIS) permits."""

_PLURALS = {"SEVERITY": "severities", "URGENCY": "urgencies", "CERTAINTY": "certainties", "CATEGORY": "categories"}
_FOREIGN = {
    "SEVERITY": {
        "critical": "Extreme", "emergency": "Extreme", "fatal": "Extreme", "high": "Severe", "error": "Severe",
        "major": "Severe", "medium": "Moderate", "warning": "Moderate", "warn": "Moderate", "low": "Minor",
        "info": "Minor",
    },
    "URGENCY": {
        "now": "Immediate", "urgent": "Immediate", "high": "Immediate", "soon": "Expected", "later": "Future",
        "low": "Future", "over": "Past",
    },
    "CERTAINTY": {
        "certain": "Observed", "confirmed": "Observed", "sure": "Observed", "probable": "Likely",
        "very likely": "Likely", "high": "Likely", "maybe": "Possible", "improbable": "Unlikely", "low": "Unlikely",
    },
    "CATEGORY": {
        "weather": "Met", "environment": "Env", "traffic": "Transport", "medical": "Health",
    },
}  # fmt: skip
_MEANT = {
    "ID": "KEYED", "KEY": "KEYED", "BY": "KEYED BY", "MESSAGE": "TEXT", "DESCRIPTION": "TEXT", "HEADLINE": "TITLE",
    "ADVICE": "INSTRUCTION", "WITHIN": "FOR", "IF": "WHERE", "PROBABILITY": "CERTAINTY", "LEVEL": "SEVERITY",
    "KEEP_FIRING_FOR": "KEEP", "LABEL": "LABELS", "TAGS": "LABELS", "RUNBOOK_URL": "RUNBOOK",
    "REPEAT_INTERVAL": "REPEAT",
}  # fmt: skip


_EXAMPLES = {"INSTRUCTION": "Leave {R}", "RUNBOOK": "https://example.org/smoke/{R}"}
_DURATIONS = {
    "AFTER": ("the time after `AFTER` must be longer than 0", "5 min"),
    "FOR": ("the duration of an alert must be longer than 0", "3 h"),
    "KEEP": ("the time after `KEEP` must be longer than 0", "10 min"),
    "REPEAT": ("the time after `REPEAT` must be longer than 0", "4 h"),
}
"""For each clause, the error message for a duration of 0, and an example of a valid duration."""


@dataclass(slots=True)
class _Clauses:
    """The clauses that have been read so far. `spans`: for each clause, the span of its first word."""

    spans: dict[str, Span] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    choices: dict[str, str] = field(default_factory=dict)
    texts: dict[str, Constant] = field(default_factory=dict)
    durations: dict[str, int] = field(default_factory=dict)
    escalations: tuple[tuple[str, int, Span], ...] = ()
    labels: tuple[tuple[str, Constant | Variable], ...] = ()
    inhibitor: ast.EventPattern | None = None
    keys: tuple[Variable, ...] = ()
    position: tuple[Expression, ...] = ()
    values: dict[str, Expression] = field(default_factory=dict)


def alert(cursor: Cursor) -> ast.AlertStatement:
    """Read `ALERT storm ON warning(station: S) SEVERITY "Severe" TITLE "Blizzard at {S}" FOR 3 h KEYED BY S.`"""
    first = cursor.advance()
    name = cursor.name("the name of an alert", messages.ALERT)
    cursor.expect("ON", "`ON` and an event", messages.ALERT)
    about = occurrence(cursor)
    if cursor.token.key in (*OPERATORS, *POSTFIXES, "TIMES") and cursor.token.key != "WHERE":
        hint = f"derive an event from the pattern with a rule, then alert on it: `seen(R) <- {about.name}(R) SEQ ...`"
        cursor.stop("an alert is on one event, not on a pattern", hint)
    clauses = _Clauses()
    height = cursor.height
    while cursor.token.key == "WHERE" or cursor.token.key in ALERTING[1:]:
        _clause(cursor, cursor.advance(), clauses)
        height = max(height, cursor.height)
    whole = cursor.span(first)
    end_statement(cursor, "the alert", messages.logic_hint(cursor.token) or _hint(cursor.token))
    cursor.height = height
    if "TITLE" not in clauses.spans:
        example = 'add `TITLE "Smoke in {R}"`, with a variable of the event in braces'
        cursor.stop(f"the alert `{name.text}` has no title", example, name.span)
    if "RADIUS" in clauses.spans and "AT" not in clauses.spans:
        cursor.stop("`RADIUS` needs a place", "put the place before it: `AT Lat, Long RADIUS 40000`, in degrees and "
                                              "metres",
                    clauses.spans["RADIUS"])  # fmt: skip
    return ast.AlertStatement(
        name.text,
        about,
        clauses.conditions,
        clauses.choices.get("SEVERITY"),
        clauses.choices.get("URGENCY"),
        clauses.choices.get("CERTAINTY"),
        clauses.choices.get("CATEGORY"),
        clauses.texts["TITLE"],
        clauses.texts.get("TEXT"),
        clauses.texts.get("INSTRUCTION"),
        clauses.durations.get("FOR"),
        clauses.keys,
        clauses.position,
        clauses.values.get("RADIUS"),
        clauses.values.get("AREA"),
        clauses.durations.get("AFTER", 0),
        clauses.durations.get("KEEP", 0),
        clauses.escalations,
        clauses.texts.get("RUNBOOK"),
        clauses.labels,
        clauses.inhibitor,
        clauses.durations.get("REPEAT", 0),
        clauses.spans,
        whole,
        name.span,
    )


def _hint(token: Token) -> str:
    meant = _MEANT.get(token.text.upper()) or nearest(token.text, ALERTING[1:])
    clauses = "clauses are " + ", ".join(f"`{word}`" for word in ("WHERE", *ALERTING[1:]))
    return f"did you mean `{meant}`? {clauses}" if meant else clauses


def _clause(cursor: Cursor, word: Token, clauses: _Clauses) -> None:
    if word.key in clauses.spans:
        cursor.stop(f"the alert has a second `{word.key}`", "each clause is written once", word.span)
    clauses.spans[word.key] = word.span
    match word.key:
        case "WHERE":
            clauses.conditions = conditions(cursor)
        case "SEVERITY" | "URGENCY" | "CERTAINTY" | "CATEGORY":
            clauses.choices[word.key] = _choice(cursor, word)
        case "TITLE" | "TEXT" | "INSTRUCTION" | "RUNBOOK":
            example = _EXAMPLES.get(word.key, "Smoke in {R}")
            clauses.texts[word.key] = _string(cursor, f'e.g. `{word.key} "{example}"`')
        case "AFTER" | "FOR" | "KEEP" | "REPEAT":
            token = cursor.token
            clauses.durations[word.key] = duration(cursor)
            if not clauses.durations[word.key]:
                message, example = _DURATIONS[word.key]
                cursor.stop(message, f"e.g. `{word.key} {example}`", token.span)
        case "ESCALATE":
            clauses.escalations = _escalations(cursor, word)
        case "LABELS":
            clauses.labels = _labels(cursor)
        case "INHIBITED":
            cursor.expect("BY", "`BY`", "e.g. `INHIBITED BY outage(site: S)`, where `outage` is an alert or a fluent")
            clauses.inhibitor = occurrence(cursor)
        case "KEYED":
            cursor.expect("BY", "`BY`", "e.g. `KEYED BY S`: one alert for each value of `S`")
            clauses.keys = _keys(cursor)
        case "AT":
            latitude = expression(cursor)
            cursor.expect(",", "`,` and a longitude", "a place is `AT Lat, Long`, in degrees")
            clauses.position = (latitude, expression(cursor))
        case _:
            clauses.values[word.key] = expression(cursor)


def _keys(cursor: Cursor) -> tuple[Variable, ...]:
    keys: list[Variable] = []
    while not keys or cursor.accept(","):
        token = cursor.variable("a variable", "e.g. `KEYED BY S`: one alert for each value of `S`")
        if token.text == "_" or any(key.name == token.text for key in keys):
            wrong = "`_` has no value" if token.text == "_" else f"`{token.text}` is already in the key"
            cursor.stop(wrong, "a key can contain each variable only once", token.span)
        keys.append(Variable(token.text, token.span))
    return tuple(keys)


def _string(cursor: Cursor, hint: str) -> Constant:
    token = cursor.token
    if token.kind != "string":
        cursor.fail("a string", hint)
    cursor.advance()
    return Constant(cursor.read(read_string, token, token.text), "string", token.span)


def _choice(cursor: Cursor, word: Token, key: str = "") -> str:
    key = key or word.key
    choices = CHOICES[key]
    all_of_them = f"the {_PLURALS[key]} are {', '.join(f'`{choice}`' for choice in choices)}"
    token = cursor.token
    text = str(_string(cursor, f'{all_of_them}, in quotes: `{word.key} "{choices[1]}"`').value)
    if text not in choices:
        hint = messages.unknown(text, choices, all_of_them, _FOREIGN[key])
        cursor.stop(f"unknown {key.lower()} `{text}`", hint, token.span)
    return text


def _escalations(cursor: Cursor, word: Token) -> tuple[tuple[str, int, Span], ...]:
    steps: list[tuple[str, int, Span]] = []
    while not steps or cursor.accept(","):
        first = cursor.token
        severity = _choice(cursor, word, "SEVERITY")
        cursor.expect("AFTER", "`AFTER` and a duration", 'e.g. `ESCALATE "Severe" AFTER 30 min, "Extreme" AFTER 2 h`')
        steps.append((severity, duration(cursor), cursor.span(first)))
    return tuple(steps)


def _labels(cursor: Cursor) -> tuple[tuple[str, Constant | Variable], ...]:
    example = 'e.g. `LABELS team: "water", site: S`'
    labels: dict[str, Constant | Variable] = {}
    while not labels or cursor.accept(","):
        if cursor.token.kind == "prefixed":  # `team:"water"`
            cursor.split()
        token = cursor.name("the name of a label", example)
        cursor.expect(":", "`:` and the value of the label", example)
        if token.text in labels:
            cursor.stop(f"the label `{token.text}` is written twice", "each label is written once", token.span)
        first = cursor.token
        value = expression(cursor)
        if not isinstance(value, Constant | Variable):
            hint = f"{example}; bind a computed value in the WHERE: `WHERE X = ...`"
            cursor.stop("the value of a label is a constant or a variable", hint, cursor.span(first))
        labels[token.text] = value
    return tuple(labels.items())

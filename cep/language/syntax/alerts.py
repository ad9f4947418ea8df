"""ALERT statements: an event, and what is said of it, in clauses of any order, each at most once."""

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
from cep.rules.keywords import ALERTING, OPERATORS, POSTFIXES
from cep.rules.terms import Condition, Constant, Expression, Variable

CHOICES = {
    "SEVERITY": ("Extreme", "Severe", "Moderate", "Minor", "Unknown"),
    "URGENCY": ("Immediate", "Expected", "Future", "Past", "Unknown"),
    "CERTAINTY": ("Observed", "Likely", "Possible", "Unlikely", "Unknown"),
    "CATEGORY": (
        "Geo", "Met", "Safety", "Security", "Rescue", "Fire", "Health", "Env", "Transport", "Infra", "CBRNE", "Other",
    ),
}  # fmt: skip
"""The words of the Common Alerting Protocol 1.2 (OASIS) for what an `info` has of these names."""

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
}  # fmt: skip


@dataclass(slots=True)
class _Clauses:
    """The clauses read so far; `spans` of the words that begin them."""

    spans: dict[str, Span] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    choices: dict[str, str] = field(default_factory=dict)
    texts: dict[str, Constant] = field(default_factory=dict)
    duration: int = 0
    keys: tuple[Variable, ...] = ()
    at: tuple[Expression, ...] = ()
    values: dict[str, Expression] = field(default_factory=dict)


def alert(cursor: Cursor) -> ast.AlertStatement:
    """`ALERT storm ON warning(station: S) SEVERITY "Severe" TITLE "Blizzard at {S}" FOR 3 h KEYED BY S.`"""
    first = cursor.advance()
    name = cursor.name("the name of an alert", messages.ALERT)
    cursor.expect("ON", "`ON` and an event", messages.ALERT)
    on = occurrence(cursor)
    if cursor.token.key in (*OPERATORS, *POSTFIXES, "TIMES") and cursor.token.key != "WHERE":
        hint = f"give the pattern a rule, and alert on its head: `seen(R) <- {on.name}(R) SEQ ...`"
        cursor.stop("an alert is on one event", hint)
    found = _Clauses()
    height = cursor.height
    while cursor.token.key == "WHERE" or cursor.token.key in ALERTING[1:]:
        _clause(cursor, cursor.advance(), found)
        height = max(height, cursor.height)
    whole = cursor.span(first)
    end_statement(cursor, "the alert", messages.logic_hint(cursor.token) or _hint(cursor.token))
    cursor.height = height
    for word, missing, example in (
        ("TITLE", "no title", '`TITLE "Smoke in {R}"`, with a variable of the event in braces'),
        ("FOR", "no duration", "`FOR 3 h`: how long after its last occurrence it is over"),
    ):
        if word not in found.spans:
            cursor.stop(f"the alert `{name.text}` has {missing}", example, name.span)
    if "RADIUS" in found.spans and "AT" not in found.spans:
        cursor.stop("a radius is about a place", "`AT Lat, Long RADIUS 40000`, in degrees and metres",
                    found.spans["RADIUS"])  # fmt: skip
    return ast.AlertStatement(
        name.text,
        on,
        found.conditions,
        found.choices.get("SEVERITY"),
        found.choices.get("URGENCY"),
        found.choices.get("CERTAINTY"),
        found.choices.get("CATEGORY"),
        found.texts["TITLE"],
        found.texts.get("TEXT"),
        found.texts.get("INSTRUCTION"),
        found.duration,
        found.keys,
        found.at,
        found.values.get("RADIUS"),
        found.values.get("AREA"),
        whole,
        name.span,
    )


def _hint(token: Token) -> str:
    """Return the hint where a clause or the end is expected."""
    meant = _MEANT.get(token.text.upper()) or nearest(token.text, ALERTING[1:])
    clauses = "clauses are " + ", ".join(f"`{word}`" for word in ("WHERE", *ALERTING[1:]))
    return f"did you mean `{meant}`? {clauses}" if meant else clauses


def _clause(cursor: Cursor, word: Token, found: _Clauses) -> None:
    if word.key in found.spans:
        cursor.stop(f"a second `{word.key}` in one alert", "each clause is written once", word.span)
    found.spans[word.key] = word.span
    match word.key:
        case "WHERE":
            found.conditions = conditions(cursor)
        case "SEVERITY" | "URGENCY" | "CERTAINTY" | "CATEGORY":
            found.choices[word.key] = _choice(cursor, word)
        case "TITLE" | "TEXT" | "INSTRUCTION":
            example = "Leave {R}" if word.key == "INSTRUCTION" else "Smoke in {R}"
            found.texts[word.key] = _string(cursor, f'e.g. `{word.key} "{example}"`')
        case "FOR":
            token = cursor.token
            found.duration = duration(cursor)
            if not found.duration:
                cursor.stop("an alert lasts for some time", "e.g. `FOR 3 h`", token.span)
        case "KEYED":
            cursor.expect("BY", "`BY`", "e.g. `KEYED BY S`: one alert for each value of `S`")
            found.keys = _keys(cursor)
        case "AT":
            latitude = expression(cursor)
            cursor.expect(",", "`,` and a longitude", "a place is `AT Lat, Long`, in degrees")
            found.at = (latitude, expression(cursor))
        case _:
            found.values[word.key] = expression(cursor)


def _keys(cursor: Cursor) -> tuple[Variable, ...]:
    keys: list[Variable] = []
    while not keys or cursor.accept(","):
        token = cursor.variable("a variable", "e.g. `KEYED BY S`: one alert for each value of `S`")
        if token.text == "_" or any(each.name == token.text for each in keys):
            wrong = "`_` has no value" if token.text == "_" else f"`{token.text}` is there already"
            cursor.stop(wrong, "a key has each variable once", token.span)
        keys.append(Variable(token.text, token.span))
    return tuple(keys)


def _string(cursor: Cursor, hint: str) -> Constant:
    token = cursor.token
    if token.kind != "string":
        cursor.fail("a string", hint)
    cursor.advance()
    return Constant(cursor.read(read_string, token, token.text), "string", token.span)


def _choice(cursor: Cursor, word: Token) -> str:
    choices = CHOICES[word.key]
    all_of_them = f"the {_PLURALS[word.key]} are {', '.join(f'`{each}`' for each in choices)}"
    token = cursor.token
    text = str(_string(cursor, f'{all_of_them}, in quotes: `{word.key} "{choices[1]}"`').value)
    if text not in choices:
        hint = messages.unknown(text, choices, all_of_them, _FOREIGN[word.key])
        cursor.stop(f"unknown {word.key.lower()} `{text}`", hint, token.span)
    return text

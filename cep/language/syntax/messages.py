"""Messages and hints for common mistakes. A hint says what to write instead."""

from __future__ import annotations

import unicodedata

from cep.core.suggest import nearest
from cep.language.syntax.tokens import Token
from cep.rules.graph_text import on_one_line
from cep.rules.keywords import FORMS, OPERATORS, POSTFIXES

EVENT_RULE = "an event rule is written `fire(R) <- smoke(R) SEQ heat(R).`"
ONLY_IN_PATTERNS = "only arguments of events can have names: `<- sensor(id: ID, wind: W)`"
NAMED_HEAD = (
    "only the head of an event rule names its attributes, `alarm(id: ID, level: 3) <- ...`; "
    "in a fact or a static rule, write only the values: `linked(p1, p2).`"
)
ALL_OR_NONE = "arguments are all by name, `sensor(id: ID, wind: W)`, or all by position, `sensor(ID, _, W)`"
STATIC_EXAMPLE = "`risky(X) :- linked(X, Y), dangerous(Y).`"
CASE = "names start with a lower-case letter, variables with an upper-case one"
DURATION = "a duration is written `500 ms`, `10 s`, `30 min`, `3 h`, `2 d` or `PT3H`; a bare number is seconds"
WINDOW = (
    "a window is written `OVER LAST 5 EVENTS`, `OVER LAST 30 min`, `OVER EACH 1 h` or `OVER SESSION 10 min`, "
    "then `BY ID` for one result per group"
)
EACH = (
    'windows one after the other are written `OVER EACH 1 h`, `OVER EACH 1 d ZONE "Europe/Zurich"`, `OVER EACH 1 week`'
)
SESSION = "a session ends after this long without an event: `OVER SESSION 10 min BY ID`"
EVERY = "a sliding window with results at regular times is written `OVER LAST 30 min EVERY 5 min`"
ZONE = 'windows by local time are written `OVER EACH 1 d ZONE "Europe/Zurich"`, with a name of the IANA database'
RESULT = "an aggregate is written `A = avg(W), N = count() OVER LAST 5 EVENTS BY ID`"
ABSENCE = f"absence is tested between two events: {FORMS['NOT']}"
UNLESS = f"`UNLESS` {OPERATORS['UNLESS']}"
DECLARATION = "a declaration is written `event sensor(id: string, wind: float? in 0..250).`"
FACTS = "facts are declared `fact opening(shop: string, from: time, until: time).`"
RANGE = "a range is written `in 0..250`, `in -40.5..60`, `in 0..`"
RANGES = {
    "time": "a range of times is written `in 2024-01-01..2024-12-31T12:00`",
    "duration": "a range of durations is written `in 1 h..4 h`, `in 0 s..`",
}
PREFIX = "a prefix is written `PREFIX sosa: <http://www.w3.org/ns/sosa/>`, without a final `.`"
OWN_DURATION = (
    "a limit from the data is a condition, `... WHERE duration() <= 3 * D`; for events that do not arrive in time, see "
    "`Each sensor's own deadline` in docs/cookbook.md"
)
FINAL_DOT = "a statement ends with `.`"
GAP = "the time between two events is bounded from `g` to `h`: `smoke(R) SEQ[10 s, 5 min] heat(R)`"
BEHIND = "write it after the pattern, before the final `.`: `a(X) SEQ b(X) WITHIN 10 min.`"
POLICY = "the policies are `unrestricted`, `recent` and `chronological`"
TIE = "to break ties, write `recent(longest)`, `recent(shortest)` or `recent(by Vol)`; the same for `chronological`"
CONDITION = "a condition is a comparison (`Wind >= 15`) or a predicate (`linked(X, Y)`)"
ALERT = 'an alert is written `ALERT fire ON smoke(room: R) TITLE "Smoke in {R}" FOR 10 min KEYED BY R.`'
LABEL = "a label names an event rule: `storm: e(X) <- a(X).`"
VALUE = "a value is a variable (`Wind`), a constant, or arithmetic (`Wind * 3.6`, `abs(Wind)`)"
AGGREGATED = f"`smoke(R, T) AGGREGATE M = avg(T) OVER EACH 1 h BY R`; {WINDOW}"
NEGATION = "put `not` before a predicate, `not linked(X, Y)`, or before parentheses, `not (X > 3, X < 5)`"
NOT_HELD = "to ask that the fluent does not hold, write `not held(moving(V), T)`"
BOTH = "conditions are separated by `,`"
EITHER = "alternatives need parentheses: `(X > 3 or linked(X, Y))`"
LIST = "a list is written `X in [1, 2, 3]`; a range is written `X between 1 and 3`"
BETWEEN = "the range includes both ends: `X between 1 and 3`"
CHOICE = 'one of two values is written `if(Level > 3, "high", "low")`'
NULL = (
    "a condition on a missing value is false; `X = X` is true if X has a value; "
    "`x: int?` declares an attribute that may be missing"
)
GRAPH = "a graph pattern is a condition: `... WHERE { ?Station wgs84:lat ?Lat }`, where `?Lat` is the variable `Lat`"
GRAPH_AS_VALUE = (
    "write the graph pattern as a separate condition, `... WHERE { ?Station wgs84:lat ?Lat }`, "
    "and use its variable `Lat` here"
)
BRACE = "each `{` needs a `}`; braces in strings and comments do not count"
INSIDE = "braces hold a complete SPARQL pattern: `{ ?S a wt:Station OPTIONAL { ?S wt:height ?H } FILTER(?H > 100) }`"

EXAMPLES = {word: f"`{word}` {says}" for word, says in OPERATORS.items()}

# Operators and postfixes of other languages, and ours.
FOREIGN_OPERATORS = {
    "&": "AND",
    "&&": "AND",
    "|": "OR",
    "||": "OR",
    ";": "SEQ",
    "->": "SEQ",
    "THEN": "SEQ",
    "BEFORE": "SEQ",
    "FOLLOWED": "SEQ",
    "FOLLOWEDBY": "SEQ",
    "NEXT": "SEQ",
    "WHILE": "DURING",
    "IF": "WHERE",
    "WHEN": "WHERE",
    "HAVING": "WHERE",
    "FILTER": "WHERE",
    "FOR": "WITHIN",
    "IN": "WITHIN",
    "XOR": "OR",
}
# Windows of other languages, and ours.
FOREIGN_WINDOWS = {
    "TUMBLING": EACH, "TUMBLE": EACH, "FIXED": EACH, "HOPPING": EVERY, "HOP": EVERY, "SLIDING": EVERY, "SLIDE": EVERY,
    "HOURLY": EACH, "DAILY": EACH, "GAP": SESSION, "SESSIONS": SESSION,
}  # fmt: skip
# Tests of SQL, and what to write instead.
FOREIGN_TESTS = {
    "LIKE": 'test a text with `starts_with(F, "m")`, `ends_with(F, "k")`, `contains(F, "il")` or '
    'a regular expression: `matches(F, "^m")`',
}
FOREIGN_TESTS.update(ILIKE=FOREIGN_TESTS["LIKE"], RLIKE=FOREIGN_TESTS["LIKE"], REGEXP=FOREIGN_TESTS["LIKE"])
# Signs and words that join conditions in other languages.
FOREIGN_LOGIC = {"&": BOTH, "&&": BOTH, ";": BOTH, "AND": BOTH, "|": EITHER, "||": EITHER, "OR": EITHER, "XOR": EITHER}
# Words that come before braces in SPARQL.
FOREIGN_GRAPHS = frozenset(("OPTIONAL", "UNION", "MINUS", "FILTER", "GRAPH", "SERVICE", "SELECT", "ASK", "WHERE"))
FOREIGN_NULLS = ("null", "NULL", "Null", "None")
TIMES = FORMS["TIMES"]
# Keywords that do not follow a whole pattern.
MISPLACED = {
    **dict.fromkeys(("OVER", "EACH", "LAST", "SESSION", "EVERY"), AGGREGATED),
    **dict.fromkeys(("BY", "GROUP"), "a group is written `BY ID`, behind the window: `OVER EACH 1 h BY ID`"),
    "TIMES": f"`TIMES` stands directly behind an event or a `)`: {TIMES}",
    "NOT": ABSENCE,
}
FOREIGN_ARROWS = frozenset(("=>", "->", "=", ":=", "<=", "=<", "<", "==", ":", "&", "|", "IF"))
FOREIGN_COMPARISONS = {"<>": "!=", "=>": ">=", "=<": "<=", ":=": "=", "!": "!="}
FOREIGN_COMMENTS = frozenset(("//", "/", "--", "*", "-"))
FOREIGN_TYPES = {
    "str": "string",
    "text": "string",
    "varchar": "string",
    "integer": "int",
    "long": "int",
    "bigint": "int",
    "int64": "int",
    "double": "float",
    "decimal": "float",
    "real": "float",
    "number": "float",
    "float64": "float",
    "boolean": "bool",
    "uri": "iri",
    "datetime": "time",
    "date": "time",
    "timestamp": "time",
    "interval": "duration",
    "timedelta": "duration",
}
FOREIGN_UNITS = {
    "milli": "ms",
    "millis": "ms",
    "msec": "ms",
    "msecs": "ms",
    "millisecond": "ms",
    "milliseconds": "ms",
    "sec": "s",
    "secs": "s",
    "second": "s",
    "seconds": "s",
    "m": "min",
    "mins": "min",
    "minute": "min",
    "minutes": "min",
    "hr": "h",
    "hrs": "h",
    "hour": "h",
    "hours": "h",
    "day": "d",
    "days": "d",
    **dict.fromkeys(("us", "ns", "week", "weeks", "w", "month", "months", "year", "years"), ""),
}


def _weeks(count: str) -> str:
    days = f"write `{7 * int(count)} d`" if count.isdigit() and len(count) < 6 else "a week is `7 d`"
    return f"{days}; windows of a week from Monday are `OVER EACH 1 week`"


def _months(_: str) -> str:
    return "months and years differ in length; use `30 d` or `365 d`; windows of calendar weeks are `OVER EACH 1 week`"


CALENDAR_UNITS = {
    **dict.fromkeys(("week", "weeks", "w"), _weeks),
    **dict.fromkeys(("month", "months", "year", "years"), _months),
}
"""For each calendar unit, a function that returns the hint for a number followed by that unit."""


def token_name(token: Token) -> str:
    """Return the text that stands for a token in messages."""
    if token.kind == "end":
        return "the end of the program"
    if token.kind == "graph":
        return f"`{on_one_line(token.text, longest=40)}`"
    text = token.text if len(token.text) <= 40 else token.text[:37] + "..."
    if text.isprintable() and text != " ":
        return f"`{text}`"
    name = unicodedata.name(text[0], "") if len(text) == 1 else ""
    return f"the character U+{ord(text[0]):04X}" + (f" ({name.lower()})" if name else "")


def broken(token: Token) -> tuple[str, str] | None:
    """Return the message and the hint for an invalid token, or None if the token is valid."""
    if token.kind == "open":
        return "this string is not closed", 'a string ends with `"` on its own line; a line break in it is `\\n`'
    double = "strings are written in plain double quotes: "
    if token.kind == "quoted":
        inner = token.text.strip("'")
        inner = inner if inner.isalnum() and len(inner) < 30 else "snow"
        return f"a string cannot be in single quotes: {token_name(token)}", f'{double}`"{inner}"`'
    if token.kind == "bad" and token.text in "\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019":
        return f"a string cannot be in typographic quotes: {token_name(token)}", f'{double}`"snow"`'
    if token.kind == "bad" and not token.text.isprintable():
        return f"{token_name(token)} does not belong here", "it is invisible; delete it"
    return None


def unknown(word: str, choices: tuple[str, ...], all_of_them: str, foreign: dict[str, str] | None = None) -> str:
    """Return the hint for a word that is not in `choices`.

    `all_of_them`: a sentence that lists the choices. `foreign`: for words of other systems, the choice that each one
    means.
    """
    meant = (foreign or {}).get(word.lower()) or nearest(word, choices)
    return f"did you mean `{meant}`? {all_of_them}" if meant else all_of_them


def logic_hint(token: Token) -> str | None:
    """Return the hint for a token that another language uses to join conditions, such as `&&`. None for all others."""
    return FOREIGN_LOGIC.get(token.text.upper())


def truth(name: str, value: str) -> str:
    """Return the hint for a variable that is written as a condition."""
    return f"for a boolean, write `{name} = {value}`"


def operator_hint(token: Token) -> str | None:
    """Return the hint for an unexpected token in a place where an operator, a clause or the final `.` is expected.
    Return None if no hint fits."""
    word = token.text.upper()
    if word in MISPLACED:
        return MISPLACED[word]
    meant = FOREIGN_OPERATORS.get(word)
    if meant is None and token.kind in ("name", "variable") and len(word) > 1:
        meant = nearest(word, (*OPERATORS, *POSTFIXES, "TIMES"))
    if meant:
        return f"did you mean `{meant}`? {EXAMPLES.get(meant) or POSTFIXES.get(meant, TIMES)}"
    return None

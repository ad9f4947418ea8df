"""Parser of declarations: PREFIX, the default policy, and events with their attributes and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cep.core.suggest import did_you_mean
from cep.events import type_names
from cep.language.syntax import ast, messages
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.durations import duration
from cep.language.syntax.patterns import policy_choice
from cep.language.syntax.record_clauses import CLAUSES, Clauses, arrays, column
from cep.language.syntax.record_tests import record_tests
from cep.language.syntax.terms import constant
from cep.language.syntax.tokens import Token
from cep.rules.keywords import RESERVED

KEY = "KEY"
"""The word before the attributes that identify a record. If a later record has the same values of these attributes and
the same time, it replaces the earlier record.

`KEY` is a keyword only in a declaration, after the event's attributes, because events may have an attribute called
`key`.
"""
_PARTS = ("%Y", "%m", "%d", "%H", "%M", "%S")
DISTINCT = "DISTINCT"
"""The word by which a declaration says that equal records are one occurrence."""
RANGED = ("int", "float", "time", "duration")

RangeEnd = int | float | None


def prefix(cursor: Cursor) -> ast.Prefix:
    """Read `PREFIX name: <iri>`, and add the prefix to the cursor. The name may be empty or contain hyphens."""
    first = cursor.advance()
    name = ""
    if cursor.token.key != ":":
        if cursor.token.kind == "prefixed":
            cursor.fail("a prefix and an IRI in `<...>`", messages.PREFIX)
        while cursor.token.kind in ("name", "variable") or (cursor.token.text == "-" and name):
            if name and not cursor.adjoins():
                break
            name += cursor.advance().text
        if not name:
            cursor.fail("a prefix", messages.PREFIX)
    cursor.expect(":", "`:`", messages.PREFIX)
    if cursor.token.kind != "iri":
        cursor.fail("an IRI in `<...>`", messages.PREFIX)
    iri = cursor.advance().text[1:-1]
    cursor.prefixes[name] = iri
    if cursor.token.key == ".":
        cursor.fail("a statement", messages.PREFIX)
    return ast.Prefix(name, iri, cursor.span(first))


def policy_statement(cursor: Cursor) -> ast.PolicyStatement:
    """Read `policy recent.`"""
    first = cursor.advance()
    choice = policy_choice(cursor)
    end_statement(cursor, "the statement", "e.g. `policy recent.`")
    return ast.PolicyStatement(choice, cursor.span(first))


def end_statement(cursor: Cursor, what: str, hint: str | None = None, expected: str = "`.`") -> None:
    """Read the dot that ends a statement. Raises CepError if it is missing. If a new statement begins on the next line,
    the error points to the end of the last token."""
    token = cursor.token
    if token.key == ".":
        cursor.advance()
    elif missing_dot(cursor):
        at_end = token.kind == "end"
        following = "a statement ends with `.`" if at_end else f"line {token.line} begins another statement"
        cursor.stop(f"expected `.` at the end of {what}", following, cursor.previous.after)
    else:
        cursor.fail(expected, "end a statement with one `.`" if token.key == ".." else hint)


def missing_dot(cursor: Cursor) -> bool:
    """Return True if a dot is probably missing here: the program ends, or the next line seems to begin a statement."""
    token = cursor.token
    if token.kind == "end":
        return True
    return cursor.on_new_line() and token.kind in ("name", "variable", "prefixed") and token.key not in RESERVED


def declaration(cursor: Cursor) -> ast.EventDeclaration:
    first = cursor.advance()
    name = cursor.name("the name of an event", messages.DECLARATION)
    attributes: list[ast.AttributeTree] = []
    sources: list[tuple[str, Token]] = []
    if cursor.token.key == "(":
        opening = cursor.advance()
        if cursor.token.key != ")":
            attributes.append(attribute(cursor, sources))
            names = {attributes[0].name}
            while cursor.accept(","):
                attributes.append(attribute(cursor, sources))
                last = attributes[-1]
                if last.name in names:
                    cursor.stop(f"`{last.name}` is declared twice", "each attribute has its own name", last.span)
                names.add(last.name)
        cursor.close(opening, ")", "`,` or `)`", _after_attribute(cursor))
    declared = record_clauses(cursor, name.text, tuple(attributes), sources, first)
    hint = "after the attributes comes `AS class`, then `TIME column` or `START column END column`, then the final `.`"
    if cursor.token.text.upper() in ("TIMEZONE", "TZ"):
        hint = 'did you mean `ZONE`? e.g. `TIME ts ZONE "Europe/Zurich"`'
    if cursor.token.text == KEY.lower():
        hint = f"keywords are written in capitals: `{KEY} {attributes[0].name if attributes else 'sensor'}`"
    end_statement(cursor, "the declaration", hint)
    return replace(declared, span=cursor.span(first))


def record_clauses(
    cursor: Cursor, name: str, attributes: tuple[ast.AttributeTree, ...], sources: list[tuple[str, Token]], first: Token
) -> ast.EventDeclaration:
    """Read the clauses of a declaration that describe the records of an event. Append the columns that these clauses
    name to `sources`."""
    key = when = None
    if cursor.accept("WHEN"):
        when = record_tests(cursor, attributes, sources)
    iri = _iri(cursor) if cursor.accept("AS") else None
    time, further, start, end = _time(cursor, sources)
    clauses = Clauses(timed=time is not None or start is not None)
    distinct: Token | None = None
    while cursor.token.key in ("WHEN", DISTINCT, *CLAUSES) or cursor.token.text == KEY:
        if cursor.token.text == KEY:
            key = _key(cursor, name, attributes, key)
        elif cursor.token.key == DISTINCT:
            if distinct is not None:
                cursor.stop("the declaration has a second DISTINCT", "once is enough")
            distinct = cursor.advance()
        elif cursor.accept("WHEN"):
            if when is not None:
                hint = 'put all tests together: `WHEN kind = "deploy", version EXISTS`, and alternatives after `or`'
                cursor.stop("the declaration has a second WHEN", hint, cursor.previous.span)
            when = record_tests(cursor, attributes, sources)
        else:
            clauses.read(cursor)
    arrays(name, sources, cursor)
    if key is not None and distinct is not None:
        hint = "with a KEY, records of the same key and time correct each other, so equal ones already count once"
        cursor.stop("an event cannot have both KEY and DISTINCT", hint, distinct.span)
    if when is not None:
        named = [attribute.source for attribute in attributes] + [source for source, _ in sources]
        _check_tested(cursor, name, clauses, named, first)
    times = clauses.times(cursor)
    if further and times is not None and times.unit is not None:
        cursor.stop(
            f"`FORMAT epoch {times.unit}` reads the time from a single column",
            f"use `TIME {time} FORMAT epoch {times.unit}`",
            cursor.span(first),
        )
    if len(further) > 1:
        _check_parts(cursor, (time or "", *further), None if times is None else times.pattern, first)
    more = tuple(further), times, clauses.missing, clauses.records, key, when, distinct is not None
    return ast.EventDeclaration(name, attributes, time, start, end, iri, cursor.span(first), *more)


def _check_tested(cursor: Cursor, name: str, clauses: Clauses, sources: Sequence[str | None], first: Token) -> None:
    """Refuse WHEN if another part of the declaration already selects the event's records: a measurement of InfluxDB, or
    an RDF class."""
    if clauses.records is not None and clauses.records.name == "influx":
        hint = f'`FORMAT influx(measurement: "...")` after {name} names it; leave out WHEN'
        cursor.stop("the measurement of an InfluxDB line decides which event it is", hint, cursor.span(first))
    if any(source is not None and source.startswith("<") for source in sources):
        hint = f"its class decides which observations are such events: `event {name}(...) AS <class>`"
        cursor.stop("WHEN tests fields of records, but observations in RDF have no fields", hint, cursor.span(first))


def _time(cursor: Cursor, sources: list[tuple[str, Token]]) -> tuple[str | None, list[str], str | None, str | None]:
    """Read `TIME ts`, which may name further columns, or `START departed END landed`.

    Return the time column, the further columns, the start column and the end column.
    """
    further: list[str] = []
    if cursor.accept("TIME"):
        time = _column(cursor, sources)
        while cursor.accept(","):
            further.append(_column(cursor, sources))
        return time, further, None, None
    if not cursor.accept("START"):
        return None, further, None, None
    start = _column(cursor, sources)
    two = "an interval has two columns: `START departed END landed`"
    day_hint = "; only TIME joins a day and a time of day from two columns"
    cursor.expect("END", "`END`", two + (day_hint if cursor.token.key == "," else ""))
    return None, further, start, _column(cursor, sources)


def _check_parts(cursor: Cursor, columns: Sequence[str], pattern: str | None, first: Token) -> None:
    count = 0 if pattern is None else len(pattern.split())
    if count != len(columns):
        written = " ".join(_PARTS[: len(columns)])
        hint = (
            f'write one part for each column, with spaces between them: `TIME {", ".join(columns)} FORMAT "{written}"`'
        )
        has = "no FORMAT" if pattern is None else f"a FORMAT of {count}"
        cursor.stop(f"the time has {len(columns)} columns, but {has}", hint, cursor.span(first))


def _key(
    cursor: Cursor, event: str, attributes: tuple[ast.AttributeTree, ...], before: tuple[str, ...] | None
) -> tuple[str, ...]:
    """Read `KEY sensor, seq`. `before`: the KEY that the declaration already has, or None."""
    first = cursor.advance()
    if before is not None:
        cursor.stop(
            "the declaration has a second KEY", "attributes are separated by commas: `KEY sensor, seq`", first.span
        )
    names = [attribute.name for attribute in attributes]
    key_names: list[str] = []
    while not key_names or cursor.accept(","):
        token = cursor.token
        if token.kind != "name":
            cursor.fail("the name of an attribute", f"e.g. `KEY {names[0] if names else 'sensor'}`")
        if token.text not in names:
            known = ", ".join(f"`{name}`" for name in names)
            hint = did_you_mean(token.text, names) or (f"it has {known}" if known else "it has none")
            cursor.stop(f"`{event}` has no attribute `{token.text}`", hint, token.span)
        if token.text in key_names:
            cursor.stop(f"`{token.text}` is in the key twice", "once is enough", token.span)
        key_names.append(cursor.advance().text)
    return tuple(key_names)


def _after_attribute(cursor: Cursor) -> str | None:
    token = cursor.token
    if token.key == "=":
        return "attributes have no defaults; `?` after the type lets a value be missing: `gust: float?`"
    if token.kind in ("name", "variable") and token.key not in ("TIME", "START", "AS", "QUOTED", *CLAUSES):
        return messages.DECLARATION
    return None


def attribute(cursor: Cursor, sources: list[tuple[str, Token]]) -> ast.AttributeTree:
    first = cursor.token
    if first.kind == "prefixed":  # `wind:float`
        cursor.split()
        first = cursor.token
    if first.kind != "name":
        hint = messages.DECLARATION
        if first.kind == "variable":
            lower = first.text.lower()
            hint = (
                f"attributes start with a lower-case letter; FROM names the column: `{lower}: float FROM {first.text}`"
            )
        elif cursor.previous.key == ",":
            hint = "something is missing after the `,`, or there is one `,` too many"
        cursor.fail("the name of an attribute", hint)
    cursor.advance()
    if cursor.token.kind == "prefixed" and cursor.token.text.startswith(":"):  # `wind :float`
        cursor.split()
    cursor.expect(":", "`:` and a type", messages.DECLARATION)
    kind = _type(cursor)
    optional = cursor.accept("?")
    low: RangeEnd = None
    high: RangeEnd = None
    ranged = False
    source: str | None = None
    iri: str | None = None
    clauses = Clauses(kind, optional=optional)
    quoted = False
    while cursor.token.key in ("IN", "FROM", "AS", "QUOTED", *CLAUSES):
        if cursor.token.key in CLAUSES:
            clauses.read(cursor)
        elif cursor.accept("FROM"):
            if source is not None:
                hint = "e.g. `wind: float FROM wind_speed`"
                cursor.stop("the attribute has a second column", hint, cursor.previous.span)
            source = _column(cursor, sources)
        elif cursor.accept("AS"):
            if iri is not None:
                cursor.stop(
                    "the attribute has a second property", "e.g. `wind: float AS wt:windSpeed`", cursor.previous.span
                )
            iri = _iri(cursor)
        elif cursor.accept("QUOTED"):
            if kind not in ("int", "float"):
                hint = "texts, times and booleans need no QUOTED"
                cursor.stop(f"QUOTED is for numbers, but this attribute is of type {kind}", hint, cursor.previous.span)
            quoted = True
        else:
            if ranged:
                cursor.stop("the attribute has a second range", _range_hint(kind))
            ranged = True
            low, high = _range(cursor, kind)
    times = clauses.times(cursor)
    how = times, clauses.missing, quoted
    return ast.AttributeTree(first.text, kind, optional, low, high, source, iri, cursor.span(first), *how)


def _type(cursor: Cursor) -> str:
    token = cursor.token
    if token.kind not in ("name", "variable") or token.key in RESERVED:
        cursor.fail("a type", "the types are " + ", ".join(f"`{name}`" for name in type_names))
    if token.text not in type_names:
        all_of_them = "the types are " + ", ".join(f"`{name}`" for name in type_names)
        hint = messages.unknown(token.text, type_names, all_of_them, messages.FOREIGN_TYPES)
        cursor.stop(f"unknown type `{token.text}`", hint)
    return cursor.advance().text


def _column(cursor: Cursor, sources: list[tuple[str, Token]]) -> str:
    """Read the source of a value: a column, a path in a record, an RDF property, or a property path `<...>/<...>`.

    If the source is a column or a path in a record, append it to `sources`.
    """
    token = cursor.token
    if token.kind in ("iri", "prefixed"):
        path = [_iri(cursor)]
        while cursor.accept("/"):
            path.append(_iri(cursor))
        return "/".join(f"<{iri}>" for iri in path)
    sources.append((column(cursor), token))
    return sources[-1][0]


def _iri(cursor: Cursor) -> str:
    if cursor.token.kind not in ("iri", "prefixed"):
        cursor.fail("an IRI", "e.g. `AS weather:Blizzard`, `AS <http://example.org/Storm>`")
    iri = constant(cursor).value
    assert isinstance(iri, str), "an IRI was written"
    return str(iri)


def _range(cursor: Cursor, kind: str) -> tuple[RangeEnd, RangeEnd]:
    first = cursor.advance()
    if kind not in RANGED:
        cursor.stop(
            f"a {kind} has no range", "only numbers, times and durations have one: " + messages.RANGE, first.span
        )
    low = None if cursor.token.key == ".." else _bound(cursor, kind)
    cursor.expect("..", "`..`", _range_hint(kind))
    last = cursor.token.kind in ("number", "time", "duration", "string") or cursor.token.key == "-"
    high = _bound(cursor, kind) if last or low is None else None
    if low is not None and high is not None and low > high:
        hint = f"put the smaller bound first: {_range_hint(kind)}"
        cursor.stop("no value is in this range", hint, cursor.span(first))
    return low, high


def _range_hint(kind: str) -> str:
    return messages.RANGES.get(kind, messages.RANGE)


def _bound(cursor: Cursor, kind: str) -> int | float:
    """Read a bound of an attribute's range. For a time or a duration, a number without a unit means seconds."""
    first = cursor.token
    sign = -1 if cursor.accept("-") else 1
    bound_kind = cursor.token.kind
    if bound_kind not in ("number", "duration", "time") or (bound_kind == "time" and sign < 0):
        cursor.fail("a number" if kind in ("int", "float") else f"a {kind}", _range_hint(kind))
    if kind in ("time", "duration") and bound_kind != "time":
        ticks = duration(cursor)
        bound_kind = kind if kind == "duration" or cursor.previous.kind == "number" else "duration"
        value: int | float = ticks
    else:
        read = constant(cursor)
        assert isinstance(read.value, (int, float)), "a number, a time or a duration was written"
        bound_kind = "float" if kind == "float" and read.type == "int" else read.type
        value = float(read.value) if bound_kind == "float" else read.value
    if bound_kind != kind:
        message = f"a bound of type {bound_kind} does not fit an attribute of type {kind}"
        cursor.stop(message, _range_hint(kind), cursor.span(first))
    return sign * value

"""Conversion of occurrences to triples, column by column. The text is valid N-Triples, N-Quads, Turtle and TriG.

Literals have the same form as in the store's answers, so that a file contains the same text as the answer of a server
(decisions/2026-11-22-forms.md).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate
from typing import Any

import polars as pl

from cep.connectors.rdf.vocabulary import PROV, RDF, SOSA, TIME, XSD, EventVocabulary
from cep.core.identity import ID, identity_hashes, occurrence_texts
from cep.core.schema import Schema

_IRI = r"^[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*$"
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\u0000"}
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Derived:
    """Derived occurrences of one event type. `table`: the occurrences, with their ids in the column `@id`.

    `activity`: the IRI of the activity that derived all occurrences. If it is None, the caller writes the activities.
    """

    table: pl.DataFrame
    schema: Schema
    activity: str | None


def event_triples(derived: Sequence[Derived], vocabulary: EventVocabulary) -> str:
    """Write the class, activity, beginning, end and attributes of each occurrence. Then write all instants."""
    name, head = vocabulary.event(), PROV + "wasGeneratedBy"
    activities = [[] if event.activity is None else [(head, f"<{event.activity}>")] for event in derived]
    return _written(
        [_Occurrences(event.table, event.schema, name, more) for event, more in zip(derived, activities)], vocabulary
    )


def reading_triples(table: pl.DataFrame, schema: Schema, vocabulary: EventVocabulary) -> str:
    """Write input records as observations. Equal records become a single observation.

    The phenomenon time of an observation is the instant or interval of its record. Its result time is the record's end.
    """
    ids = pl.Series(ID, reading_ids(table, schema), dtype=pl.String)
    table = table.with_columns(ids).unique(ID, maintain_order=True)
    stamps = table.select(_stamp(pl.col("start")).alias("start"), _stamp(pl.col("end")).alias("end"))
    begin, end = (f"<{vocabulary.instant()}" + pl.col(column) + ">" for column in ("start", "end"))
    interval = f"<{vocabulary.interval()}" + pl.col("start") + "/" + pl.col("end") + ">"
    texts = stamps.with_columns(table.select((pl.col("start") < pl.col("end")).alias("lasting"))).select(
        pl.when("lasting").then(interval).otherwise(end).alias("when"),
        pl.when("lasting")
        .then(interval + f" <{TIME}hasBeginning> " + begin + " .\n" + interval + f" <{TIME}hasEnd> " + end + " .\n")
        .otherwise(pl.lit(""))
        .alias("ends"),
    )
    moments = table.select(_typed(_moment(pl.col("end")), "dateTime")).to_series().to_list()
    more = [
        (RDF + "type", f"<{SOSA}Observation>"),
        (SOSA + "resultTime", moments),
        (SOSA + "phenomenonTime", texts["when"].to_list()),
    ]
    written = _written([_Occurrences(table, schema, vocabulary.reading(), more)], vocabulary)
    return written + "".join(texts["ends"].to_list())


def reading_ids(table: pl.DataFrame, schema: Schema) -> list[str]:
    """Return an id for each input record. It depends only on the contents of the record."""
    return identity_hashes(occurrence_texts(table, schema), "")


def stamp(time: int) -> str:
    """Return a time (in microseconds) as the text that the IRI of an instant contains: `2013-02-08T21:00:00.000000Z`.
    If these texts are sorted, the times are sorted too."""
    return str(pl.select(_stamp(pl.lit(time, dtype=pl.Int64))).item())


# --- columns ---


@dataclass(frozen=True, slots=True)
class _Occurrences:
    """Occurrences of one event type, or input records, with their ids in the column `@id`.

    - `name`: the text with which the IRIs of all rows begin.
    - `more`: further properties, with their values. A value is one term for all rows, or a sequence with one term
      per row.
    """

    table: pl.DataFrame
    schema: Schema
    name: str
    more: Sequence[tuple[str, str | Sequence[str | None]]]


def _written(occurrences: Sequence[_Occurrences], vocabulary: EventVocabulary) -> str:
    """Write the triples of occurrences and their instants.

    All values that have the same type are converted together, to save time. In a program of a hundred rules, most rules
    derive only a row or two at a time. Starting an operation of polars costs as much as converting hundreds of rows.
    """
    occurrences = [occurrence for occurrence in occurrences if occurrence.table.height]
    if not occurrences:
        return ""
    stamps = _stamps([occurrence.table[column] for occurrence in occurrences for column in ("start", "end")])
    instants = {time: f"<{vocabulary.instant()}{stamp}>" for time, stamp in stamps.items()}
    terms = iter(
        _terms(
            [
                (occurrence.table[attribute.name], attribute.type)
                for occurrence in occurrences
                for attribute in occurrence.schema.attributes
            ]
        )
    )
    lines: list[str] = []
    for occurrence in occurrences:
        schema = occurrence.schema
        properties: list[tuple[str, str | Sequence[str | None]]] = [
            (RDF + "type", f"<{vocabulary.type(schema)}>"),
            *occurrence.more,
            (TIME + "hasBeginning", list(map(instants.get, occurrence.table["start"].to_list()))),
            (TIME + "hasEnd", list(map(instants.get, occurrence.table["end"].to_list()))),
            *((vocabulary.property(schema, number), next(terms)) for number in range(len(schema.attributes))),
        ]
        lines += _lines(occurrence.name, occurrence.table[ID].to_list(), properties)
    return "".join([*lines, *_instants(list(stamps.values()), vocabulary)])


def _lines(
    name: str, ids: Sequence[str], properties: Sequence[tuple[str, str | Sequence[str | None]]]
) -> Iterator[str]:
    """Yield texts, each of which contains the triples of one occurrence.

    - `name`: the text with which the subjects of all triples begin. The id of the occurrence follows it.
    - `ids`: the ids of the occurrences.
    - `properties`: properties with their objects. An object of None means that there is no triple.
    """
    template, columns = "", list[Sequence[str]]()
    for property, terms in properties:
        line = f"<{_literal(name)}%s> <{_literal(property)}> "
        if isinstance(terms, str):
            template += line + _literal(terms) + " .\n"
            columns.append(ids)
            continue
        line += "%s .\n"
        known = [term for term in terms if term is not None]
        if len(known) == len(ids):
            template += line
            columns += [ids, known]
        else:
            template += "%s"
            columns.append(["" if term is None else line % (id, term) for id, term in zip(ids, terms, strict=True)])
    return map(template.__mod__, zip(*columns, strict=True))


def _literal(text: str) -> str:
    return text.replace("%", "%%")


def _terms(columns: Sequence[tuple[pl.Series, str]]) -> list[list[str | None]]:
    """Convert columns of values to RDF terms. `columns`: the values and their type. A missing value becomes None."""
    alike: defaultdict[tuple[str, object], list[int]] = defaultdict(list)
    for place, (column, type) in enumerate(columns):
        alike[type, column.dtype if type != "any" else place].append(place)
    term_columns: list[list[str | None]] = [[] for _ in columns]
    for (type, _), places in alike.items():
        few = [columns[place][0].alias("v") for place in places]
        terms = _value(few[0] if len(few) == 1 else pl.concat(few), type).to_list()
        ends = accumulate(map(len, few))
        for place, column, end in zip(places, few, ends):
            term_columns[place] = terms[end - len(column) : end]
    return term_columns


def _stamps(columns: Sequence[pl.Series]) -> dict[int, str]:
    """Return, for each time in the columns, its text in the IRI of an instant. The result is sorted by time."""
    times = sorted({time for column in columns for time in column.to_list() if time is not None})
    stamps = pl.Series("t", times, dtype=pl.Int64).to_frame().select(_stamp(pl.col("t"))).to_series().to_list()
    return dict(zip(times, stamps, strict=True))


def _instants(stamps: Sequence[str], vocabulary: EventVocabulary) -> Iterator[str]:
    """Yield the triples of instants, and of the minutes, hours and days that contain them. `stamps`: their texts."""
    minutes = dict.fromkeys(stamp[:-11] for stamp in stamps)  # without `:00.000000Z`
    hours = dict.fromkeys(minute[:-3] for minute in minutes)
    span, within = vocabulary.hour(), f"<{TIME}intervalContains>"
    for stamp in stamps:
        instant, moment = f"<{vocabulary.instant()}{stamp}>", stamp[:-1].rstrip("0").rstrip(".")
        yield f'{instant} <{TIME}inXSDDateTimeStamp> "{moment}Z"^^<{XSD}dateTime> .\n'
        yield f"<{span}{stamp[:-11]}> <{TIME}inside> {instant} .\n"
    for minute in minutes:
        yield f"<{span}{minute[:-3]}> {within} <{span}{minute}> .\n"
    for hour in hours:
        yield f"<{vocabulary.days}> {within} <{span}{hour[:-3]}> .\n"
        yield f"<{span}{hour[:-3]}> {within} <{span}{hour}> .\n"


def _stamp(ticks: pl.Expr) -> pl.Expr:
    time = ticks.cast(pl.Datetime("us"))
    return time.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").str.strip_prefix("+")


def _moment(ticks: pl.Expr) -> pl.Expr:
    return _stamp(ticks).str.replace(r"\.?0+Z$", "Z")


def _period(ticks: pl.Expr) -> pl.Expr:
    """Convert durations to the lexical form of xsd:duration, such as `-P1DT2H3M4.5S` or `PT0S`."""
    whole, nothing = ticks.abs() // _SECOND, pl.lit("")
    rest = (
        ("." + (ticks.abs() % _SECOND).cast(pl.String).str.zfill(6)).str.strip_chars_end("0").str.strip_chars_end(".")
    )
    days = whole // 86_400
    parts = [(whole // 3_600 % 24, "H"), (whole // 60 % 60, "M")]
    texts = [pl.when(part > 0).then(part.cast(pl.String) + unit).otherwise(nothing) for part, unit in parts]
    second = (whole % 60).cast(pl.String) + rest + "S"
    texts.append(pl.when((second != "0S") | (ticks == 0)).then(second).otherwise(nothing))
    clock = pl.concat_str(texts)
    day = pl.when(days > 0).then(days.cast(pl.String) + "D").otherwise(nothing)
    sign = pl.when(ticks < 0).then(pl.lit("-")).otherwise(nothing)
    return pl.when(ticks.is_not_null()).then(
        sign + "P" + day + pl.when(clock != "").then("T" + clock).otherwise(nothing)
    )


def _numbers(column: pl.Series) -> pl.Series:
    texts = column.cast(pl.String).str.strip_suffix(".0")
    odd = texts.str.contains("[einN]").fill_null(False).arg_true()
    return texts.scatter(odd, [_number(value) for value in column[odd].to_list()]) if len(odd) else texts


def _number(value: float) -> str:
    """Write a float without an exponent, as the store writes it."""
    if not math.isfinite(value):
        return str(value).replace("inf", "INF").replace("nan", "NaN")
    return format(Decimal(repr(value)), "f").removesuffix(".0")


def _value(column: pl.Series, kind: str) -> pl.Series:
    """Convert values of one type to RDF terms. A missing value becomes null."""
    name = column.name
    if kind == "any":
        return _mixed(column)
    of = pl.col(name)
    match kind:
        case "string":
            term = _text(of)
        case "iri":
            term = pl.when(of.str.contains(_IRI)).then("<" + of + ">").otherwise(_text(of) + f"^^<{XSD}anyURI>")
        case "int":
            term = _typed(of.cast(pl.String), "integer")
        case "bool":
            term = _typed(of.cast(pl.String), "boolean")
        case "float":
            column, term = _numbers(column), _typed(of, "double")
        case "time":
            term = _typed(_moment(of), "dateTime")
        case _:
            assert kind == "duration", "all types are known"
            term = _typed(_period(of), "dayTimeDuration")
    return column.to_frame().select(term.alias(name)).to_series()


def _typed(text: pl.Expr, type: str) -> pl.Expr:
    return pl.lit('"') + text + f'"^^<{XSD}{type}>'


def _text(of: pl.Expr) -> pl.Expr:
    return pl.lit('"') + of.str.replace_many(list(_ESCAPES), list(_ESCAPES.values())) + '"'


def _mixed(column: pl.Series) -> pl.Series:
    return pl.Series(column.name, [_term(value) for value in column.to_list()], dtype=pl.String)


def _term(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return f'"{str(value).lower()}"^^<{XSD}boolean>'
    if isinstance(value, int):
        return f'"{value}"^^<{XSD}integer>'
    if isinstance(value, float):
        return f'"{_number(value)}"^^<{XSD}double>'
    if type(value) is not str and re.match(_IRI, value):
        return f"<{value}>"
    return quoted(value)


def triple_line(subject: str, property: str, object: str) -> str:
    """Write a triple of three IRIs."""
    return f"<{subject}> <{property}> <{object}> .\n"


def quoted(text: str) -> str:
    """Write a text as a literal."""
    return '"' + "".join(_ESCAPES.get(letter, letter) for letter in text) + '"'

"""Occurrences as triples, by columns: N-Triples text, which N-Quads, Turtle and TriG read as well.

Literals are in the form in which the store gives them back: a file and a server agree (decisions/2026-11-22-forms.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import polars as pl

from cep.core.identity import ID, identity_hashes, occurrence_texts
from cep.core.schema import Attribute, Schema
from connectors.rdf.vocabulary import PROV, RDF, SOSA, TIME, XSD, EventVocabulary

_IRI = r"^[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*$"
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\u0000"}
_SECOND = 1_000_000


def event_triples(table: pl.DataFrame, schema: Schema, vocabulary: EventVocabulary, activity: str | None) -> str:
    """Derived occurrences, with `@id`: class, arguments, beginning and end, the activity that made all of them, None:
    that is said otherwise; and their instants."""
    subject = pl.lit(f"<{vocabulary.event()}") + pl.col(ID) + ">"
    made = [] if activity is None else [_link(subject, PROV + "wasGeneratedBy", activity)]
    return _occurrences(table, schema, vocabulary, subject, [RDF + "type", vocabulary.type(schema)], made)


def reading_triples(table: pl.DataFrame, schema: Schema, vocabulary: EventVocabulary) -> str:
    """Input records as observations, each of its instant or interval, with its result at the end of that. Records that
    agree in all things are one."""
    ids = pl.Series(ID, reading_ids(table, schema), dtype=pl.String)
    table = table.with_columns(ids).unique(ID, maintain_order=True)
    subject = pl.lit(f"<{vocabulary.reading()}") + pl.col(ID) + ">"
    stamp = _typed(_moment(pl.col("end")), "dateTime")
    begin, end = (f"<{vocabulary.instant()}" + _stamp(pl.col(column)) + ">" for column in ("start", "end"))
    interval = f"<{vocabulary.interval()}" + _stamp(pl.col("start")) + "/" + _stamp(pl.col("end")) + ">"
    lasting = pl.col("start") < pl.col("end")
    more = [
        _link(subject, RDF + "type", SOSA + "Observation"),
        subject + f" <{SOSA}resultTime> " + stamp + " .\n",
        subject + f" <{SOSA}phenomenonTime> " + pl.when(lasting).then(interval).otherwise(end) + " .\n",
        pl.when(lasting)
        .then(interval + f" <{TIME}hasBeginning> " + begin + " .\n" + interval + f" <{TIME}hasEnd> " + end + " .\n")
        .otherwise(pl.lit("")),
    ]
    return _occurrences(table, schema, vocabulary, subject, [RDF + "type", vocabulary.type(schema)], more)


def reading_ids(table: pl.DataFrame, schema: Schema) -> list[str]:
    """The names of input records, which say what is in them."""
    return identity_hashes(occurrence_texts(table, schema), "")


def stamp(time: int) -> str:
    """An instant, microseconds, as IRIs have it, which are sorted as time is: `2013-02-08T21:00:00.000000Z`."""
    return str(pl.select(_stamp(pl.lit(time, dtype=pl.Int64))).item())


# --- columns ---


def _occurrences(
    table: pl.DataFrame,
    schema: Schema,
    vocabulary: EventVocabulary,
    subject: pl.Expr,
    kind: Sequence[str],
    more: Sequence[pl.Expr],
) -> str:
    if not table.height:
        return ""
    parts = [_link(subject, *kind), *more]
    for way, column in (("hasBeginning", "start"), ("hasEnd", "end")):
        known = subject + f" <{TIME}{way}> <{vocabulary.instant()}" + _stamp(pl.col(column)) + "> .\n"
        parts.append(known if schema.fluent is None else known.fill_null(""))  # what still holds has no end
    for number, attribute in enumerate(schema.attributes):
        head = f" <{vocabulary.property(schema, number)}> "
        value = _value(table[attribute.name], attribute)
        table = table.with_columns(value.alias(f"@{number}"))
        written = subject + head + pl.col(f"@{number}") + " .\n"
        parts.append(pl.when(pl.col(f"@{number}").is_null()).then(pl.lit("")).otherwise(written))
    texts = table.select(pl.concat_str(parts)).to_series().to_list()
    return "".join(texts) + _instants(pl.concat([table["start"], table["end"]]), vocabulary)


def _instants(times: pl.Series, vocabulary: EventVocabulary) -> str:
    """Instants with their times, in their minutes, in their hours, in their days."""
    found = times.drop_nulls().unique().sort().to_frame("t").with_columns(_stamp(pl.col("t")).alias("s"))
    instant = pl.lit(f"<{vocabulary.instant()}") + pl.col("s") + ">"
    found = found.with_columns(pl.col("s").str.head(-11).alias("m"))  # `:00.000000Z` goes
    lines = found.select(
        instant + f" <{TIME}inXSDDateTimeStamp> " + _typed(_moment(pl.col("t")), "dateTime") + " .\n"
        f"<{vocabulary.hour()}" + pl.col("m") + f"> <{TIME}inside> " + instant + " .\n"
    )
    minutes = found.select("m").unique(maintain_order=True).with_columns(pl.col("m").str.head(-3).alias("h"))
    hours = minutes.select("h").unique(maintain_order=True).with_columns(pl.col("h").str.head(-3).alias("d"))
    within = f"> <{TIME}intervalContains> <{vocabulary.hour()}"
    spans = minutes.select(f"<{vocabulary.hour()}" + pl.col("h") + within + pl.col("m") + "> .\n")
    days = hours.select(
        pl.lit(f"<{vocabulary.days}{within}") + pl.col("d") + "> .\n"
        f"<{vocabulary.hour()}" + pl.col("d") + within + pl.col("h") + "> .\n"
    )  # fmt: skip
    return "".join(line for part in (lines, spans, days) for line in part.to_series().to_list())


def _link(subject: pl.Expr, property: str, object: str) -> pl.Expr:
    return subject + f" <{property}> <{object}> .\n"


def _stamp(ticks: pl.Expr) -> pl.Expr:
    time = ticks.cast(pl.Datetime("us"))
    return time.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").str.strip_prefix("+")


def _moment(ticks: pl.Expr) -> pl.Expr:
    """A time as a literal has it."""
    return _stamp(ticks).str.replace(r"\.?0+Z$", "Z")


def _period(ticks: pl.Expr) -> pl.Expr:
    """A duration: `-P1DT2H3M4.5S`, `PT0S`."""
    whole, nothing = ticks.abs() // _SECOND, pl.lit("")
    rest = (
        ("." + (ticks.abs() % _SECOND).cast(pl.String).str.zfill(6)).str.strip_chars_end("0").str.strip_chars_end(".")
    )
    days = whole // 86_400
    parts = [(whole // 3_600 % 24, "H"), (whole // 60 % 60, "M")]
    found = [pl.when(part > 0).then(part.cast(pl.String) + unit).otherwise(nothing) for part, unit in parts]
    second = (whole % 60).cast(pl.String) + rest + "S"
    found.append(pl.when((second != "0S") | (ticks == 0)).then(second).otherwise(nothing))
    clock = pl.concat_str(found)
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
    """A float without an exponent, as the store writes it."""
    if not math.isfinite(value):
        return str(value).replace("inf", "INF").replace("nan", "NaN")
    return format(Decimal(repr(value)), "f").removesuffix(".0")


def _value(column: pl.Series, attribute: Attribute) -> pl.Series:
    """Values as terms, null where there is none."""
    name, kind = column.name, attribute.type
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
    """Values of several types."""
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
    """A triple of three IRIs."""
    return f"<{subject}> <{property}> <{object}> .\n"


def quoted(text: str) -> str:
    """A text as a literal."""
    return '"' + "".join(_ESCAPES.get(letter, letter) for letter in text) + '"'

"""Detection of the layout of text tables such as CSV: separator, decimal mark, thousands mark and encoding."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from cep.connectors.formats.csv import header
from cep.connectors.infer.sample import RecordSample
from cep.connectors.infer.types import ABSENT, MOSTLY, most_times
from cep.connectors.records.paths import EACH, level
from cep.connectors.records.thousands import is_grouped, plain_number
from cep.connectors.records.times import is_number
from cep.connectors.records.values import with_point
from cep.core.errors import CepError
from cep.core.schema import RecordFormat

SEPARATORS = ";\t|,"
BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
MARKS = (",", ".", "'", "\u2019", " ", "\u00a0", "\u202f", "_")
"""Characters that may separate groups of three digits in a number."""
COMMENTS = ("//", "#", "%", "!")
"""Texts with which a comment may begin."""
_SEPARATED = re.compile(r"sep=([;,|\t])")
"""The line `sep=;` that Excel writes above a table."""
_VALUE = re.compile(r"[+-]?[.,]?\d[\d\s.,:/'TZeE+-]*([AaPp][Mm])?")
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}\b(?!\1)|\d{4}-\d\d-\d\dT")
_CAMPBELL = "TOA5"
"""The first field of a table written by a Campbell data logger."""
_UNIT_ROWS = 3
"""The maximum number of rows with units that may follow a header."""
_LOOKED_AT = 50
"""The number of lines that are examined to find the layout of a table."""
_SHOWN = 2_000
"""The number of values per column that are examined to find the decimal mark and the thousands mark."""


def table_sample(stream: Any, limit: int, kind: str) -> RecordSample:
    """Read the first `limit` records of a text table, and find its layout.

    The separator is the one that splits most lines into the same number of fields. The decimal mark and the thousands
    mark are those with which the most columns are numeric. The records begin after the preamble, the header and the
    rows of units, if the table has them.
    """
    data = b"".join(islice(iter(lambda: stream.read(1 << 16), b""), max(16, limit // 100)))
    text, encoding = _decoded(data)
    lines = [line.removesuffix("\r") for line in text.split("\n")[: limit + _LOOKED_AT]]
    sample = RecordSample(None, text=True)
    if any(line.startswith("#fields\t") for line in lines[:_LOOKED_AT]):
        return _of_zeek(lines, limit, sample)
    usual = "\t" if kind == "tsv" else ","
    layout = _layout(lines, usual)
    if layout is None:
        return sample
    for row in islice(_rows(layout.lines, layout.separator), limit):
        if len(row) == len(layout.names):
            pairs = zip(layout.names, row, strict=True)
            sample.add({name: None if value in ("", "NA") else value for name, value in pairs})
        elif row:
            sample.unreadable += 1
    for name in dict.fromkeys(layout.names):
        why = _unnamed(name, layout.names)
        if why is not None and sample.columns.pop(name, None) is not None:
            sample.left_out[name] = why
    decimal, thousands = _marks(sample, layout.separator)
    options = (
        ("separator", None if layout.separator == usual else layout.separator),
        ("decimal", None if decimal == "." else decimal),
        ("thousands", thousands),
        ("comment", layout.comment),
        ("encoding", encoding),
        ("columns", ", ".join(layout.names) if layout.headless else None),
        ("skip", str(layout.skip) if layout.skip else None),
        ("units", str(layout.units) if layout.units else None),
    )
    said = tuple((name, value) for name, value in options if value is not None)
    sample.format = RecordFormat("csv", said) if said else None
    sample.remarks += layout.remarks
    if (remark := _apart_by_blanks(layout, lines)) is not None:
        sample.remarks.append(remark)
    sample.nameless = layout.nameless
    return sample


def is_zeek(head: bytes) -> bool:
    """Return True if a file begins like a Zeek log that names its columns."""
    return head.startswith(b"#") and b"\n#fields\t" in head


def _of_zeek(lines: Sequence[str], limit: int, sample: RecordSample) -> RecordSample:
    """Read a Zeek log. It names its columns in a comment."""
    names: list[str] = []
    for line in lines:
        if line.startswith("#fields\t"):
            names = line.split("\t")[1:]
        if not line or line.startswith("#") or sample.count >= limit:
            continue
        values = line.split("\t")
        if len(values) == len(names):
            sample.add({name: None if value in ("-", "(empty)") else value for name, value in zip(names, values)})
        else:
            sample.unreadable += 1
    sample.format = RecordFormat("zeek")
    return sample


@dataclass(slots=True)
class _Layout:
    """The layout of a table.

    - `lines`: the lines that contain records.
    - `skip`: the number of lines above the header, which are not read.
    - `names`: the names of the columns, from the header or from a comment.
    - `units`: the number of rows of units below the header.
    - `headless`: True if the table has no header.
    - `nameless`: True if neither a header nor a comment names the columns.
    """

    separator: str
    lines: list[str]
    names: list[str]
    comment: str | None
    skip: int = 0
    units: int = 0
    headless: bool = False
    nameless: bool = False
    remarks: list[str] = field(default_factory=list)


def _layout(lines: Sequence[str], usual: str) -> _Layout | None:
    """Return the layout of a table, or None if the table has no lines.

    `usual`: the separator to use if no other separator fits better.
    """
    said = _SEPARATED.fullmatch(lines[0]) if lines else None
    skip = 1 if said else 0
    first = next((line for line in lines[skip:] if line.strip()), "")
    comment = next((mark for mark in COMMENTS if first.startswith(mark)), None)
    remarked = [line for line in lines if comment is not None and line.startswith(comment)]
    places = [place for place in range(skip, len(lines)) if comment is None or not lines[place].startswith(comment)]
    if not any(lines[place].strip() for place in places):
        comment, places = None, list(range(skip, len(lines)))
    plain = [lines[place] for place in places]
    separator = said[1] if said else _separator(plain, usual)
    widths = [len(row) for row in _rows(plain[:_LOOKED_AT], separator) if row]
    if not widths:
        return None
    width = max(dict.fromkeys(widths), key=lambda width_seen: (widths.count(width_seen), width_seen))
    above = 0
    while above < len(plain) and len(next(_rows(plain[above : above + 1], separator), [])) != width:
        above += 1
    if 0 < above < min(len(plain), _LOOKED_AT):
        plain, skip = plain[above:], places[above]
    if plain[:1] == [] or not plain[0]:
        return None
    rows = [row for row in islice(_rows(plain, separator), _LOOKED_AT) if row]
    if rows[0][0] == _CAMPBELL and len(rows) > 1:
        place = next(number for number, line in enumerate(plain[1:], 1) if line.strip())
        skip = next(number for number in places if number > skip and lines[number] == plain[place])
        plain, rows = plain[place:], rows[1:]
    sized = _sized(rows[1:])
    if _is_header(rows[0], rows[1:]):
        names = header("", plain[0].encode("utf-8", "surrogateescape"), separator)
        units = _units(rows[1:], sized)
        return _Layout(separator, plain[1 + units :], names, comment, skip, units)
    told = None
    for line in reversed(remarked):
        named = _named(line, comment, separator, width)
        if named is None and told is not None:
            break
        told = named or told  # the first of several lines; units are below it
    names = told or [f"c{place}" for place in range(1, width + 1)]
    layout = _Layout(separator, plain, names, comment, skip, headless=True, nameless=told is None)
    where = "its columns are named in a comment" if told else "give the columns names of your own, in this order"
    layout.remarks.append(f"the table has no header: {where}")
    return layout


def _named(line: str, comment: str | None, separator: str, width: int) -> list[str] | None:
    text = line.removeprefix(comment or "").strip()
    for row in ([cell.strip() for cell in next(_rows([text], separator), [])], text.split()):
        plain = all(row) and len(set(row)) == width and not any("," in name or _is_value(name) for name in row)
        if len(row) == width and plain:
            return row
    return None


def _is_value(text: str) -> bool:
    return _VALUE.fullmatch(text.strip()) is not None


def _is_header(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return True if the row `first`, which precedes `rows`, is a header rather than a record.

    It is a header if `rows` is empty, or if it contains only words. It is also a header if it contains a word in a
    column whose other rows contain dates, or words in at least half of the columns whose other rows contain values.
    Columns that are mostly empty do not count.
    """
    if not rows or not any(map(_is_value, first)):
        return True
    counts = [sum(place < len(row) and _is_value(row[place]) for row in rows) for place in range(len(first))]
    below = [place for place, count in enumerate(counts) if count and 2 * count >= max(counts)]
    words = [place for place in below if not _is_value(first[place]) and first[place].strip().lower() not in ABSENT]
    dated = any(place < len(row) and _DATE.match(row[place].strip()) for place in words for row in rows)
    return dated or 2 * len(words) >= len(below)


def _sized(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the indices of columns whose non-empty fields are mostly numbers or times."""
    later = rows[3:] or rows[1:] or rows
    width = max(map(len, later), default=0)
    fields = [[row[place] for row in later if place < len(row) and row[place].strip()] for place in range(width)]
    counts = [sum(map(_is_value, column)) for column in fields]
    return [place for place, count in enumerate(counts) if count and count >= MOSTLY * len(fields[place])]


def _units(rows: Sequence[Sequence[str]], sized: Sequence[int]) -> int:
    """Count the rows of units below the header. In a row of units, the columns of numbers and times contain words.

    `sized`: the indices of the columns of numbers and times.
    """
    count = 0
    for row in rows[: min(_UNIT_ROWS, len(rows) - 1)]:
        words = [row[place].strip() for place in sized if place < len(row)]
        if any(map(_is_value, words)) or not any(word.lower() not in ABSENT for word in words):
            break
        count += 1
    return count if len(sized) > 1 else 0


def _rows(lines: Sequence[str], separator: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader((line + "\n" for line in lines), delimiter=separator)
    except csv.Error as error:
        raise CepError(f"the table cannot be read: {error}", code="input") from None


def _apart_by_blanks(layout: _Layout, raw: Sequence[str]) -> str | None:
    """Return a remark if the rows of a table with a single column seem to consist of several fields, separated by
    blanks. Otherwise, return None."""
    lines = [line for line in layout.lines[:_LOOKED_AT] if line.strip()]
    if len(layout.names) != 1 or not lines:
        return None
    cut = [line.split() for line in lines]
    width = Counter(map(len, cut)).most_common(1)[0][0]
    rows = [row for row in cut if len(row) == width]
    named = layout.nameless or len(layout.names[0].split()) == width
    valued = sum(2 * sum(_is_value(row[place]) for row in rows) > len(rows) for place in range(width))
    texts = [line.strip() for line in lines]
    if width < 2 or not named or valued < 1 + layout.nameless or 2 * len(rows) <= len(lines):
        return None
    if most_times(texts)[1] * 2 > len(texts):
        return None
    mark = next((mark for mark in ",;|" if not any(mark in line for line in lines)), "\\t")
    command = f"tr -s ' ' '{mark}'"
    if any(line.startswith(" ") for line in raw):
        command = f"awk '{{$1=$1}}1' OFS='{mark}'"
    return f"the columns are separated by blanks, so they are read as one: `{command}` makes them {width}"


def _unnamed(name: str, names: Sequence[str]) -> str | None:
    if names.count(name) > 1:
        return f"{names.count(name)} columns are called so"
    if EACH in name or level(name) is not None:
        return "in a declaration the name means something else"
    return None


def _decoded(data: bytes) -> tuple[str, str | None]:
    for mark, name in BOMS:
        if data.startswith(mark):
            return data.decode("utf-8-sig" if name == "utf-8" else name, "replace"), None if name == "utf-8" else name
    try:
        return data.decode("utf-8"), None
    except UnicodeDecodeError as error:
        if error.start > len(data) - 4:  # a character that the sample cut off
            return data[: error.start].decode("utf-8"), None
        return data.decode("cp1252", "replace"), "cp1252"


def _separator(lines: Sequence[str], usual: str) -> str:
    """Return the separator that splits most lines into the same number of fields, at least two.

    If several separators split equally many lines in this way, return the one that yields the most fields.
    """

    def fit(mark: str) -> tuple[float, int, bool]:
        rows = [row for row in _rows(lines[:_LOOKED_AT], mark) if row]
        counts = Counter(map(len, rows))
        width, alike = max(counts.items(), key=lambda entry: (entry[1], entry[0]), default=(1, 0))
        return (alike / len(rows) if width > 1 else 0.0, width, mark == usual)

    best = max(SEPARATORS, key=fit)
    return best if fit(best)[0] > 0.5 else usual


def number(text: str, decimal: str, thousands: str | None) -> str | None:
    """Rewrite a number with a decimal point and without thousands marks. Return None if the text is not a number.

    `decimal`, `thousands`: the decimal mark and the thousands mark that the text may contain.
    """
    plain = text if thousands is None else plain_number(text, thousands, decimal)
    try:
        plain = with_point(plain, decimal)
    except ValueError:
        return None
    return plain if is_number(plain) else None


def _marks(sample: RecordSample, separator: str) -> tuple[str, str | None]:
    """Return the decimal mark and the thousands mark with which the most columns are numeric.

    If several pairs of marks are equally good, prefer a decimal point without a thousands mark.
    """
    columns = [
        [value.strip(" \t") for value in column if value is not None and value.strip(" \t").lower() not in ABSENT]
        for column in sample.columns.values()
    ]
    columns = [column[:_SHOWN] for column in columns if column]
    best: tuple[str, str | None] = (".", None)
    most = _numeric(columns, *best)
    for mark in (None, *MARKS):
        for decimal in (".", ","):
            if decimal in (separator, mark) or (mark is not None and not _marked(columns, mark, decimal)):
                continue
            numeric = _numeric(columns, decimal, mark)
            if numeric[0] > most[0] or (mark is None and numeric > most):
                best, most = (decimal, mark), numeric
    return best


def _marked(columns: Sequence[Sequence[str]], mark: str, decimal: str) -> bool:
    return any(is_grouped(value, mark, decimal) for column in columns for value in column)


def _numeric(columns: Sequence[Sequence[str]], decimal: str, thousands: str | None) -> tuple[int, int]:
    fits = [[number(value, decimal, thousands) is not None for value in column] for column in columns]
    return sum(map(all, fits)), sum(map(sum, fits))

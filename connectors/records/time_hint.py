"""Hints for error messages about a record that lacks the declared time. They say where the record stores its time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from cep.connectors.records.paths import EACH, Path, has, path, written
from cep.connectors.records.times import is_number, likely_unit, of_iso
from cep.core.schema import Schema

TIMELY = re.compile(
    r"time|date|stamp|zeit|datum|uhr|clock|^ts$|_ts$|_at$|(?-i:[a-z]At$)|epoch|^t$"
    r"|^(when|seen|sent|received|recorded|measured|observed|begin|start|end|until|from|to|day)$",
    re.I,
)
"""A pattern for names that suggest a time."""
_INFER = "`cep infer FILE` prints the declaration that fits a file"
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PREFERRED = ("time", "timestamp", "ts", "datetime", "t", "date")


def likely(names: Iterable[str]) -> str | None:
    """Return the name that most likely belongs to a time. Return None if no name suggests a time."""
    timely = [name for name in names if TIMELY.search(name)]

    def rank(name: str) -> int:
        return _PREFERRED.index(name.lower()) if name.lower() in _PREFERRED else len(_PREFERRED)

    return min(timely, key=rank, default=None)


def column_name(source: str) -> str:
    """Write the name of a column, or a path, in the syntax of declarations."""
    return source if _WORD.fullmatch(source) else f'"{source}"'


def time_hint(record: Mapping[str, Any], schema: Schema) -> str:
    """Suggest how to declare the time of a JSON record that lacks the declared time."""
    named_one = schema.time is not None
    if schema.start is not None or schema.further or (named_one and has(record, path(str(schema.time)))):
        return ""
    places = {written(steps): value for steps, value in _leaves(record, ()) if path(written(steps)) == steps}
    forms = {source: form for source, value in places.items() if (form := _form(value)) is not None}
    named = {source: source for source in forms if TIMELY.search(path(source)[-1].removesuffix(EACH))}
    best = likely(named)
    if best is None and len(forms) == 1:
        best = next(iter(forms))
    if named_one:
        return "" if best is None else f"`{best}` looks like the time: `TIME {column_name(best)}{forms[best]}`"
    if best is None:
        return f"add `TIME column` after the attributes to name it; {_INFER}"
    clause = f"`TIME {column_name(best)}{forms[best]}`"
    return f"`{best}` looks like the time: add {clause} after the attributes; {_INFER}"


def _form(value: Any) -> str | None:
    """Return the FORMAT clause for a value that looks like a time.

    Return an empty text if the value needs no FORMAT clause. Return None if the value does not look like a time.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    text = str(value).strip()
    if is_number(text) and len(text) < 30:
        unit = likely_unit(Decimal(text))
        quoted = type(value) is str
        return None if unit is None else "" if unit == "s" and not quoted else f" FORMAT epoch {unit}"
    try:
        of_iso(text)
    except ValueError:
        return None
    return ""


def _leaves(value: Any, above: Path, deep: int = 4) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and deep:
        for name, inner in value.items():
            yield from _leaves(inner, (*above, name), deep - 1)
    elif isinstance(value, list) and value and deep and EACH not in above:
        yield from _leaves(value[0], (*above, EACH), deep - 1)
    elif above and not isinstance(value, dict | list):
        yield above, value

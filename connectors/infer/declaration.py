"""The declaration of an event from a sample of its records: its time, its attributes and their names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cep.core.schema import Attribute, RecordFormat, Schema, TimeFormat
from cep.rules.keywords import RESERVED
from cep.rules.printing import record_format
from cep.rules.static.typed_facts import FactAttribute, FactDeclaration
from connectors.infer.sample import RecordSample
from connectors.infer.sensors import SENSORS
from connectors.infer.types import Guess, clock_pattern, guess, timely
from connectors.paths import EACH, path

TAKEN = frozenset(("type", "time", "start", "end", "args"))
"""Names that no attribute has."""
_PLAIN = frozenset(("id", "value", "name", "unit", "key", "data", "n", "v", "x", "y"))
"""Last steps of paths that say too little alone."""
_PREFERRED = (
    "time",
    "timestamp",
    "ts",
    "datetime",
    "date_time",
    "observed_at",
    "event_time",
    "phenomenontime",
    "t",
    "date",
)
_BEGINS = ("start", "begin", "from", "started", "started_at", "start_time", "departed")
_ENDS = ("end", "stop", "to", "until", "ended", "ended_at", "end_time", "arrived", "landed")


@dataclass(slots=True)
class Inferred:
    """A declaration as a schema; `notes`: by attribute what its values are like; `remarks`: what else to know;
    `facts`: the declaration of facts that fits as well, where there is no time."""

    schema: Schema
    notes: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    facts: str | None = None


def inferred(sample: RecordSample, name: str) -> Inferred:
    """The declaration that fits the sample, of an event of this name where its records have none."""
    decimal = (sample.records.option("decimal") if sample.records else None) or "."
    guesses = {
        source: guess(source.rpartition(".")[2], column, sample.text, decimal, sample.typed.get(source))
        for source, column in sample.columns.items()
    }
    own = sample.records is not None and sample.records.name in SENSORS  # the format has a time of its own
    times, clock, format = ((), None, None) if own else _times(sample, guesses)
    made = Inferred(Schema("", (), True, False))
    names = _names([source for source in guesses if source not in (*times, clock)])
    attributes = []
    for source, called in names.items():
        found = guesses[source]
        known = found.format if found.type == "time" else None
        missing = found.missing or None
        attributes.append(
            Attribute(
                called,
                found.type,
                found.optional,
                source=None if source == called else source,
                format=known,
                missing=missing,
            )
        )
        made.notes[called] = _note(found, sample.count)
    one = times[0] if len(times) == 1 else None
    start, end = times if len(times) == 2 else (None, None)
    title = _event_name(sample.name or name)
    records = sample.records
    if own and records is not None and sample.name not in (None, title):
        records = RecordFormat(records.name, (("measurement", str(sample.name)), *records.options))
    made.schema = Schema(title, tuple(attributes), True, one is not None, one, start, end, None, clock, format, records)
    if sample.name not in (None, title) and not own:
        made.remarks.append(f"the records say that their type is `{sample.name}`: an event is called `{title}`")
    if own:
        made.remarks += sample.remarks
    elif not times:
        made.remarks.append("no column looks like the time of an event: name it with TIME")
        made.facts = _facts(made.schema, sample)
    elif guesses[times[0]].local:
        made.remarks.append('times have no offset and are read as UTC: ZONE "Europe/Zurich" says otherwise')
    if times and (note := guesses[times[0]].note):
        made.remarks.append(f"of `{times[0]}`, {note}")
    made.remarks += [f"`{source}` is left out: {why}" for source, why in sample.left_out.items()]
    if sample.unreadable:
        some = "1 line is no record" if sample.unreadable == 1 else f"{sample.unreadable} lines are no records"
        made.remarks.append(some)
    return made


def _facts(schema: Schema, sample: RecordSample) -> str | None:
    """The declaration of facts: its attributes have the columns' own names. None: a column has no name of the language,
    or values that facts do not have."""
    sources = [each.source or each.name for each in schema.attributes]
    if any(path(source) != (source,) or _identifier(source) != source.lower() for source in sources):
        return None
    attributes = tuple(
        FactAttribute(source.lower(), each.type, each.optional) for source, each in zip(sources, schema.attributes)
    )
    return f"fact {FactDeclaration(schema.name, attributes)}{record_format(sample.records)}." if attributes else None


def _times(sample: RecordSample, guesses: Mapping[str, Guess]) -> tuple[tuple[str, ...], str | None, TimeFormat | None]:
    """The columns of the time, one or two of an interval; one of the time of day besides; and how they are written."""
    last = {source: path(source)[-1].lower() for source in guesses}
    whole = [source for source, found in guesses.items() if found.type == "time" and not found.optional]
    begin = next((source for word in _BEGINS for source in whole if last[source] == word), None)
    end = next((source for word in _ENDS for source in whole if last[source] == word), None)
    if begin is not None and end is not None and guesses[begin].format == guesses[end].format:
        return (begin, end), None, guesses[begin].format
    for day in whole:
        clock = _clock_of(day, sample, guesses) if guesses[day].day else None
        if clock is not None:
            source, pattern = clock
            format = guesses[day].format
            if format is not None:
                format = TimeFormat(f"{format.pattern} {pattern}")
            elif pattern not in ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f"):
                format = TimeFormat(f"%Y-%m-%d {pattern}")
            return (day,), source, format

    def rank(source: str) -> tuple[bool, int, bool, int]:
        word = last[source]
        place = _PREFERRED.index(word) if word in _PREFERRED else len(_PREFERRED)
        return guesses[source].day, place, not timely(word), whole.index(source)

    best = min(whole, key=rank, default=None)
    return ((), None, None) if best is None else ((best,), None, guesses[best].format)


def _clock_of(day: str, sample: RecordSample, guesses: Mapping[str, Guess]) -> tuple[str, str] | None:
    for source, column in sample.columns.items():
        if source != day and guesses[source].type in ("string", "float") and path(source)[:-1] == path(day)[:-1]:
            pattern = None if None in column else clock_pattern(column)
            if pattern is not None:
                return source, pattern
    return None


def _names(sources: Sequence[str]) -> dict[str, str]:
    """By source the name of the attribute: the last step of its path, with those before where that says too little."""
    found: dict[str, str] = {}
    used: set[str] = set()
    last = [path(source)[-1] if path(source)[-1] != EACH else path(source)[-2] for source in sources]
    for source, step in zip(sources, last, strict=True):
        steps = [each for each in path(source) if each != EACH]
        alone = len(steps) == 1 or (step.lower() not in _PLAIN and last.count(step) == 1)
        name = base = _identifier(step if alone else "_".join(steps[-2:]))
        number = 2
        while name in used:
            name, number = f"{base}_{number}", number + 1
        used.add(name)
        found[source] = name
    return found


def _identifier(text: str) -> str:
    """A name of the language: `Wind speed (m/s)` is `wind_speed_m_s`, `windSpeed` is `wind_speed`."""
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore").decode()
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", plain)
    name = re.sub(r"\W+", "_", apart).strip("_").lower()
    if not name or not name[0].isalpha():
        name = f"x_{name}".rstrip("_")
    return f"{name}_" if name in TAKEN or name.upper() in RESERVED else name


def _event_name(text: str) -> str:
    name = _identifier(text)
    return f"{name}s" if name.upper() in ("EVENT", "PREFIX", "FLUENT", "FACT", "POLICY", "ALERT") else name


def _note(found: Guess, count: int) -> str:
    """What values there are: a range of numbers, a few texts, how many are missing."""
    parts = []
    values = found.values
    if found.type in ("int", "float") and values:
        low, high = _number(min(values)), _number(max(values))
        parts.append(low if low == high else f"{low} to {high}")
    elif found.type in ("string", "iri") and values:
        distinct = list(dict.fromkeys(values))
        if len(distinct) <= 3:
            parts.append(", ".join(_shown(each) for each in distinct))
        else:
            parts.append(f"{_shown(distinct[0])}, {_shown(distinct[1])}, .. ({len(distinct)})")
    absent = count - len(values)
    if absent and values:
        parts.append(f"missing in {absent} of {count}")
    if found.note:
        parts.append(found.note)
    return "; ".join(parts)


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _shown(value: Any) -> str:
    text = str(value)
    return f'"{text[:24] + ".." if len(text) > 26 else text}"'

"""The declaration of an event type, derived from a sample of its records: its time, its attributes and their names."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from cep.connectors.formats.known import FORMATS
from cep.connectors.infer.event_times import event_times, local, mostly_times, set_back
from cep.connectors.infer.names import event_name, identifier, names
from cep.connectors.infer.sample import RecordSample
from cep.connectors.infer.types import Guess, guess
from cep.connectors.records.paths import EACH, path, source_of
from cep.core.schema import Attribute, RecordFormat, Schema
from cep.rules.printing import record_format
from cep.rules.static.typed_facts import FactAttribute, FactDeclaration


@dataclass(slots=True)
class Inferred:
    """An inferred declaration, as a schema.

    - `notes`: for each attribute, a summary of its values.
    - `remarks`: sentences about other properties of the records, which the user should read.
    - `facts`: a declaration of facts that also fits the records, if the records have no time. Otherwise None.
    """

    schema: Schema
    notes: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    facts: str | None = None


def inferred(sample: RecordSample, name: str) -> Inferred:
    """Return the declaration that fits the sample. `name`: a name for the event type if the records have none."""
    option = sample.format.option if sample.format is not None else lambda _: None
    marks = option("decimal") or ".", option("thousands")
    guesses: dict[str, Guess] = {}
    for source, column in sample.columns.items():
        last = path(source)[-1] if path(source)[-1] != EACH else path(source)[-2]
        last = "time" if sample.nameless else last
        guesses[source] = guess(last, column, sample.text, marks[0], sample.typed.get(source), marks[1])
    own = sample.format is not None and FORMATS[sample.format.name].of_sensors  # then the format defines the time
    times, further, format = ((), (), None) if own else event_times(sample, guesses)
    declaration = Inferred(Schema("", (), True, False))
    left_out = dict(sample.left_out)
    for source, guessed in guesses.items():
        if not guessed.type and source not in (*times, *further):
            left_out[source] = guessed.note
    sources = [source for source in guesses if source not in (*times, *further) and guesses[source].type]
    called = {source: f"arg{place}" for place, source in enumerate(sources, 1)} if sample.positional else names(sources)
    attributes = []
    for source, attribute in called.items():
        guessed = guesses[source]
        written = None if source == attribute or sample.positional else source
        known = guessed.format if guessed.type == "time" else None
        attributes.append(
            Attribute(
                attribute,
                guessed.type,
                guessed.optional,
                source=written,
                format=known,
                missing=guessed.missing or None,
                quoted=guessed.quoted,
            )
        )
        declaration.notes[attribute] = _note(guessed, sample.count)
    point = times[0] if len(times) == 1 else None
    start, end = times if len(times) == 2 else (None, None)
    title = event_name(sample.name or name)
    records = sample.format
    if own and records is not None and sample.name not in (None, title):
        named = "metric" if records.name == "prometheus" else "measurement"
        records = RecordFormat(records.name, ((named, str(sample.name)), *records.options))
    declaration.schema = Schema(
        title, tuple(attributes), True, point is not None, point, start, end, None, further, format, records
    )
    declaration.schema = replace(declaration.schema, when=sample.when)
    declaration.remarks = [*_binding(sample, title, own), *sample.remarks]
    if not own and not times:
        nearly = mostly_times(sample, guesses)
        declaration.remarks.append(f"no column looks like the time of an event: {nearly or 'name it with TIME'}")
        declaration.facts = _facts(declaration.schema, sample)
    elif not own and (guesses[times[0]].local or (point is None and times[0] == times[1] and local(sample, times[0]))):
        declaration.remarks.append('times have no offset and are read as UTC: ZONE "Europe/Zurich" says otherwise')
        if point is None and times[0] != times[1] and (number := set_back(sample, times[0], times[1], format)):
            some = "1 interval ends before it begins" if number == 1 else f"{number} intervals end before they begin"
            declaration.remarks.append(
                f'{some}, as where clocks are set back: ZONE "Europe/Zurich" FOLD order reads them'
            )
    for source in dict.fromkeys(times):
        words = ", ".join(json.dumps(word) for word in guesses[source].missing)
        if words:
            declaration.remarks.append(f"of `{source}`, {words} is not a time: such records become dead letters")
        elif note := guesses[source].note:
            declaration.remarks.append(f"of `{source}`, {note}")
        if absent := sample.columns[source].count(None):
            some = f"{absent} events have no `{source}`, and become dead letters"
            declaration.remarks.append(f"1 event has no `{source}`, and becomes a dead letter" if absent == 1 else some)
    declaration.remarks += [f"`{source}` is left out: {why}" for source, why in left_out.items()]
    if sample.unreadable:
        some = "1 line is not a record" if sample.unreadable == 1 else f"{sample.unreadable} lines are not records"
        declaration.remarks.append(some)
    declaration.remarks = list(map(shown, declaration.remarks))
    return declaration


def _binding(sample: RecordSample, title: str, own: bool) -> list[str]:
    bind = f"bind the file: `--input {title}=FILE`"
    if sample.bound:
        return [f"the `type` of the records is not an event: {bind}"]
    if own or sample.when is not None or sample.name in (None, title):
        return []
    return [f"the records say that their type is `{shown(str(sample.name))}`, the event is called `{title}`: {bind}"]


def _facts(schema: Schema, sample: RecordSample) -> str | None:
    sources = [source_of(attribute) for attribute in schema.attributes]
    if any(path(source) != (source,) or identifier(source) != source.lower() for source in sources):
        return None
    attributes = tuple(
        FactAttribute(source.lower(), attribute.type, attribute.optional, format=attribute.format)
        for source, attribute in zip(sources, schema.attributes)
    )
    return f"fact {FactDeclaration(schema.name, attributes)}{record_format(sample.format)}." if attributes else None


def _note(guess: Guess, count: int) -> str:
    """Summarise the values of a column: the range of its numbers or some texts, and the number of missing values.

    `count`: the number of values in the column, including missing values.
    """
    parts = []
    values = guess.values
    if guess.type in ("int", "float") and values:
        low, high = _number(min(values)), _number(max(values))
        parts.append(low if low == high else f"{low} to {high}")
    elif guess.type in ("string", "iri") and values:
        distinct = list(dict.fromkeys(values))
        if len(distinct) <= 3:
            parts.append(", ".join(_shown(text) for text in distinct))
        else:
            parts.append(f"{_shown(distinct[0])}, {_shown(distinct[1])}, .. ({len(distinct)})")
    absent = count - len(values) - guess.bad
    if absent and values:
        parts.append(f"missing in {absent} of {count}")
    if guess.note:
        parts.append(guess.note)
    return shown("; ".join(parts))


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _shown(value: Any) -> str:
    text = str(value)
    return f'"{text[:24] + ".." if len(text) > 26 else text}"'


def shown(text: str) -> str:
    """Return a text in a form that fits into a comment: on a single line, and with characters that UTF-8 can encode."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return printable.encode("utf-8", "replace").decode("utf-8")

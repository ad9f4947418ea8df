"""Detection of optional attributes without a value in any record, and of WHEN conditions that no record satisfies.

The cause may be a mistyped path.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cep.connectors.records.batch import Batch
from cep.connectors.records.paths import elsewhere, from_message, has, path, source_of
from cep.core.schema import Attribute, Schema

FEW = 10
"""The minimum number of records of an event type. With fewer records, its unused attributes are not reported."""

Lacking = Mapping[str, Mapping[str, str | None]]
"""The unused attributes of each event type, each with a hint that says where its value may be, or None."""


@dataclass(slots=True)
class NeverThere:
    """The optional attributes of each event type that have had no value in any record so far.

    The object keeps the first JSON record of each event type, because it shows whether a key is absent or has the value
    null. In other formats, each record has all columns, even if they are empty.
    """

    _lacking: dict[str, list[Attribute]]
    _records: Counter[str]
    _firsts: dict[str, Mapping[str, object]]
    _tested: dict[str, Schema]
    _unmatched: Mapping[str, object] | None = None

    @classmethod
    def of(cls, schemas: Mapping[str, Schema]) -> NeverThere:
        """Create the object with all optional attributes of the declared event types."""
        lacking = {
            name: [
                attribute
                for attribute in schema.attributes
                if attribute.optional and not from_message(source_of(attribute))
            ]
            for name, schema in schemas.items()
            if schema.declared and schema.fluent is None
        }
        tested = {name: schema for name, schema in schemas.items() if schema.when is not None}
        return cls({name: some for name, some in lacking.items() if some}, Counter(), {}, tested)

    def take(self, batch: Batch) -> None:
        """Remove the attributes that have a value in the batch from the unused ones. Whole columns are tested."""
        for name in self._tested.keys() & batch.tables.keys():
            if batch.tables[name].height:
                del self._tested[name]
        if self._tested and self._unmatched is None:
            unmatched = next((block.first_unmatched for block in batch.blocks if block.first_unmatched), None)
            self._unmatched = None if unmatched is None else _object(unmatched)
        for name in self._lacking.keys() & batch.tables.keys():
            table = batch.tables[name]
            if not table.height:
                continue
            if not self._records[name]:
                self._firsts[name] = first = _first(batch, name)
                self._lacking[name] = [
                    attribute for attribute in self._lacking[name] if first and not _written(first, attribute)
                ]
            self._records[name] += table.height
            self._lacking[name] = [
                attribute for attribute in self._lacking[name] if table[attribute.name].null_count() == table.height
            ]

    def lacking(self) -> Lacking:
        """Return the attributes that have had no value so far, each with a hint that says where its value may be."""
        return {
            name: {
                attribute.name: elsewhere(self._firsts[name], replace(attribute, source=source_of(attribute)))
                for attribute in lacking
            }
            for name, lacking in self._lacking.items()
            if self._records[name]
        }

    def remarks(self) -> list[str]:
        """Return remarks about unused event types, and about unused attributes of types with at least `FEW` records."""
        sources = {
            name: {attribute.name: source_of(attribute) for attribute in lacking}
            for name, lacking in self._lacking.items()
        }
        return [*self._never_passed(), *remarks(self.lacking(), self._records, sources)]

    def _never_passed(self) -> Iterator[str]:
        """Yield remarks about event types whose WHEN condition no record satisfies.

        There is only a remark if the first unmatched record lacks a path that the condition tests, but has a similar
        path.
        """
        record = self._unmatched or {}
        for name, schema in sorted(self._tested.items()):
            for source in schema.tested if record else ():
                where = None if source in record else elsewhere(record, Attribute(source, "any"))
                if where is not None and not has(record, path(source)):
                    where = where.replace("write FROM", "write WHEN")
                    yield f"no record is `{name}`: the first that is not an event has no value at `{source}`; {where}"


def remarks(lacking: Lacking, records: Mapping[str, int], sources: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return remarks about attributes that have no value in any record.

    `records`: the number of records of each event type. `sources`: for each event type, the source of each attribute.
    """
    texts = []
    for name, attributes in sorted(lacking.items()):
        for attribute, where in attributes.items() if records[name] >= FEW else ():
            what = f"none of the {records[name]} records of `{name}` has a value at `{sources[name][attribute]}`"
            texts.append(f"{what}: `{attribute}` is missing in all of them{'' if where is None else f'; {where}'}")
    return texts


def _written(record: Mapping[str, object], attribute: Attribute) -> bool:
    source = source_of(attribute)
    return source in record or "args" in record or has(record, path(source))


def _first(batch: Batch, type: str) -> Mapping[str, object]:
    try:
        return _object(batch.origin(type, 0)[2] or "")
    except OSError:
        return {}


def _object(text: str) -> Mapping[str, object]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}

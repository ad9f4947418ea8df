"""Optional attributes that no record has: perhaps their column or path after FROM is mistyped."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cep.core.schema import Attribute, Schema
from connectors.batch import Batch
from connectors.paths import elsewhere, from_message, has, path, source_of

FEW = 10
"""Records of an event from which what all of them lack is told."""


@dataclass(slots=True)
class NeverThere:
    """The optional attributes of each event that no record has had a value of. Of the first record the JSON is kept, to
    tell null from nothing: a table of another format has all its columns, whatever is in them."""

    _lacking: dict[str, list[Attribute]]
    _records: Counter[str]
    _firsts: dict[str, Mapping[str, object]]

    @classmethod
    def of(cls, schemas: Mapping[str, Schema]) -> NeverThere:
        """Of the events that are declared."""
        lacking = {
            name: [each for each in schema.attributes if each.optional and not from_message(source_of(each))]
            for name, schema in schemas.items()
            if schema.declared and schema.fluent is None
        }
        return cls({name: some for name, some in lacking.items() if some}, Counter(), {})

    def take(self, batch: Batch) -> None:
        """Further events, of which whole columns are looked at: nothing is done for each row."""
        for name in self._lacking.keys() & batch.tables.keys():
            table = batch.tables[name]
            if not table.height:
                continue
            if not self._records[name]:
                self._firsts[name] = first = _first(batch, name)
                self._lacking[name] = [each for each in self._lacking[name] if first and not _written(first, each)]
            self._records[name] += table.height
            self._lacking[name] = [
                each for each in self._lacking[name] if table[each.name].null_count() == table.height
            ]

    def remarks(self) -> list[str]:
        """What is told of them where there are enough records."""
        found = []
        for name, lacking in sorted(self._lacking.items()):
            for each in lacking if self._records[name] >= FEW else ():
                source = source_of(each)
                where = elsewhere(self._firsts[name], replace(each, source=source))
                what = f"none of the {self._records[name]} records of `{name}` has a value at `{source}`"
                found.append(f"{what}: `{each.name}` is missing in all of them{'' if where is None else f'; {where}'}")
        return found


def _written(found: Mapping[str, object], attribute: Attribute) -> bool:
    """Whether a record has what an attribute is read from, perhaps with nothing in it."""
    source = source_of(attribute)
    return source in found or "args" in found or has(found, path(source))


def _first(batch: Batch, type: str) -> Mapping[str, object]:
    """The first record of an event as JSON; nothing where it is none, or cannot be read again."""
    try:
        found = json.loads(batch.origin(type, 0)[2] or "")
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}

"""Detection of several event types in one stream. It finds a field that names the event type, so that a WHEN condition
can select each event type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cep.connectors.infer.names import event_name
from cep.connectors.infer.nested import writable
from cep.connectors.infer.types import NOTHING, allowed
from cep.connectors.records.paths import Path, path, written
from cep.connectors.records.values import FALSE_WORDS, TRUE_WORDS
from cep.core.schema import RecordTest

Records = Sequence[Mapping[str, Any]]
MOST = 12
"""The maximum number of distinct values of a field that names the event type."""
_LEAST = 4
"""The minimum number of records in which to look for several event types."""
_DEEP = 4
"""The maximum number of steps in a path to the field that names the event type."""
_BOOLEANS = frozenset((*TRUE_WORDS, *FALSE_WORDS))


def alternatives(records: Records) -> list[tuple[str, RecordTest, Records]]:
    """Return the event types of a stream. Each has a name, a test that selects its records, and these records.

    The result is empty if the stream seems to have a single event type. Several event types have one of three layouts:

    - A field, perhaps inside an object, names the event type. The field has few distinct values. For most of these
      values, the records have a key that no record with another value has.
    - Each record contains exactly one of several objects. The key of the object names the event type.
    - Each record has an object under the same key, and this object has exactly one of several fields. The field names
      the event type.

    A text that means "missing" does not count as a value. Keys that never have a value are ignored.
    """
    return [(name, test, _without_empty(some)) for name, test, some in _alternatives(records)]


def _without_empty(records: Records) -> Records:
    keys = {key for record in records for key in record if says(record[key])}
    return [{key: value for key, value in record.items() if key in keys} for record in records]


def says(value: Any) -> bool:
    """Return True if a value is present and is not a text that means "missing"."""
    return value is not None and not (type(value) is str and value.strip(" \t").lower() in NOTHING)


def _alternatives(records: Records) -> list[tuple[str, RecordTest, Records]]:
    if len(records) < _LEAST:
        return []
    flat = _flat(records)
    keys = sorted(dict.fromkeys(key for record in flat for key in record), key=lambda key: len(path(key)))
    groups = {key: groups_by_key for key in keys if (groups_by_key := _groups(flat, key))}
    addresses = {key for key, values in groups.items() if any("/" in value for value in values)}
    if parts := _by_value(records, flat, {key: groups[key] for key in groups if key not in addresses}):
        return parts
    top = [key for key in dict.fromkeys(key for record in records for key in record) if path(key) == (key,)]
    if objects := _objects(records, top):
        return [(key, RecordTest(key, "exists"), [record for record in records if record.get(key)]) for key in objects]
    if fields := _fields(records, flat, top):
        return [
            (path(key)[-1], RecordTest(key, "exists"), [records[row] for row in rows]) for key, rows in fields.items()
        ]
    return _by_value(records, flat, {key: groups[key] for key in groups if key in addresses})


def _by_value(
    records: Records, flat: Records, groups: Mapping[str, Mapping[str, Sequence[int]]]
) -> list[tuple[str, RecordTest, Records]]:
    """Group the records by the field that separates them best. Return the groups as `alternatives` does.

    A field separates records if most of its values have keys of their own. A key belongs to a value if only records
    with this value have the key.

    - `flat`: the records with one key per path (see `_flat`).
    - `groups`: for each candidate field, the indices of the records that have each of its values.
    """
    best, field = 0, ""
    for key, rows in groups.items():
        own = _having_own(flat, rows, key)
        if own >= max(2, len(rows) - 1) and own > best:
            best, field = own, key
    return [
        (value, RecordTest(field, "=", (value,)), [records[row] for row in rows])
        for value, rows in groups.get(field, {}).items()
    ]


def _flat(records: Records) -> list[dict[str, Any]]:
    """Flatten the records: return copies that have one key for each path that WHEN can name.

    If a top-level key looks like the path of a nested value, only the top-level key is used.
    """
    top = {key for record in records for key in record}
    names: dict[Path, str | None] = {}
    flat: list[dict[str, Any]] = []
    for record in records:
        flat.append({})
        waiting: list[tuple[Path, Any]] = [((key,), value) for key, value in record.items()]
        for steps, value in waiting:  # it grows during the loop
            if steps not in names:
                source = written(steps)
                names[steps] = source if writable(steps, top, source) else None
            if (name := names[steps]) is not None:
                flat[-1][name] = value
            if isinstance(value, dict) and len(steps) < _DEEP:
                waiting += [((*steps, key), inner) for key, inner in value.items()]
    return flat


def _groups(records: Records, key: str) -> dict[str, list[int]]:
    """Return, for each value of a key, the indices of the records that have this value.

    The result is empty if the values cannot be the names of event types, or if the key has too many values.
    """
    groups: dict[str, list[int]] = {}
    missing = 0
    for row, record in enumerate(records):
        value = record.get(key)
        if type(value) is not str or not says(value):
            missing += 1
            if missing > allowed(len(records)):
                return {}
            continue
        if not value[0].isalpha() or value.lower() in _BOOLEANS:
            return {}
        groups.setdefault(value, []).append(row)
        if len(groups) > MOST:
            return {}
    few = any(len(group) < 2 for group in groups.values())
    alike = len(set(map(event_name, groups))) < len(groups)
    return {} if few or alike or len(groups) < 2 else groups


def _having_own(records: Records, groups: Mapping[str, Sequence[int]], field: str) -> int:
    """Count the groups of records that have a key of their own. A group has such a key if almost all of its records
    have the key, and no record of another group has it."""
    counts = {name: Counter(_said(records, rows)) for name, rows in groups.items()}
    own_count = 0
    for name, some in groups.items():
        own = [key for key, count in counts[name].items() if count >= len(some) - allowed(len(some)) and key != field]
        own_count += any(all(key not in counts[other] for other in groups if other != name) for key in own)
    return own_count


def _said(records: Records, rows: Sequence[int]) -> Iterator[str]:
    return (key for row in rows for key, value in records[row].items() if says(value))


def _objects(records: Records, keys: Sequence[str]) -> list[str]:
    """Return the keys of several objects of which almost every record contains exactly one, or an empty list."""
    present = {key: [record.get(key) is not None for record in records] for key in keys}
    some = [
        key
        for key in keys
        if not all(present[key]) and all(isinstance(record.get(key), dict | type(None)) for record in records)
    ]
    some = [key for key in some if sum(present[key]) >= 2]
    alone = sum(sum(present[key][row] for key in some) == 1 for row in range(len(records)))
    return some if 2 <= len(some) <= MOST and len(records) - alone <= allowed(len(records)) else []


def _fields(records: Records, flat: Records, keys: Sequence[str]) -> dict[str, list[int]]:
    """Find a key whose objects each have exactly one of several fields, such as `temp` or `state` in `payload`.

    Return the indices of the records that have each of these fields. The result is empty if there is no such key. If
    several fields always appear together, only the first of them counts.
    """
    for key in keys:
        if sum(isinstance(record.get(key), dict) for record in records) < len(records) - allowed(len(records)):
            continue
        rows: dict[str, list[int]] = {}
        for row, fields in enumerate(flat):
            for name, value in fields.items():
                if path(name)[:-1] == (key,) and value is not None:  # as EXISTS tests it
                    rows.setdefault(name, []).append(row)
        chosen: dict[str, list[int]] = {}
        covered: set[int] = set()
        for name, some in sorted(rows.items(), key=lambda field_rows: -len(field_rows[1])):
            if covered.isdisjoint(some):
                chosen[name] = some
                covered.update(some)
        alike = len({event_name(path(name)[-1]) for name in chosen}) < len(chosen)
        few = any(len(some) < 2 for some in chosen.values())
        if 2 <= len(chosen) <= MOST and not alike and not few and len(records) - len(covered) <= allowed(len(records)):
            return {name: chosen[name] for name in rows if name in chosen}
    return {}

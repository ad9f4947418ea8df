"""Records of several events in one stream: by which of their values they are told apart, as WHEN does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cep.core.schema import RecordTest
from connectors.infer.names import event_name
from connectors.infer.types import NOTHING, allowed
from connectors.paths import path
from connectors.values import FALSE_WORDS, TRUE_WORDS

Records = Sequence[Mapping[str, Any]]
MOST = 12
"""So many values a field has at most that says which event a record is."""
_LEAST = 4
"""Records from which events are told apart."""
_BOOLEANS = frozenset((*TRUE_WORDS, *FALSE_WORDS))


def alternatives(records: Records) -> list[tuple[str, RecordTest, Records]]:
    """Events that records are, each with a name, its test and its records; nothing where they seem to be one event.

    A field says which where it has few values, and most of these have keys of their own; so do objects of which each
    record has one. A text that stands for a missing value is none; keys that have nothing else are left out.
    """
    return [(name, test, _without_empty(some)) for name, test, some in _alternatives(records)]


def _without_empty(records: Records) -> Records:
    """The records without keys of which none has a value."""
    there = {key for each in records for key in each if says(each[key])}
    return [{key: value for key, value in each.items() if key in there} for each in records]


def says(value: Any) -> bool:
    """Return True if a value is there, and no text that stands for a missing one."""
    return value is not None and not (type(value) is str and value.strip(" \t").lower() in NOTHING)


def _alternatives(records: Records) -> list[tuple[str, RecordTest, Records]]:
    if len(records) < _LEAST:
        return []
    keys = [key for key in dict.fromkeys(key for each in records for key in each) if path(key) == (key,)]
    best: tuple[int, dict[str, Records]] = (0, {})
    field = ""
    for key in keys:
        groups = _groups(records, key)
        own = _having_own(groups, key)
        if own >= max(2, len(groups) - 1) and own > best[0]:
            best, field = (own, groups), key
    if best[0]:
        return [(value, RecordTest(field, "=", (value,)), some) for value, some in best[1].items()]
    objects = _objects(records, keys)
    return [(key, RecordTest(key, "exists"), [each for each in records if each.get(key)]) for key in objects]


def _groups(records: Records, key: str) -> dict[str, Records]:
    """The records by the value of a key; nothing where it has too many values, or some that are no names of events."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for each in records:
        value = each.get(key)
        if type(value) is str and says(value):
            if not value[0].isalpha() or value.lower() in _BOOLEANS:
                return {}
            groups.setdefault(value, []).append(each)
            if len(groups) > MOST:
                return {}
    missing = len(records) - sum(map(len, groups.values()))
    few = any(len(group) < 2 for group in groups.values())
    alike = len(set(map(event_name, groups))) < len(groups)
    return {} if few or alike or len(groups) < 2 or missing > allowed(len(records)) else dict(groups)


def _having_own(groups: Mapping[str, Records], field: str) -> int:
    """How many groups have a key in almost all of their records that no other group has."""
    counts = {name: Counter(key for each in some for key in each if says(each[key])) for name, some in groups.items()}
    found = 0
    for name, some in groups.items():
        own = [key for key, count in counts[name].items() if count >= len(some) - allowed(len(some)) and key != field]
        found += any(all(key not in counts[other] for other in groups if other != name) for key in own)
    return found


def _objects(records: Records, keys: Sequence[str]) -> list[str]:
    """The objects of which almost each record has one, and no other."""
    there = {key: [each.get(key) is not None for each in records] for key in keys}
    some = [
        key
        for key in keys
        if not all(there[key]) and all(isinstance(each.get(key), dict | type(None)) for each in records)
    ]
    some = [key for key in some if sum(there[key]) >= 2]
    alone = sum(sum(there[key][row] for key in some) == 1 for row in range(len(records)))
    return some if 2 <= len(some) <= MOST and len(records) - alone <= allowed(len(records)) else []

"""Paths to the values of a record: columns, paths in nested JSON, levels of an MQTT topic, and Kafka keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from cep.core.schema import Attribute, Schema
from cep.core.suggest import nearest

EACH = "[]"
"""The step of a path that selects each element of a list."""
KEY = "key"
"""The source in `FROM key`. It selects the key of the message, unless the record has a field `key`."""

_LEVEL = re.compile(r"topic\[(\d{1,4})\]", re.ASCII)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_STEP = re.compile(r'(?:"([^"]+)"|((?:@iot\.|[^."\[\]])+))((?:\[\d{0,6}\])*)(?=\.[^.]|\Z)', re.ASCII)
"""A pattern for one step of a path: a name, which may be quoted, and then indices of list elements, if there are any.
Names of SensorThings such as `@iot.id` are valid."""
_PLACE = re.compile(r"\[\d{0,6}\]", re.ASCII)

Path = tuple[str, ...]


@lru_cache(maxsize=4096)
def path(source: str) -> Path:
    """Split a source into the steps of its path. The name of a plain column is a single step.

    A quoted name may contain dots, as in `labels."app.name"`.
    """
    if ("." not in source and "[" not in source) or level(source) is not None:
        return (source,)
    steps: list[str] = []
    position = 0
    while position <= len(source):
        match = _STEP.match(source, position)
        if match is None:
            return (source,)
        steps.append(match[1] if match[1] is not None else match[2])
        steps += _PLACE.findall(match[3])
        position = match.end() + 1
    return tuple(steps)


def place(step: str) -> int | None:
    """Return the index of the list element that a step selects. Return None if the step is a name."""
    return int(step[1:-1]) if step.startswith("[") and step != EACH and _PLACE.fullmatch(step) else None


def level(source: str) -> int | None:
    """Return the index of the topic level that a source selects. Return None if the source is not a topic level."""
    match = _LEVEL.fullmatch(source)
    return None if match is None else int(match[1])


def from_message(source: str) -> bool:
    """Return True if the value of a source may come from the message's envelope instead of the record."""
    return source == KEY or level(source) is not None


def source_of(attribute: Attribute) -> str:
    return attribute.name if attribute.source is None else attribute.source


def is_own(attribute: Attribute) -> bool:
    """Return True if rules can use the attribute, unlike `@change` and the end and bounds of a fluent's record."""
    return not attribute.name.startswith("@")


def told_name(attribute: Attribute) -> str:
    """Return the name of an attribute for error messages. For the end of a fluent's record, return the name of the
    column or key that contains the end."""
    return attribute.name if is_own(attribute) else source_of(attribute)


def list_of(sources: Sequence[str]) -> Path | None:
    """Return the path of the list in a record whose elements are events, or None if each record is an event."""
    steps = next((path(source) for source in sources if EACH in path(source)), None)
    return None if steps is None else steps[: steps.index(EACH)]


def written(steps: Path) -> str:
    """Return a path in the syntax of FROM."""
    text = ""
    for step in steps:
        name = f'"{step}"' if "." in step.replace("@iot.", "") and len(steps) > 1 else step
        text += step if _PLACE.fullmatch(step) else f".{name}" if text else name
    return text


def first_at(value: Any, steps: Path) -> Any:
    """Return the value that a path selects, or None if there is none. The step `[]` selects a list's first element."""
    for step in steps:
        if _PLACE.fullmatch(step):
            index = place(step) or 0
            value = value[index] if isinstance(value, list) and index < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def elsewhere(record: Mapping[str, Any], attribute: Attribute) -> str | None:
    """Return a hint that names another path for an attribute which the record lacks, such as `write FROM "pump.id"`.
    Return None if no other path is similar."""
    wanted = source_of(attribute)
    last = path(wanted)[-1]
    names = (_plain(last), _plain(attribute.name))
    inside = record.get(wanted)
    if isinstance(inside, dict | list):
        choices = [steps for steps, value in _leaves(inside, (wanted,)) if not isinstance(value, dict | list)]
        if choices:
            what = "an object" if isinstance(inside, dict) else "a list"
            held = ", ".join(f"`{written(steps[1:])}`" for steps in choices[:3])
            best = next((steps for steps in choices if _plain(steps[-1]) in (*names, "value", "id")), choices[0])
            return f'`{wanted}` is {what} with {held}: write FROM "{written(best)}"'
        return None
    for steps, value in _leaves(record, ()):
        if len(steps) > 1 and _plain(steps[-1]) in names and not isinstance(value, dict | list):
            return f'`{written(steps[:-1])}` has `{steps[-1]}`: write FROM "{written(steps)}"'
    near = None if wanted in record else nearest(wanted, record)
    for name in record:
        if name != wanted and (_plain(name) in names or name == near):
            column = name if _WORD.fullmatch(name) else f'"{name}"'
            return f"there is `{name}`: write FROM {column}"
    return None if len(path(wanted)) == 1 or has(record, path(wanted)) else _near(record, wanted)


def _near(record: Mapping[str, Any], wanted: str) -> str | None:
    inside = [written(steps) for steps, value in _leaves(record, ()) if not isinstance(value, dict | list)]
    near = nearest(wanted, inside)
    return None if near is None else f'there is `{near}`: write FROM "{near}"'


def has(record: Mapping[str, Any], steps: Path) -> bool:
    """Return True if a JSON object has a value, even null, at a path. In a list, only the first element counts."""
    above = first_at(record, steps[:-1])
    if (index := place(steps[-1])) is not None:
        return isinstance(above, list) and index < len(above)
    return bool(above) if steps[-1] == EACH else isinstance(above, dict) and steps[-1] in above


@lru_cache(maxsize=1024)
def _plain(name: str) -> str:
    """Convert a name to lower case without word separators, so that `deviceId` and `Device ID` become equal."""
    return re.sub(r"[-_ ]", "", name).lower()


def _leaves(value: Any, above: Path, deep: int = 4) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the value of each member in a JSON object, including members of nested objects. In a list,
    only the first element is examined.

    `above`: the path of `value`. `deep`: the number of levels to examine.
    """
    if isinstance(value, dict) and deep:
        for name, inner in value.items():
            yield (*above, name), inner
            yield from _leaves(inner, (*above, name), deep - 1)
    elif isinstance(value, list) and value and deep and EACH not in above:
        if isinstance(value[0], dict | list):
            yield from _leaves(value[0], (*above, EACH), deep - 1)
        else:
            yield (*above, EACH), value[0]


def sources(schema: Schema, times: Sequence[str]) -> list[str]:
    """Return the sources of all values that an event type needs: its times, attributes and tested values (WHEN)."""
    return [*times, *(source_of(attribute) for attribute in schema.attributes), *schema.tested]

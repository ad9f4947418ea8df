"""Declarations that error messages suggest for undeclared event types. Types are guessed from values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from cep.connectors.records.times import is_number, of_iso
from cep.core.schema import Schema

RESERVED = ("time", "start", "end")
"""The keys under which records store their times if the declaration names no other keys."""

_NAME = re.compile(r"[a-z]\w*")
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)


def declaration(schema: Schema, names: Sequence[str], types: Mapping[str, str]) -> str:
    """Return the declaration to suggest for an event type.

    `names`: the names of the values in a record. `types`: the guessed type of each name, if there is one.
    """
    plain = [name for name in names if _NAME.fullmatch(name) and name not in RESERVED]
    time = "time" if "time" in names else None
    times = [name for name in plain if types.get(name) == "time"]
    if not set(RESERVED) & set(names) and len(times) == 1 and len(plain) == len(schema.attributes) + 1:
        plain.remove(time := times[0])
    if len(plain) != len(schema.attributes):
        plain = [f"x{n}" if n > 1 else "x" for n in range(1, len(schema.attributes) + 1)]
    typed = (f"{name}: {types.get(name, 'int')}" for name in plain)
    return f"event {schema.name}({', '.join(typed)}){'' if time is None else f' TIME {time}'}."


def guessed(texts: Sequence[str]) -> str:
    """Return the type that fits all texts of a column. The type is followed by `?` if some texts are missing."""
    present = [text.strip(" \t") for text in texts if text not in ("", "NA")]
    type_name = "string"
    for type in ("int", "float", "bool", "time"):
        if present and all(map(_LOOKS[type], present)):
            type_name = type
            break
    return type_name + ("?" if len(present) < len(texts) else "")


def _is_time(text: str) -> bool:
    try:
        of_iso(text)
    except ValueError:
        return False
    return True


_LOOKS: Mapping[str, Callable[[str], object]] = {
    "int": _INTEGER.fullmatch,
    "float": is_number,
    "bool": lambda text: text.lower() in ("true", "false"),
    "time": _is_time,
}

"""Conversion of the names of columns, keys and files to names that are valid in the language."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from cep.connectors.records.paths import EACH, path, place
from cep.rules.keywords import RESERVED

TAKEN = frozenset(("type", "time", "start", "end", "args"))
"""Names that an attribute cannot have, because records use them for other purposes."""
_PLAIN = frozenset(("id", "value", "name", "unit", "key", "data", "n", "v", "x", "y"))
"""Keys that are too vague to be the name of an attribute. If a path ends in such a key, the attribute's name also
contains the step before it."""


def names(sources: Sequence[str]) -> dict[str, str]:
    """Return an attribute name for each source. The name is usually the last step of the source's path.

    If the last step is too vague or not unique, the step before it is prepended.
    """
    names_by_source: dict[str, str] = {}
    used: set[str] = set()
    last = [path(source)[-1] if path(source)[-1] != EACH else path(source)[-2] for source in sources]
    for source, step in zip(sources, last, strict=True):
        steps = [part for part in path(source) if part != EACH]
        alone = len(steps) == 1 or (step.lower() not in _PLAIN and last.count(step) == 1 and place(step) is None)
        name = base = identifier(step if alone else " ".join(steps[-2:]))
        number = 2
        while name in used:
            name, number = f"{base}_{number}", number + 1
        used.add(name)
        names_by_source[source] = name
    return names_by_source


def identifier(text: str) -> str:
    """Convert a text to a name that is valid in the language. For example, `Wind speed (m/s)` becomes `wind_speed_m_s`,
    and `windSpeed` becomes `wind_speed`."""
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore").decode()
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", plain)
    name = re.sub(r"\W+", "_", apart).strip("_").lower()
    if not name or not name[0].isalpha():
        name = f"x_{name}".rstrip("_")
    return f"{name}_" if name in TAKEN or name.upper() in RESERVED else name


def event_name(text: str) -> str:
    """Convert the name of a file, or a name in its records, to the name of an event type."""
    name = identifier(text)
    return f"{name}s" if name.upper() in ("EVENT", "PREFIX", "FLUENT", "FACT", "POLICY", "ALERT") else name

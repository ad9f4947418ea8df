"""The text format of events and of cases, see tests/cases/README.md."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyoxigraph as ox

from cep.events import Event, Iri
from cep.knowledge.graph import Knowledge
from tests.reference_expressions import seconds
from tests.reference_parser import Reader
from tests.reference_tree import SECOND, Const, Ticks, Var
from tests.reference_values import key

FOLDER = Path(__file__).parent / "cases"
SECTIONS = ("knowledge", "policy", "program", "events", "expected", "error", "warnings")


@dataclass(frozen=True)
class Case:
    title: str
    sections: dict[str, str]

    @property
    def program(self) -> str:
        return self.sections["program"]

    @property
    def knowledge(self) -> str | None:
        return self.sections.get("knowledge")

    @property
    def policy(self) -> str | None:
        return self.sections["policy"].strip() if "policy" in self.sections else None

    @property
    def events(self) -> list[Event]:
        return read_events(self.sections.get("events", ""))


def read_case(path: Path) -> Case:
    title: list[str] = []
    sections: dict[str, str] = {}
    name = ""
    for line in path.read_text().splitlines():
        if line.startswith("--- "):
            name = line[4:].strip()
            assert name in SECTIONS and name not in sections, f"{path}: {line}"
            sections[name] = ""
        elif name:
            sections[name] += line + "\n"
        else:
            assert line.startswith("#"), f"{path}: a case begins with its title, `# ...`"
            title.append(line[1:].strip())
    assert title and "program" in sections, f"{path}: title or program is missing"
    return Case(" ".join(title), sections)


def known(turtle: str) -> Knowledge:
    """Knowledge of a text, without reasoning."""
    return Knowledge.of(ox.parse(turtle, format=ox.RdfFormat.TURTLE))


def read_events(text: str) -> list[Event]:
    return [read_event(line) for line in text.splitlines() if line.strip()]


def read_event(line: str) -> Event:
    """`a(1, "x", _, 3 s) @ 4` or `b @ [2, 7.5]`; `_` is a missing value, times and durations are microseconds."""
    reader = Reader(line.replace("@", ":"))  # any mark the reader knows
    name, arguments = reader.take(), reader.arguments()
    reader.take(":")
    if reader.maybe("["):
        start = _ticks(reader)
        reader.take(",")
        end = _ticks(reader)
        reader.take("]")
    else:
        start = end = _ticks(reader)
    assert reader.kind() == "end", f"{line!r} goes on after the event"
    return Event(name, tuple(_value(argument) for argument in arguments), start, end)


def _ticks(reader: Reader) -> int:
    value = reader.unary().value
    return value.n if isinstance(value, Ticks) else seconds(value)


def _value(argument: Any) -> Any:
    if isinstance(argument, Var):
        return None
    assert isinstance(argument, Const), f"{argument} is not a value"
    return argument.value.n if isinstance(argument.value, Ticks) else argument.value


def write_event(event: Event) -> str:
    arguments = f"({', '.join(map(_written, event.args))})" if event.args else ""
    if event.start == event.end:
        return f"{event.type}{arguments} @ {_seconds(event.end)}"
    return f"{event.type}{arguments} @ [{_seconds(event.start)}, {_seconds(event.end)}]"


def _written(value: Any) -> str:
    if value is None:
        return "_"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Iri):
        return f"<{value}>"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _seconds(ticks: int) -> str:
    whole, rest = divmod(abs(ticks), SECOND)
    return "-" * (ticks < 0) + f"{whole}.{rest:06}".rstrip("0").rstrip(".")


def sort_key(event: Event) -> tuple[Any, ...]:
    return (event.end, event.start, event.type, tuple(key(value) for value in event.args))


def same(left: Event, right: Event) -> bool:
    """Equal, floats to a relative 1e-9."""
    if (left.type, left.start, left.end, len(left.args)) != (right.type, right.start, right.end, len(right.args)):
        return False
    return all(_same_value(a, b) for a, b in zip(left.args, right.args))


def _same_value(a: Any, b: Any) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (a, b))
        return numbers and abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1e-3)
    return key(a) == key(b)


def difference(expected: Iterable[Event], actual: Iterable[Event]) -> str:
    """What is in one only, or empty where the two are the same in any order."""
    only_expected = sorted(expected, key=sort_key)
    only_actual = []
    for event in sorted(actual, key=sort_key):
        twin = next((other for other in only_expected if same(event, other)), None)
        if twin is None:
            only_actual.append(event)
        else:
            only_expected.remove(twin)
    lines = [f"- {write_event(event)}" for event in only_expected] + [
        f"+ {write_event(event)}" for event in only_actual
    ]
    return "\n".join(lines)

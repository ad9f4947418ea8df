"""Parameters: named constants of a program whose values can be set for each run.

A program declares a parameter by a statement such as `PARAM Hot = 7.0 IN 5..12 STEP 0.5.`
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta

from cep.core.errors import NOWHERE, CepError, Source, Span, Warning
from cep.core.literals import (
    LARGEST,
    SECOND,
    UNITS,
    read_duration,
    read_number,
    read_ticks,
    read_time,
    say_duration,
    write_time,
)
from cep.core.prefixes import namespace
from cep.core.suggest import did_you_mean
from cep.events import Iri
from cep.rules.graph_text import variables, with_terms
from cep.rules.printing import print_expression, print_string
from cep.rules.terms import Constant

NUMERIC = ("int", "float", "duration")
"""The types of parameters that may have a STEP."""
RANGED = (*NUMERIC, "time")
"""The types of parameters that may have a range."""
EXAMPLES = {
    "int": "`--param {name}=3`",
    "float": "`--param {name}=7.5`",
    "string": "`--param {name}=north`",
    "bool": "`--param {name}=true`",
    "duration": "`--param '{name}=15 min'`",
    "time": "`--param {name}=2024-05-01T08:00:00Z`",
    "iri": "`--param {name}=http://example.org/pump`",
}
XSD = "http://www.w3.org/2001/XMLSchema#"
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

Value = int | float | str | bool | Iri


@dataclass(frozen=True, slots=True)
class Parameter:
    """A declared parameter and its current value. Times and durations are in microseconds.

    - `low`, `high`: the ends of its range.
    - `choices`: its list of values.
    - `step`: the distance between the values on a grid.

    These fields are None if the program does not declare them.
    """

    name: str
    default: Constant
    value: Constant
    low: int | float | None = None
    high: int | float | None = None
    choices: tuple[Value, ...] | None = None
    step: int | float | None = None
    source: Source = field(default=Source(""), compare=False)
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def type(self) -> str:
        return self.default.type

    def written(self, value: Value) -> str:
        return print_expression(Constant(value, self.type))

    @property
    def domain(self) -> str | None:
        """The permitted values in the language of programs, or None if all values of the type are permitted."""
        if self.choices is not None:
            return f"[{', '.join(map(self.written, self.choices))}]"
        if self.low is None and self.high is None:
            return None
        ends = ("" if end is None else self.written(end) for end in (self.low, self.high))
        return "..".join(ends)

    def allows(self, value: Value) -> bool:
        """Return True if the declaration of the parameter permits a value."""
        if self.choices is not None:
            return value in self.choices
        assert self.type in RANGED or (self.low is None and self.high is None), "only these types have ranges"
        above = self.low is None or value >= self.low  # type: ignore[operator]
        return above and (self.high is None or value <= self.high)  # type: ignore[operator]

    @property
    def given(self) -> int | float | str | bool:
        """The current value in a form that JSON supports and `with_value` accepts."""
        return self.token[1] if self.type in ("duration", "time") else self.value.value

    @property
    def token(self) -> tuple[str, str]:
        """The kind and the text of the token that replaces the parameter's name in a program."""
        value = self.value.value
        match self.type:
            case "duration":
                return "duration", _iso_duration(value)
            case "time":
                assert isinstance(value, int), "microseconds"
                return "time", write_time(value)
            case "iri":
                return "iri", f"<{value}>"
            case "string":
                return "string", print_string(str(value))
            case "bool":
                return "name", str(value).lower()
            case _:
                return "number", repr(value)

    @property
    def sparql(self) -> str:
        """The current value as a SPARQL term, for graph patterns."""
        value, text = self.value.value, self.token[1]
        match self.type:
            case "float":
                return f'"{value!r}"^^<{XSD}double>'
            case "duration":
                return f'"{text}"^^<{XSD}dayTimeDuration>'
            case "time":
                return f'"{text}"^^<{XSD}dateTime>'
            case _:
                return text

    def of(self, value: Value) -> Parameter:
        """Return a copy of the parameter with the current value `value`, which must have the parameter's type."""
        return replace(self, value=Constant(value, self.type))

    def with_value(self, raw: object, prefixes: Mapping[str, str], called: str) -> Parameter:
        """Return a copy of the parameter with another current value.

        - `raw`: the value, as text or as an object of the parameter's type.
        - `prefixes`: maps names of prefixes to IRIs.
        - `called`: the parameter's name in messages.

        Raises CepError if the value has another type than the parameter, or is not permitted.
        """
        value = _read(self, raw, prefixes, called)
        if not self.allows(value):
            hint = f"`{self.name}` may be {'one of ' if self.choices is not None else ''}{self.domain}"
            raise CepError(f"{called}: {self.written(value)} is out of range", hint=hint, code="option")
        return self.of(value)


class Parameters:
    """The parameters of a program, by name. `used`: the names of the parameters that its rules use."""

    def __init__(self) -> None:
        self.by_name: dict[str, Parameter] = {}
        self.prefixes: dict[str, str] = {}
        self.used: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self.by_name.values())

    def declare(self, parameter: Parameter) -> None:
        """Add a parameter. Raises CepError if a parameter of the same name exists."""
        before = self.by_name.setdefault(parameter.name, parameter)
        if before is not parameter:
            file, line = before.source.place(before.span.line)
            where = "" if file == parameter.source.place(parameter.span.line)[0] else f" of {file}"
            hint = f"line {line}{where} declares it"
            message = f"the parameter `{parameter.name}` is declared twice"
            raise CepError(message, parameter.source, parameter.span, hint, "syntax")

    def set(self, values: Mapping[str, object]) -> None:
        """Set the values of parameters. Raises CepError for an unknown name or a value that is not permitted."""
        for name, raw in values.items():
            parameter = self.by_name.get(name)
            if parameter is None:
                known = list(self.by_name)
                hint = f"declare it: `PARAM {name} = 7.`"
                if known:
                    hint = did_you_mean(name, known) or f"it has {', '.join(f'`{known_name}`' for known_name in known)}"
                raise CepError(f"the program has no parameter `{name}`", hint=hint, code="option")
            self.by_name[name] = parameter.with_value(raw, self.prefixes, f"parameter `{name}`")

    def named(self, name: str) -> Parameter | None:
        """Return the parameter that has the name `name`, and mark it as used. Return None if there is none."""
        parameter = self.by_name.get(name)
        if parameter is not None:
            self.used.add(name)
        return parameter

    def in_graph(self, graph: str) -> str:
        """Replace the names of parameters in a graph pattern by their values."""
        names = [name for name in variables(graph) if name in self.by_name]
        self.used.update(names)
        return with_terms(graph, {name: self.by_name[name].sparql for name in names}) if names else graph

    def in_dialect(self, name: str, tick: int) -> list[tuple[str, str]] | None:
        """Return the kinds and texts of the tokens that replace the name of a parameter in a dialect. Return None if
        `name` is not a parameter.

        `tick`: the dialect's time unit in microseconds. Raises CepError if a duration is not a whole number of ticks.
        """
        parameter = self.named(name)
        if parameter is None:
            return None
        kind, text = parameter.token
        if parameter.type == "duration":
            assert isinstance(parameter.value.value, int), "microseconds"
            ticks, rest = divmod(parameter.value.value, tick)
            if rest:
                hint = f"a tick is {say_duration(tick)}"
                raise CepError(f"the parameter `{name}` is not a whole number of ticks", hint=hint, code="option")
            kind, text = "number", str(ticks)
        return [("mark", "-"), (kind, text[1:])] if kind == "number" and text[0] == "-" else [(kind, text)]

    def used_values(self) -> dict[str, int | float | str | bool]:
        """Return the values of the used parameters, in a form that JSON supports."""
        return {parameter.name: parameter.given for parameter in self if parameter.name in self.used}

    def text(self) -> str:
        """Return the values of the used parameters as text, one per line. The text is part of a program's identity."""
        return "".join(
            f"{parameter.name} = {parameter.written(parameter.value.value)}\n"
            for parameter in self
            if parameter.name in self.used
        )

    def listing(self) -> str:
        """Return a table of the parameters as text. It shows the value of each parameter, the permitted values, and the
        default if it differs from the value."""
        rows = [
            (parameter.name, parameter.written(parameter.value.value), self._beside(parameter)) for parameter in self
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(2)] if rows else []
        return "\n".join(f"  {row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}".rstrip() for row in rows)

    def _beside(self, parameter: Parameter) -> str:
        texts = [] if parameter.domain is None else [f"in {parameter.domain}"]
        if parameter.value != parameter.default:
            texts.append(f"default {parameter.written(parameter.default.value)}")
        if parameter.name not in self.used:
            texts.append("no rule uses it")
        return ", ".join(texts)

    def warnings(self) -> tuple[Warning, ...]:
        """Return a warning for each parameter that no rule uses."""
        return tuple(
            Warning(
                f"no rule uses the parameter `{parameter.name}`",
                parameter.source,
                parameter.span,
                "leave it out",
                "parameter",
            )
            for parameter in self
            if parameter.name not in self.used
        )


def _iso_duration(value: Value) -> str:
    assert isinstance(value, int), "microseconds"
    seconds, rest = divmod(value, SECOND)
    return f"PT{seconds}.{rest:06}S" if rest else f"PT{seconds}S"


def _read(parameter: Parameter, raw: object, prefixes: Mapping[str, str], called: str) -> Value:
    try:
        value = _converted(parameter.type, raw, prefixes)
    except CepError as error:
        raise CepError(f"{called}: {error.message}", hint=error.hint, code="option") from None
    if value is None:
        article = "an" if parameter.type in ("int", "iri") else "a"
        hint = "e.g. " + EXAMPLES[parameter.type].format(name=parameter.name)
        raise CepError(f"{called}: {_shown(raw)} is not {article} {parameter.type}", hint=hint, code="option")
    return value


def _shown(raw: object) -> str:
    return f"`{raw}`" if isinstance(raw, str) else repr(raw)


def _converted(type: str, raw: object, prefixes: Mapping[str, str]) -> Value | None:
    """Convert a value to a type. Return None if the value has another type.

    Raises CepError if a text is malformed or a number is too large.
    """
    if type == "string":
        return str(raw) if isinstance(raw, str) and not isinstance(raw, Iri) else None
    if type == "bool":
        if isinstance(raw, str):
            return {"true": True, "false": False}.get(raw.strip().lower())
        return raw if isinstance(raw, bool) else None
    if isinstance(raw, bool):
        return None
    if type in ("int", "float"):
        return _number(type, raw)
    if type == "duration":
        return _duration(raw)
    if type == "time":
        if isinstance(raw, datetime | date):
            raw = raw.isoformat()
        return read_time(raw.strip().replace(" ", "T", 1)) if isinstance(raw, str) else None
    return _iri(raw, prefixes)


def _number(type: str, raw: object) -> int | float | None:
    if isinstance(raw, str):
        text = raw.strip()
        if not (_WHOLE if type == "int" else _DECIMAL).fullmatch(text):
            return None
        number = read_number(text.lstrip("+-"))
        raw = -number if text[0] == "-" else number
    if type == "int":
        if not isinstance(raw, int):
            return None
        if abs(raw) > LARGEST:
            raise CepError(f"{raw} needs more than 64 bits", hint=f"integers must be from {-LARGEST} to {LARGEST}")
        return raw
    if not isinstance(raw, int | float) or not math.isfinite(raw):
        return None
    return float(raw)


def _duration(raw: object) -> int | None:
    """Return a duration in microseconds, or None if `raw` is not a duration. A plain number means seconds, as in
    programs."""
    if isinstance(raw, timedelta):
        ticks = raw // timedelta(microseconds=1)
        return ticks if ticks >= 0 else None
    if isinstance(raw, int | float):
        raw = f"{raw:f}" if isinstance(raw, float) else str(raw)
    if not isinstance(raw, str):
        return None
    text = raw.strip()
    parsed = _SPAN.fullmatch(text)
    if parsed is not None:
        if parsed[2] and parsed[2] not in UNITS:
            units = "the units are `ms`, `s`, `min`, `h` and `d`"
            raise CepError(f"unknown unit `{parsed[2]}`", hint=units)
        return read_ticks(parsed[1], UNITS[parsed[2]] if parsed[2] else SECOND)
    if not re.fullmatch(r"P(?=[0-9T])(?:[0-9.]+[WD])*(?:T(?:[0-9.]+[HMS])+)?", text):
        return None
    return read_duration(text)


def _iri(raw: object, prefixes: Mapping[str, str]) -> Iri | None:
    if not isinstance(raw, str):
        return None
    text = raw.strip().removeprefix("<").removesuffix(">")
    prefix, colon, local = text.partition(":")
    if not colon or any(letter in text for letter in ' \t\n<>"{}|^`\\'):
        return None
    base = None if local.startswith("//") else namespace(prefix, prefixes)
    return Iri(text if base is None else base + local)

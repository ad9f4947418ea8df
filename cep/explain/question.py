"""Parse the event and the time of a question. Examples: `warning(EWR)`, `warning(station: EWR)`, `warning`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from cep.core.errors import CepError
from cep.core.fluents import beside
from cep.core.literals import SECOND, read_instant
from cep.core.suggest import did_you_mean
from cep.engine import Engine
from cep.events import Iri, Value
from cep.explain.occurrences import Memory, Occurrence
from cep.language.dialects.lars.relations import at_ticks
from cep.language.question import AskedEvent, asked_event, quoted, to_type
from cep.rules.printing import print_expression
from cep.rules.terms import Call, Constant, Expression, Variable

BEGINNING, END = -(2**62), 2**62
UNIT = Fraction(SECOND)


@dataclass(frozen=True, slots=True)
class EventQuestion:
    """A requested event or fluent: its arguments by position, and the closed interval in which it must occur or hold.

    - `fixed`: the requested arguments, by position. The value of a fluent is its last argument.
    - `same`: pairs of positions whose arguments must be equal.
    """

    event: str
    fixed: Mapping[int, Value]
    since: int = BEGINNING
    until: int = END
    same: tuple[tuple[int, int], ...] = ()

    def touches(self, occurrence: Occurrence) -> bool:
        first, last = occurrence.codes
        return first <= 2 * self.until and last >= 2 * self.since

    def found(self, memory: Memory) -> list[Occurrence]:
        """Return the occurrences that answer the question, sorted by (end, start)."""
        return [row for row in memory.find(self.event, self.fixed, self.since, END) if self.touches(row)]


def read_question(text: str, engine: Engine, when: str | None = None, unit: Fraction | None = UNIT) -> EventQuestion:
    """Parse a requested event, which is written as in a rule.

    Words are strings, even if they start with a capital letter. `_` matches any value.

    - `when`: a time, or two times separated by `/`.
    - `unit`: the unit of times that are written as numbers, in microseconds (see `read_instant`).

    Raises CepError if the text is not valid or does not fit the program.
    """
    since, until = (BEGINNING, END) if when is None else interval(when, unit)
    pattern: AskedEvent = asked_event(text, engine.written.prefixes)
    pattern = replace(pattern, name=at_ticks(pattern.name)) if pattern.at_tick else pattern
    schema = engine.plan.schemas.get(pattern.name)
    if schema is None or pattern.name not in {**engine.inputs, **engine.outputs}:
        names = [*engine.outputs, *engine.inputs]
        hint = did_you_mean(pattern.name, names) or f"the program has {', '.join(f'`{name}`' for name in names)}"
        what = "event or fluent" if engine.plan.fluents else "event"
        raise CepError(f"there is no {what} `{pattern.name}`", hint=hint, code="option")
    names = [attribute.name for attribute in schema.attributes]
    valued = schema.fluent is not None and schema.fluent.valued
    shape = f"it is `{pattern.name}({', '.join(names)})`"
    if valued:
        *own, value = names
        shape = f"it is `{pattern.name}({', '.join(own)}) = {value}`"
        names = names if pattern.value is None else own
    elif pattern.value is not None:
        raise CepError(f"`{pattern.name}` has no value", hint=shape, code="option")
    if pattern.names is not None:
        for name in pattern.names:
            if name not in names:
                raise CepError(f"`{pattern.name}` has no attribute `{name}`", hint=shape, code="option")
        by_place = {names.index(name): term for name, term in zip(pattern.names, pattern.arguments)}
    elif pattern.arguments and len(pattern.arguments) != len(names):
        hint = f"{shape}; `_` stands for any value, `{pattern.name}` alone for any values"
        message = f"`{pattern.name}` has {len(names)} arguments, but {len(pattern.arguments)} here"
        if len(pattern.arguments) > len(names):
            raise CepError(message, hint=hint, code="option")
        by_place = dict(enumerate(pattern.arguments))  # the written arguments come first
    else:
        by_place = dict(enumerate(pattern.arguments))
    if pattern.tick is not None:
        place = max(place for place, name in enumerate(names) if name == beside("at", names[:place]))
        if place in by_place:
            raise CepError(
                f"`{pattern.name}` has {place} argument{'s' * (place != 1)} before its tick", hint=shape, code="option"
            )
        by_place[place] = pattern.tick
    if valued and pattern.value is not None:
        by_place[len(schema.attributes) - 1] = pattern.value
    fixed: dict[int, Value] = {}
    for place, argument in by_place.items():
        if isinstance(argument, Variable) and argument.name.startswith("_"):
            continue
        attribute = schema.attributes[place]
        try:
            fixed[place] = _value(argument, attribute.name, attribute.type, unit)
        except CepError as error:
            better = quoted(text, list(by_place).index(place)) if attribute.type == "string" else None
            raise error if better is None else CepError(error.message, hint=to_type(better), code="option") from None
    return EventQuestion(pattern.name, fixed, since, until)


def interval(text: str, unit: Fraction | None) -> tuple[int, int]:
    """Parse a time (`2013-02-08T18:00:00Z` or a number), or two times separated by `/`. Return the first and the last
    time, in microseconds."""
    first, slash, last = text.partition("/")
    since = _instant(first, unit)
    until = _instant(last, unit) if slash else since
    if until < since:
        raise CepError(f"--at: `{last}` is before `{first}`", code="option")
    return since, until


def _instant(text: str, unit: Fraction | None) -> int:
    try:
        return read_instant(text, unit)
    except CepError as error:
        raise CepError(f"--at: {error.message}", hint=error.hint, code="option") from None


def _value(argument: Expression, name: str, type: str, unit: Fraction | None) -> Value:
    if isinstance(argument, Call):
        if argument.function == "neg" and isinstance(argument.arguments[0], Constant):
            inner = _value(argument.arguments[0], name, type, unit)
            assert isinstance(inner, int | float), "only numbers are negative"
            return -inner
        raise CepError(f"`{name}`: expected a value, not an expression", code="option")
    value: Value = argument.name if isinstance(argument, Variable) else argument.value
    kind = "string" if isinstance(argument, Variable) else argument.type
    if type == "any" or kind == type:
        return value
    if type == "float" and kind == "int":
        return float(value or 0)
    if type == "iri" and kind == "string":
        return Iri(str(value))
    if type == "time" and kind in ("int", "float"):
        return read_instant(print_expression(argument), unit)
    if type == "duration" and kind in ("int", "float"):
        return int(float(value or 0) * SECOND)
    if type == "string" and not isinstance(argument, Variable) and kind in ("int", "float", "bool"):
        return str(value).lower() if kind == "bool" else str(value)
    if type == "unknown":
        return value
    told = value if kind == "string" else print_expression(argument)
    raise CepError(f"`{name}` is of type {type}, `{told}` is not", code="option")

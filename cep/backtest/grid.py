"""Grids of parameter values, and the choice of the best point of a grid. A point is one combination of values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import inf
from typing import Any

from cep.backtest.scoring import DAY, Figures
from cep.connectors.records.times import of_duration
from cep.core.errors import CepError
from cep.core.literals import UNITS
from cep.core.suggest import did_you_mean
from cep.rules.parameters import NUMERIC, Parameter, Parameters, Value

MOST_POINTS = 10_000
"""The default limit for the number of points in a grid."""

HIGHER = ("recall", "precision", "lead", "lead_worst", "quiet")
LOWER = ("load", "load_busiest", "flapping")
FIGURES = (*HIGHER, *LOWER)
"""The names of the figures by which the best point can be chosen. Those in HIGHER are better if they are larger, those
in LOWER if they are smaller."""
NAB = {"nab": "standard", "nab_low_fp": "low_fp", "nab_low_fn": "low_fn"}
"""The NAB scores by which the best point can be chosen if `--score nab` is set. Each is mapped to its field of
`NabScores`. A larger score is better."""
_DURATIONS = ("lead", "lead_worst", "quiet")
_LOADS = ("load", "load_busiest")
_RANGE = re.compile(r"[^,]+\.\.[^,]+")
_TIME_PART = re.compile(r"[\d.]+\s*[a-z]+\s*")
_BOUND = re.compile(r"\s*([a-z_]+)\s*(<=|>=|<|>|=)\s*(.+?)\s*")


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a grid: a parameter, and the values to try for it."""

    parameter: Parameter
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """A condition on a figure, for example `load <= 1/d`. A figure that is undefined does not satisfy any condition."""

    text: str
    figure: str
    operator: str
    value: float

    def allows(self, figures: Figures) -> bool:
        """Return True if the figures satisfy the condition."""
        own = value_of(self.figure, figures)
        if own is None:
            return False
        tests: Mapping[str, Callable[[float, float], bool]] = {
            "<=": float.__le__,
            ">=": float.__ge__,
            "<": float.__lt__,
            ">": float.__gt__,
            "=": float.__eq__,
        }
        return tests[self.operator](float(own), self.value)


def read_axis(text: str, parameters: Parameters) -> Axis:
    """Parse an axis, `Hot` or `Hot=6,7,8`. Raises CepError if the parameter is unknown or has no values to try."""
    name, equals, listed = text.partition("=")
    name = name.strip()
    parameter = parameters.by_name.get(name)
    if parameter is None:
        known = list(parameters.by_name)
        hint = "declare it: `PARAM Hot = 7.0 IN 5..12 STEP 0.5.`"
        if known:
            hint = did_you_mean(name, known) or f"it has {', '.join(f'`{name}`' for name in known)}"
        raise CepError(f"--grid: the program has no parameter `{name}`", hint=hint, code="option")
    if equals:
        words = [word.strip() for word in listed.split(",")]
        if _RANGE.fullmatch(listed) and parameter.type != "string":
            message = f"--grid: `{listed}` is a range, and a grid needs single values"
            raise CepError(message, hint=f"list them: `--grid {name}={_example(parameter)}`", code="option")
        values = [parameter.with_value(word, parameters.prefixes, f"--grid {name}").value.value for word in words]
        return Axis(parameter, tuple(dict.fromkeys(values)))
    return Axis(parameter, _own_values(parameter))


def _example(parameter: Parameter) -> str:
    try:
        values = _own_values(parameter)[:3]
    except CepError:
        return f"{parameter.written(parameter.default.value)},..."
    return ",".join(parameter.written(value).replace(" ", "") for value in values)


def _own_values(parameter: Parameter) -> tuple[Value, ...]:
    if parameter.choices is not None:
        return parameter.choices
    example = f"`--grid {parameter.name}={parameter.written(parameter.default.value)},...`"
    if parameter.type == "bool":
        return (False, True)
    if parameter.low is None or parameter.high is None:
        message = f"--grid: `{parameter.name}` has no range whose values could be tried"
        raise CepError(message, hint=f"name the values: {example}", code="option")
    if parameter.step is None or parameter.type not in NUMERIC:
        message = f"--grid: the range of `{parameter.name}` has no STEP"
        raise CepError(message, hint=f"add a STEP to the range, or name the values: {example}", code="option")
    low, high, step = (Fraction(str(bound)) for bound in (parameter.low, parameter.high, parameter.step))
    count = int((high - low) / step) + 1
    kind = float if parameter.type == "float" else int
    return tuple(kind(low + place * step) for place in range(count))


def points_of(axes: Sequence[Axis]) -> list[tuple[Value, ...]]:
    """Return all points of a grid, which are the combinations of the axes' values."""
    return list(product(*(axis.values for axis in axes)))


def read_bound(text: str, nab: bool = False) -> Bound:
    """Parse a condition such as `load <= 1/d`, `precision >= 0.8` or `lead >= 10 min`. Raises CepError if it is
    invalid.

    `nab`: True if the condition may use a NAB score.
    """
    match = _BOUND.fullmatch(text)
    if match is None:
        raise CepError(f"--subject-to: `{text}` is not a condition", hint="e.g. `load <= 1/d`", code="option")
    figure = read_figure(match[1], "--subject-to", nab)
    return Bound(text.strip(), figure, match[2], _figure_value(figure, match[3], text))


def read_figure(name: str, option: str, nab: bool = False) -> str:
    """Check the name of a figure and return it. Raises CepError if no figure has this name.

    `nab`: True if the name may be that of a NAB score.
    """
    if name in NAB and not nab:
        raise CepError(f"{option}: `{name}` is not computed", hint="add `--score nab`", code="option")
    known = (*FIGURES, *NAB) if nab else FIGURES
    if name not in known:
        hint = did_you_mean(name, known) or f"the figures are {', '.join(known)}"
        raise CepError(f"{option}: there is no figure `{name}`", hint=hint, code="option")
    return name


def _figure_value(figure: str, text: str, whole: str) -> float:
    try:
        if figure in _DURATIONS:
            return _read_time(text)
        if figure in _LOADS:
            number, slash, unit = text.partition("/")
            size = {"w": 7 * DAY, **UNITS}[unit.strip()] if slash else DAY
            return float(number) * DAY / size
        if text.endswith("%") and figure not in NAB:
            return float(text[:-1]) / 100
        return float(text)
    except (KeyError, ValueError):
        example = {"lead": "10 min", "lead_worst": "0 s", "quiet": "1 d"}.get(
            figure, "1/d" if figure in _LOADS else "50" if figure in NAB else "0.8"
        )
        hint = f"e.g. `{figure} {'<=' if figure in LOWER else '>='} {example}`"
        raise CepError(f"--subject-to: `{whole}` is not a condition", hint=hint, code="option") from None


def _read_time(text: str) -> float:
    """Parse a time as reports print it, for example `-1 h 10 min`, or as one number. Raises ValueError if it is not a
    time."""
    negative = text.startswith("-")
    parts = _TIME_PART.findall(text.removeprefix("-"))
    if negative and not parts:
        raise ValueError(text)
    if "".join(parts) != text.removeprefix("-"):
        return float(of_duration(text))
    total = sum(of_duration(part.strip()) for part in parts)
    return float(-total if negative else total)


def value_of(figure: str, figures: Figures) -> Any:
    """Return the value of the figure called `figure`, or None if it is undefined."""
    if figure not in NAB:
        return getattr(figures, figure)
    return None if figures.nab is None else getattr(figures.nab, NAB[figure])


def rank(figure: str, figures: Figures) -> float:
    """Return a sort key for figures. A better value of `figure` has a larger key, an undefined value the smallest."""
    own = value_of(figure, figures)
    if own is None:
        return -inf
    return -float(own) if figure in LOWER else float(own)


def choose(
    axes: Sequence[Axis],
    points: Sequence[tuple[Value, ...]],
    figures: Sequence[Figures],
    figure: str,
    bounds: Sequence[Bound],
) -> int | None:
    """Return the number of the best point that satisfies all bounds. Returns None if no point does.

    If several points are equally good, the point with the lowest load is chosen. If their loads are also equal, the
    point nearest to the parameters' defaults is chosen, and then the first one.
    """
    allowed = [number for number, figure_set in enumerate(figures) if all(bound.allows(figure_set) for bound in bounds)]

    def order(number: int) -> tuple[float, float, float, int]:
        load = figures[number].load
        return -rank(figure, figures[number]), inf if load is None else load, _distance(axes, points[number]), number

    return min(allowed, key=order, default=None)


def _distance(axes: Sequence[Axis], point: Sequence[Value]) -> float:
    return sum(_apart(axis, value) for axis, value in zip(axes, point))


def _apart(axis: Axis, value: Value) -> float:
    default = axis.parameter.default.value
    if axis.parameter.type not in (*NUMERIC, "time"):
        return float(value != default)
    numbers = [float(value) for value in (*axis.values, default)]
    spread = max(numbers) - min(numbers)
    return abs(float(value) - float(default)) / spread if spread else 0.0


def front(figures: Sequence[Figures], figure: str) -> list[int]:
    """Return the numbers of the points on the Pareto front of a figure and the load, sorted by load. A point is on the
    front if no other point is better in one of them and at least as good in the other.

    Of several points that are equal in both, only the first is returned.
    """
    loads = [inf if figure.load is None else figure.load for figure in figures]
    ranks = [rank(figure, point_figures) for point_figures in figures]
    best, points = -inf, []
    for number in sorted(range(len(figures)), key=lambda point: (loads[point], -ranks[point], point)):
        if ranks[number] > best:
            best = ranks[number]
            points.append(number)
    return points


def at_edge(axes: Sequence[Axis], point: Sequence[Value]) -> list[str]:
    """Return the names of the numeric parameters whose value in a point is the smallest or the largest value that the
    grid tries. Parameters with fewer than three values in the grid are left out."""
    names = []
    for axis, value in zip(axes, point):
        if axis.parameter.type in (*NUMERIC, "time") and len(axis.values) > 2:
            ordered = sorted(axis.values, key=float)
            if value in (ordered[0], ordered[-1]):
                names.append(axis.parameter.name)
    return names

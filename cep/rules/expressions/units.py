"""Units of measurement by their QUDT names, and exact conversion between units of the same kind of quantity."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from cep.core.suggest import nearest as alike
from cep.core.values import Pool
from cep.rules.expressions.functions import finite
from cep.rules.expressions.texts import distinct_rows

if TYPE_CHECKING:
    from cep.rules.expressions.functions import Operand

QUDT = "http://qudt.org/vocab/unit/"
UNIT_IRIS = f"units are those of QUDT, `unit:MI` with `PREFIX unit: <{QUDT}>`"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of measurement. The value in the SI unit of the same `kind` is (value + offset) * multiplier, times pi if
    `of_pi` is True."""

    kind: str
    multiplier: Fraction
    offset: Fraction = Fraction(0)
    of_pi: bool = False


_INCH, _FOOT, _YARD, _MILE, _NAUTICAL = (Fraction(x) for x in ("0.0254", "0.3048", "0.9144", "1609.344", "1852"))
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_POUND, _GRAVITY, _GALLON = Fraction("0.45359237"), Fraction("9.80665"), Fraction("0.003785411784")
_MERCURY = Fraction("13.5951") * _GRAVITY  # the pressure of a millimetre of mercury in pascals, by convention
_POUND_FORCE = _POUND * _GRAVITY

_MULTIPLIERS: dict[str, dict[str, int | str | Fraction]] = {
    "Length": {
        "M": 1, "KiloM": 1000, "DeciM": "0.1", "CentiM": "0.01", "MilliM": "0.001", "MicroM": "1e-6", "NanoM": "1e-9",
        "IN": _INCH, "FT": _FOOT, "FT_US": Fraction(1200, 3937), "YD": _YARD, "FATH": 6 * _FOOT,
        "MI": _MILE, "MI_N": _NAUTICAL, "AU": 149_597_870_700,
    },
    "Area": {
        "M2": 1, "KiloM2": 10**6, "CentiM2": "1e-4", "MilliM2": "1e-6", "HA": 10_000, "IN2": _INCH**2, "FT2": _FOOT**2,
        "YD2": _YARD**2, "MI2": _MILE**2, "AC": 4840 * _YARD**2,
    },
    "Volume": {
        "M3": 1, "DeciM3": "0.001", "CentiM3": "1e-6", "MilliM3": "1e-9", "L": "0.001", "CentiL": "1e-5",
        "MilliL": "1e-6", "IN3": _INCH**3, "FT3": _FOOT**3, "YD3": _YARD**3, "AC-FT": 4840 * _YARD**2 * _FOOT,
        "GAL_US": _GALLON, "QT_US": _GALLON / 4, "PINT_US": _GALLON / 8, "OZ_VOL_US": _GALLON / 128,
        "GAL_UK": "0.00454609", "PINT_UK": "0.00056826125", "OZ_VOL_UK": "2.84130625e-5",
    },
    "Mass": {
        "KiloGM": 1, "GM": "0.001", "MilliGM": "1e-6", "MicroGM": "1e-9", "TONNE": 1000, "LB": _POUND,
        "OZ": _POUND / 16, "GRAIN": _POUND / 7000, "TON_SHORT": 2000 * _POUND, "TON_LONG": 2240 * _POUND,
    },
    "Time": {
        "SEC": 1, "MilliSEC": "0.001", "MicroSEC": "1e-6", "NanoSEC": "1e-9", "MIN": _MINUTE, "HR": _HOUR, "DAY": _DAY,
        "WK": 7 * _DAY, "YR": Fraction("365.25") * _DAY,
    },
    "Speed": {
        "M-PER-SEC": 1, "M-PER-MIN": Fraction(1, _MINUTE), "M-PER-HR": Fraction(1, _HOUR), "KiloM-PER-SEC": 1000,
        "KiloM-PER-HR": Fraction(1000, _HOUR), "CentiM-PER-SEC": "0.01", "CentiM-PER-HR": Fraction(1, 100 * _HOUR),
        "MilliM-PER-SEC": "0.001", "MilliM-PER-MIN": Fraction(1, 1000 * _MINUTE),
        "MilliM-PER-HR": Fraction(1, 1000 * _HOUR), "MilliM-PER-DAY": Fraction(1, 1000 * _DAY),
        "IN-PER-SEC": _INCH, "IN-PER-MIN": _INCH / _MINUTE, "FT-PER-SEC": _FOOT,
        "FT-PER-MIN": _FOOT / _MINUTE, "FT-PER-HR": _FOOT / _HOUR, "MI-PER-SEC": _MILE, "MI-PER-MIN": _MILE / _MINUTE,
        "MI-PER-HR": _MILE / _HOUR, "KN": _NAUTICAL / _HOUR, "MI_N-PER-HR": _NAUTICAL / _HOUR,
    },
    "Acceleration": {"M-PER-SEC2": 1, "CentiM-PER-SEC2": "0.01", "FT-PER-SEC2": _FOOT, "G": _GRAVITY},
    "Pressure": {
        "PA": 1, "HectoPA": 100, "KiloPA": 1000, "MegaPA": 10**6, "BAR": 10**5, "MilliBAR": 100, "ATM": 101_325,
        "TORR": Fraction(101_325, 760), "MilliM_HG": _MERCURY, "IN_HG": Fraction("25.4") * _MERCURY,
        "PSI": _POUND_FORCE / _INCH**2,
    },
    "Force": {"N": 1, "KiloN": 1000, "KiloGM_F": _GRAVITY, "LB_F": _POUND_FORCE},
    "Energy": {
        "J": 1, "KiloJ": 1000, "MegaJ": 10**6, "W-HR": 3600, "KiloW-HR": 3_600_000, "CAL_TH": "4.184",
        "KiloCAL": 4184, "BTU_IT": "1055.05585262",
    },
    "Power": {"W": 1, "KiloW": 1000, "MegaW": 10**6, "HP": 550 * _FOOT * _POUND_FORCE},
    "PowerPerArea": {"W-PER-M2": 1, "KiloW-PER-M2": 1000},
    "VolumeFlowRate": {
        "M3-PER-SEC": 1, "M3-PER-HR": Fraction(1, _HOUR), "L-PER-SEC": "0.001", "L-PER-MIN": Fraction(1, 60_000),
        "FT3-PER-SEC": _FOOT**3, "FT3-PER-MIN": _FOOT**3 / _MINUTE, "GAL_US-PER-MIN": _GALLON / _MINUTE,
    },
    "MassPerArea": {"KiloGM-PER-M2": 1, "GM-PER-M2": "0.001"},
    "Density": {
        "KiloGM-PER-M3": 1, "GM-PER-M3": "0.001", "MilliGM-PER-M3": "1e-6", "MicroGM-PER-M3": "1e-9",
        "GM-PER-CentiM3": 1000, "KiloGM-PER-L": 1000, "GM-PER-L": 1, "MilliGM-PER-L": "0.001",
    },
    "Frequency": {"HZ": 1, "KiloHZ": 1000, "MegaHZ": 10**6, "GigaHZ": 10**9, "PER-MIN": Fraction(1, _MINUTE)},
    "DimensionlessRatio": {
        "UNITLESS": 1, "FRACTION": 1, "PERCENT": "0.01", "PPTH": "0.001", "PPM": "1e-6", "PPB": "1e-9",
    },
}  # fmt: skip

_OF_PI: dict[str, dict[str, Fraction]] = {
    "Angle": {
        "DEG": Fraction(1, 180), "ARCMIN": Fraction(1, 180 * 60), "ARCSEC": Fraction(1, 180 * 3600),
        "GRAD": Fraction(1, 200), "GON": Fraction(1, 200), "REV": Fraction(2),
    },
    "AngularVelocity": {
        "DEG-PER-SEC": Fraction(1, 180), "REV-PER-SEC": Fraction(2),
        "REV-PER-MIN": Fraction(2, 60),
    },
}  # fmt: skip

UNITS: dict[str, Unit] = {
    **{name: Unit(kind, Fraction(x)) for kind, units in _MULTIPLIERS.items() for name, x in units.items()},
    **{name: Unit(kind, x, of_pi=True) for kind, units in _OF_PI.items() for name, x in units.items()},
    "RAD": Unit("Angle", Fraction(1)),
    "MilliRAD": Unit("Angle", Fraction(1, 1000)),
    "RAD-PER-SEC": Unit("AngularVelocity", Fraction(1)),
    "K": Unit("Temperature", Fraction(1)),
    "DEG_C": Unit("Temperature", Fraction(1), Fraction("273.15")),
    "DEG_F": Unit("Temperature", Fraction(5, 9), Fraction("459.67")),
    "DEG_R": Unit("Temperature", Fraction(5, 9)),
}
"""Units, by their names in QUDT's namespace. The multipliers are exact, as in the definitions of the units."""

Factors = tuple[float, float, float, float]


def unit_of(iri: str) -> Unit | None:
    return UNITS.get(iri.removeprefix(QUDT)) if iri.startswith(QUDT) else None


def shown(iri: str) -> str:
    return f"unit:{iri.removeprefix(QUDT)}" if iri.startswith(QUDT) else f"<{iri}>"


def mistakes(source: str | None, target: str | None) -> Iterator[tuple[int, str, str]]:
    """Yield the mistakes in a conversion between two units, each as the index of the argument, the message and the
    hint.

    `source`, `target`: the IRIs of the units. None means that a unit is not constant.
    """
    for place, iri in ((1, source), (2, target)):
        if iri is not None and unit_of(iri) is None:
            meant = nearest_unit(iri)
            hint = f"did you mean `{meant}`? {UNIT_IRIS}" if meant else UNIT_IRIS
            yield place, f"`{shown(iri)}` is not a known unit", hint
    a, b = (None if iri is None else unit_of(iri) for iri in (source, target))
    if source and target and a and b and a.kind != b.kind:
        others = [f"`unit:{name}`" for name, unit in UNITS.items() if unit.kind == a.kind and unit is not a][:3]
        message = f"`{shown(source)}` measures {spaced(a.kind)}, but `{shown(target)}` measures {spaced(b.kind)}"
        yield 2, message, f"other units of {spaced(a.kind)}: {', '.join(others)}"


def spaced(kind: str) -> str:
    """Return the name of a kind of quantity for messages: `MassPerArea` becomes `mass per area`."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", kind).lower()


def nearest_unit(iri: str) -> str | None:
    """Return the name of the unit that the author probably meant. Return None if no unit is similar."""
    written = iri.replace("#", "/").rsplit("/", 1)[-1]
    meant = alike(_USUAL.get(written.casefold(), written), UNITS)
    return meant and f"unit:{meant}"


_USUAL = {
    "km": "KiloM", "cm": "CentiM", "mm": "MilliM", "mile": "MI", "miles": "MI", "nm": "MI_N", "nmi": "MI_N",
    "kmh": "KiloM-PER-HR", "km-per-hr": "KiloM-PER-HR", "kph": "KiloM-PER-HR", "mph": "MI-PER-HR", "knot": "KN",
    "knots": "KN", "kt": "KN", "mps": "M-PER-SEC", "celsius": "DEG_C", "c": "DEG_C", "fahrenheit": "DEG_F",
    "f": "DEG_F", "kelvin": "K", "hpa": "HectoPA", "mb": "MilliBAR", "mbar": "MilliBAR", "inhg": "IN_HG",
    "mmhg": "MilliM_HG", "kg": "KiloGM", "g": "GM", "mg": "MilliGM", "second": "SEC", "hour": "HR", "minute": "MIN",
    "degree": "DEG", "meter": "M", "metre": "M", "inch": "IN", "foot": "FT", "feet": "FT", "ml": "MilliL",
    "pct": "PERCENT",
}  # fmt: skip


@cache
def factors(source: str, target: str) -> Factors | None:
    """Return the factors p, q, r, t of a conversion (x * p + q) / r * t. Return None if one unit cannot be converted to
    the other.

    `source`, `target`: the IRIs of the two units. p, q and r are whole numbers, r is positive, and t is 1 or a power of
    pi.
    """
    a, b = unit_of(source), unit_of(target)
    if a is None or b is None or a.kind != b.kind:
        return None
    slope = a.multiplier / b.multiplier
    shift = a.offset * slope - b.offset
    whole = math.lcm(slope.denominator, shift.denominator)
    return float(slope * whole), float(shift * whole), float(whole), math.pi ** (a.of_pi - b.of_pi)


def conversion(pool: Pool) -> Callable[[Operand, Operand, Operand], Operand]:
    """Return the implementation of `value_in(X, From, To)` for whole columns.

    The result is missing if a unit is unknown or the units measure different quantities.
    """

    def of_codes(source: int, target: int) -> Factors:
        scale = factors(str(pool.value(source)), str(pool.value(target)))
        return (math.nan,) * 4 if scale is None else scale

    def apply(values: Operand, source: Operand, target: Operand) -> Operand:
        if not np.ndim(source) and not np.ndim(target):
            p, q, r, t = of_codes(int(source), int(target))
            return finite((values * p + q) / r * t)
        pairs, which = distinct_rows(list(np.broadcast_arrays(source, target)), codes=True)
        scales = np.array([of_codes(*pair) for pair in zip(*(column.tolist() for column in pairs))]).reshape(-1, 4)
        scale = scales[which]
        return finite((values * scale[:, 0] + scale[:, 1]) / scale[:, 2] * scale[:, 3])

    return apply

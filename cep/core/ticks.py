"""Times in ticks of a LARS program's clock. The program's options determine the length of a tick in microseconds."""

from __future__ import annotations

import re
from fractions import Fraction

from cep.core.errors import CepError
from cep.core.literals import LONGEST, SECOND
from cep.core.time import FARTHEST

INFINITE = ("inf", "infty", "infinity", "oo")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:/[0-9]+)?", re.ASCII)
_COARSER = (("1s", SECOND), ("1min", 60 * SECOND), ("1h", 3600 * SECOND), ("1d", 86_400 * SECOND))


def ticks(text: str, tick: int) -> int:
    """Convert a number of ticks, such as `3`, `1.5` or `3/2`, to microseconds, exactly. `tick`: the length of a tick.

    Raises CepError if the result is not a whole number of microseconds, or is out of range.
    """
    if text.isascii() and text.isdigit() and len(text) < 12:
        length = Fraction(int(text))
    elif _NUMBER.fullmatch(text):
        above, _, below = text.partition("/")
        if below and not int(below):
            raise CepError("division by 0", code="syntax")
        length = Fraction(above) / Fraction(below or 1)
    else:
        raise CepError(f"`{text}` is not a number", hint="numbers are `3`, `1.5` or `3/2`", code="syntax")
    exact = length * tick
    if exact.denominator != 1:
        coarser = next((name for name, size in _COARSER if (length * size).denominator == 1), f"{length.denominator}s")
        message = f"`{text}` is finer than a microsecond, the shortest unit of time"
        hint = f"use a coarser tick, with which it is a whole number of microseconds: `--tick {coarser}`"
        raise CepError(message, hint=hint, code="syntax")
    if exact > FARTHEST:
        raise CepError(
            "this is more than 36 thousand years",
            hint=f"write at most `{LONGEST}`, or set a shorter --tick",
            code="syntax",
        )
    return int(exact)

"""Parsers of option values: durations, times, `name=file`, and names of events."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from cep.connectors.ahead_limits import AheadLimits
from cep.core.errors import CepError
from cep.core.literals import SECOND, UNITS, read_duration, read_instant, read_ticks
from cep.core.schema import Schema
from cep.core.suggest import did_you_mean
from cep.language.syntax.messages import DURATION, FOREIGN_UNITS

_PLAIN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", re.ASCII)
_ISO = re.compile(
    r"P(?=[0-9T])(?:[0-9.]+W)?(?:[0-9.]+D)?(?:T(?=[0-9])(?:[0-9.]+H)?(?:[0-9.]+M)?(?:[0-9.]+S)?)?", re.ASCII
)


def duration(text: str, option: str) -> int:
    """Parse a duration, and return it in microseconds: `10min`, `10 min`, `PT10M`, `2 h`, or `30` (seconds).

    The result is exact. Raises CepError if the text is not a duration.
    """
    written = text.strip()
    try:
        if _ISO.fullmatch(written.upper()):
            return read_duration(written.upper())
        number = _PLAIN.fullmatch(written)
        if number and (number[2] or "s") in UNITS:
            return read_ticks(number[1], UNITS[number[2] or "s"])
    except CepError as error:
        raise refuse(f"{option}: `{text}`: {error.message}", error.hint) from None
    except ValueError:  # several points in one number
        pass
    raise refuse(f"{option}: `{text}` is not a valid duration", _with_known_unit(written) or DURATION)


def _with_known_unit(written: str) -> str | None:
    number = _PLAIN.fullmatch(written.lower())
    unit = number and FOREIGN_UNITS.get(number[2])
    return f"write `{number[1]}{unit}`; the units are `ms`, `s`, `min`, `h` and `d`" if number and unit else None


def instant(text: str, option: str, unit: Fraction | None) -> int:
    """Parse a time such as `2013-02-09T03:00` to microseconds. `unit`: the unit of a bare number (see
    `read_instant`)."""
    try:
        return read_instant(text, unit)
    except CepError as error:
        raise refuse(f"{option}: {error.message}", error.hint) from None


def idle_seconds(idle: str, stored: bool) -> float:
    """Parse the value of `--idle` to seconds: the time without input after which event time follows the clock.

    `stored`: True if the input is files. Raises CepError then, because `--idle` only applies to live input.
    """
    if stored:
        raise refuse(
            "--idle: the input is files, and --idle is for live input",
            "leave --idle out, or use live input: `--input -`, `--input mqtt://...`",
        )
    return duration(idle, "--idle") / SECOND


def ahead_limits(text: str) -> AheadLimits:
    """Parse the value of `--ahead`, which limits how far the times of records may be ahead of the clock.

    Raises CepError unless the value is a duration or `never`.
    """
    if text.strip() == "never":
        return AheadLimits(None, None)
    try:
        limit = duration(text, "--ahead")
    except CepError as error:
        raise refuse(error.message, f"{error.hint}; `--ahead never` accepts every record") from None
    return AheadLimits(limit, limit)


def name_and_file(text: str, option: str) -> tuple[str, str]:
    """Split `name=file`. Raises CepError if the name or the file is missing."""
    name, equals, path = text.partition("=")
    if not (equals and name and path):
        raise refuse(
            f"{option}: expected `name=file`, found `{text}`",
            f"name the predicate that the table defines: `{option} linked={path or name or 'links.csv'}`",
        )
    return name, path


def refuse(message: str, hint: str | None = None) -> CepError:
    """Return a CepError about a wrong option. It has no position in a program."""
    return CepError(message, hint=hint, code="option")


def selected(known: Mapping[str, Schema], names: Sequence[str]) -> dict[str, Schema]:
    """Return the schemas of the events that `--only` names. If it names no event, return all schemas."""
    for name in names:
        if name not in known:
            derived = ", ".join(f"`{name}`" for name in known) or "nothing"
            hint = did_you_mean(name, known) or f"the program derives {derived}"
            raise refuse(f"--only: no rule derives an event `{name}`", hint)
    return {name: schema for name, schema in known.items() if not names or name in names}


def revise_duration(text: str) -> int:
    """Parse the value of `--revise` to microseconds. Raises CepError if it is not a duration or is zero."""
    microseconds = duration(text, "--revise")
    if microseconds == 0:
        hint = "leave --revise out, or say how late records may come: `--revise 6h`"
        raise refuse(f"--revise {text}: the time must be longer than 0", hint)
    return microseconds


def refuse_longer_lateness(lateness: str | None, revise: str | None) -> None:
    """Raise CepError if `--lateness` is longer than `--revise`."""
    if lateness is None or revise is None:
        return
    if duration(lateness, "--lateness") > revise_duration(revise):
        hint = "make --revise longer than --lateness, which it includes, "
        hint += "or leave --lateness out, which gives results at once"
        raise refuse(f"--lateness {lateness} is more than --revise {revise}", hint)

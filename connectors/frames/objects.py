"""Conversion of Python objects to lines of JSON. The lines are then read like those of a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from cep.core.errors import CepError


def as_lines(label: str, records: Iterable[Any]) -> bytes:
    """Convert each record to a line of JSON. Raises CepError if an object is not a record, or JSON cannot represent it.

    Times are in ISO 8601, durations are `PT..S`. NaN and NaT are missing values. `label`: the data's name in errors.
    """
    return "".join(f"{_line(label, number, record)}\n" for number, record in enumerate(records)).encode("utf-8")


def _line(label: str, number: int, record: Any) -> str:
    if not isinstance(record, Mapping):
        hint = "all pieces of a list are of one kind: records (dicts), `Event`, or tables"
        raise CepError(
            f"{label}: number {number} is a `{type(record).__name__}`, not a record", hint=hint, code="input"
        )
    try:
        plain = {str(name): _there(value) for name, value in record.items()}
        return json.dumps(plain, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise CepError(f"{label}: record {number} cannot be read: {error}", code="input") from None


def _there(value: Any) -> Any:
    """Return the value, or None if it is NaN or NaT. Unlike other values, NaN and NaT do not equal themselves."""
    return None if isinstance(value, float | datetime) and value != value else value


def _plain(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.timedelta64):
        return None if np.isnat(value) else _period(value.astype("timedelta64[us]").astype(timedelta))
    if isinstance(value, np.generic):
        return _there(value.item())
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, date):  # includes datetime
        return value.isoformat()
    if isinstance(value, timedelta):
        return _period(value)
    if isinstance(value, Decimal):
        return None if not value.is_finite() else int(value) if value == int(value) else float(value)
    if type(value).__name__ == "NAType":  # pandas' missing value
        return None
    raise TypeError(f"a `{type(value).__name__}` is not a value of a record")


def _period(value: timedelta) -> str:
    ticks = value // timedelta(microseconds=1)
    whole, rest = divmod(abs(ticks), 1_000_000)
    return f"{'-' if ticks < 0 else ''}PT{whole}.{rest:06}S"

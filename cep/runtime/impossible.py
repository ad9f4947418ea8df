"""What must not hold: where a rule of a dialect derives it all the same, the input contradicts the program."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from cep.core.errors import CepError, Source, Span
from cep.core.literals import write_time


def refuse_impossible(tables: Mapping[str, pl.DataFrame], impossible: Mapping[str, Span], source: Source) -> None:
    """CepError where some of what must not hold does: the rule, the values of its variables, and when."""
    for name, span in impossible.items():
        if name not in tables or not tables[name].height:
            continue
        first = tables[name].sort("start", "end", nulls_last=False).row(0, named=True)
        start, end, bounds = first.pop("start"), first.pop("end"), first.pop("bounds", "[]")
        first.pop("what", None)  # of a table of its beginnings and ends
        opening = "-inf" if start is None else write_time(start)
        closing = "inf" if end is None else write_time(end)
        when = opening if start == end and start is not None else f"{bounds[0]}{opening}, {closing}{bounds[1]}"
        values = ", ".join(f"{variable.upper()} = {value}" for variable, value in first.items())
        shown = f" with {values}" if values else ""
        message = f"the input contradicts this rule: its body holds{shown} at {when}"
        hint = "what the rule derives must never hold: its input, or what leads to it, is wrong"
        raise CepError(message, source, span, hint, "inconsistent")

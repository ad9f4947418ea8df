"""The aggregate functions, and their names in other languages."""

from __future__ import annotations

AGGREGATES = (
    "count", "sum", "avg", "min", "max", "stddev", "first", "last",
    "median", "percentile", "mode", "slope", "rate", "ewma",
)  # fmt: skip

PARAMETERS = {
    "percentile": "a number from 0 to 100, the percentage of values below the result",
    "ewma": "the time after which a value counts half",
}
"""For each function that has a second argument, the meaning of this argument."""

FOREIGN_AGGREGATES = {
    "average": "avg",
    "mean": "avg",
    "total": "sum",
    "maximum": "max",
    "minimum": "min",
    "std": "stddev",
    "stdev": "stddev",
    "cnt": "count",
    "latest": "last",
    "quantile": "percentile",
    "percentile_cont": "percentile",
    "trend": "slope",
    "regr_slope": "slope",
    "derivative": "rate",
    "deriv": "rate",
    "ema": "ewma",
    "ewm": "ewma",
    "most_frequent": "mode",
}

HINT = "is an aggregate, which takes many events: `smoke(R, T) AGGREGATE M = {} OVER LAST 30 min BY R`"
"""The hint for an aggregate function that is used as a value."""


def example(name: str, value: str) -> str:
    """Return an example call of an aggregate function. `value`: the text of its first argument."""
    more = {"percentile": ", 95", "ewma": ", 5 min"}.get(name, "")
    return f"{name}({value}{more})"

"""The aggregate functions, and what other languages call them."""

from __future__ import annotations

AGGREGATES = ("count", "sum", "avg", "min", "max", "stddev", "first", "last")

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
}

HINT = "is an aggregate, which takes many events: `smoke(R, T) AGGREGATE M = {}(T) OVER LAST 30 min BY R`"
"""What is said of one where a value is due."""

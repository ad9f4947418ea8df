"""Results of an aggregate: the kernel's number of each function, and the bits of what it is taken of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cep.core.relation import Table, bits, rows
from cep.operators.goals.contract import Ints
from cep.operators.goals.heads import columns_of
from cep.operators.goals.windows import partial, wide_partial
from cep.rules.expressions.checking import check
from cep.rules.expressions.evaluate import Evaluation, compile_expression
from cep.rules.expressions.typed import coerced
from cep.rules.terms import AggregateResult

if TYPE_CHECKING:
    from cep.operators.build import GoalBuilder

OF_FLOATS = ("avg", "stddev", "median", "percentile", "slope", "rate", "ewma")
"""Functions that take numbers as floats, and give one."""

KINDS = {
    ("median", "float"): wide_partial.MEDIAN,
    ("percentile", "float"): wide_partial.PERCENTILE,
    ("slope", "float"): wide_partial.SLOPE,
    ("rate", "float"): wide_partial.RATE,
    ("ewma", "float"): wide_partial.EWMA,
    ("sum", "int"): partial.SUM_INT,
    ("sum", "duration"): partial.SUM_INT,
    ("sum", "float"): partial.SUM_FLOAT,
    ("avg", "float"): partial.AVG,
    ("stddev", "float"): partial.STDDEV,
    ("min", "float"): partial.MIN_FLOAT,
    ("max", "float"): partial.MAX_FLOAT,
}


def kind_of(function: str, type: str, distinct: bool) -> int:
    """The kernel's number for a function over values of a type (None: `count()`)."""
    if function == "count":
        return partial.DISTINCT if distinct else partial.COUNT_VALUES if type else partial.COUNT
    if function == "first":
        return partial.FIRST_FLOAT if type == "float" else partial.FIRST_VALUE
    if function == "last":
        return partial.LAST_FLOAT if type == "float" else partial.LAST_VALUE
    if function == "mode":
        return wide_partial.MODE_FLOAT if type == "float" else wide_partial.MODE
    if function in ("min", "max") and type != "float":
        return partial.MIN_INT if function == "min" else partial.MAX_INT
    return KINDS[function, type]


@dataclass(frozen=True, slots=True)
class Results:
    """Of each result the number of its function (`kinds`) and the type of its argument, None where it has none.
    `values` gives the bits of the arguments over a table, a row a result."""

    kinds: tuple[int, ...]
    types: tuple[str | None, ...]
    values: Callable[[Table], Ints]


def results_of(results: Sequence[AggregateResult], types: Sequence[str], builder: GoalBuilder) -> Results:
    """The results of a node over columns of these types."""
    names = {f"v{i}": type for i, type in enumerate(types)}
    kinds: list[int] = []
    taken: list[str | None] = []
    evaluations: list[Evaluation | None] = []
    for result in results:
        if result.argument is None:
            kinds.append(kind_of("count", "", False))
            taken.append(None)
            evaluations.append(None)
            continue
        typed = check(result.argument, names, builder.plan.source)
        wanted = typed.type
        if result.function in OF_FLOATS or (typed.type == "any" and result.function in ("sum", "min", "max")):
            wanted = "float"
        fitted = coerced(typed, wanted)
        assert fitted is not None, "arguments that are no numbers were refused"
        kinds.append(kind_of(result.function, wanted, result.distinct))
        taken.append(wanted)
        evaluations.append(compile_expression(fitted, builder.pool))

    def values(table: Table) -> Ints:
        named = columns_of(table, types)
        made = np.zeros((len(evaluations), rows(table)), np.int64)
        for k, evaluate in enumerate(evaluations):
            if evaluate is not None:
                made[k] = bits(evaluate(named, rows(table)))
        return made

    return Results(tuple(kinds), tuple(taken), values)

"""Warnings about a graph pattern's variables if their values have several types. A rule cannot compare a text with a
number."""

from __future__ import annotations

import numpy as np

from cep.core.errors import Source, Warning
from cep.core.relation import Column
from cep.core.values import BOOL, FLOAT, INT, IRI, STRING, Ints, Pool
from cep.rules.expressions.typed import a
from cep.rules.terms import Graph

_NAMES = {INT: "int", FLOAT: "float", BOOL: "bool", STRING: "string", IRI: "iri"}


def mingled(
    graph: Graph, types: tuple[str, ...], columns: tuple[Column, ...], pool: Pool, source: Source
) -> list[Warning]:
    """Warn of each variable that has numbers or booleans as well as values of another type.

    The warning counts the values of each type. It also shows an example: a value of the rarest type, and the answer of
    the graph pattern that contains this value.
    """
    warnings = []
    for i, (type, column) in enumerate(zip(types, columns)):
        if type != "any":
            continue
        kinds = pool.kinds(column)
        if (kinds == FLOAT).any():
            kinds = np.where(kinds == INT, FLOAT, kinds)
        counts = {kind: int((kinds == kind).sum()) for kind in _NAMES if (kinds == kind).any()}
        if len(counts) < 2 or not set(counts) & {INT, FLOAT, BOOL}:
            continue
        order = sorted(counts, key=lambda kind: (-counts[kind], kind))
        listed = ", ".join(f"{a(_NAMES[kind])} {_times(counts[kind])}" for kind in order)
        row = int(np.flatnonzero(kinds == order[-1])[0])
        beside = _beside(graph, i, row, types, columns, pool)
        message = f"`?{graph.variables[i]}` is {listed}: {_shown(column[row : row + 1], pool)}{beside}"
        hint = "values of two kinds are never equal or less: a comparison of them is never true"
        warnings.append(Warning(message, source, graph.span, hint, "mingled"))
    return warnings


def _beside(graph: Graph, place: int, row: int, types: tuple[str, ...], columns: tuple[Column, ...], pool: Pool) -> str:
    for name, type, column in zip(graph.variables, types, columns):
        if name != graph.variables[place] and type in ("iri", "string"):
            return f", where `?{name}` is {_shown(column[row : row + 1], pool)}"
    return ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _shown(codes: Ints, pool: Pool) -> str:
    (value,) = pool.decode_values(codes)
    if pool.kinds(codes)[0] == IRI:
        return f"<{value}>"
    return f'"{value}"' if pool.kinds(codes)[0] == STRING else str(value)

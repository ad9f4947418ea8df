"""Conversion of term ids to values, one by one, which for a few rows is faster than by columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from cep.core.values import MISSING, Ints, Pool
from cep.events import Iri
from cep.knowledge.rdf.namespaces import XSD
from cep.knowledge.rdf.terms import BLANK, NONE, Terms
from cep.knowledge.rdf.values import INTEGERS, READ
from cep.rules.static.materialized import Column

FEW = 32
"""The maximum number of rows to convert one by one."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_REAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = frozenset(XSD + name for name in INTEGERS)
_FRACTIONS = frozenset((XSD + "decimal", XSD + "double"))


def few_columns(terms: Terms, columns: Sequence[Ints], pool: Pool) -> tuple[tuple[str, ...], tuple[Column, ...]] | None:
    """Return the same result as `Terms.columns` if there are few rows, and each column has values of one simple type.

    The simple types are IRIs, strings and numbers. Return None in all other cases.
    """
    if not columns or len(columns[0]) > FEW:
        return None
    every = sorted({id for column in columns for id in column.tolist()} - {NONE})
    ids: Ints = np.array(every, dtype=np.int64)
    values: dict[int, tuple[str, Any]] = {NONE: ("", None)}
    for id, sort, text in zip(every, terms.sort_of(ids).tolist(), terms.texts(ids).to_list()):
        value = _value(terms.sorts[sort].datatype, terms.sorts[sort].kind == BLANK, text)
        if value is None:
            return None
        values[id] = value
    typed_columns = [_column([values[id] for id in column.tolist()], pool) for column in columns]
    if any(typed is None for typed in typed_columns):
        return None
    return tuple(typed[0] for typed in typed_columns if typed), tuple(typed[1] for typed in typed_columns if typed)


def _value(datatype: str, blank: bool, text: str) -> tuple[str, Any] | None:
    if not datatype:
        return "iri", Iri("_:" + text if blank else text)
    if datatype in _WHOLE:
        return ("int", int(text)) if _INTEGER.fullmatch(text) else None
    if datatype in _FRACTIONS:
        if not _REAL.fullmatch(text) or (datatype == XSD + "decimal" and "e" in text.lower()):
            return None
        number = float(text)
        return "float", number if np.isfinite(number) else np.nan
    return None if datatype in READ else ("string", text)


def _column(values: Sequence[tuple[str, Any]], pool: Pool) -> tuple[str, Column] | None:
    types = {type for type, _ in values} - {""}
    if len(types) > 1:
        return None
    type = types.pop() if types else "any"
    if type == "float":
        return type, np.array([np.nan if value is None else value for _, value in values])
    if type == "int":
        return type, np.array([MISSING if value is None else value for _, value in values], dtype=np.int64)
    return type, pool.encode_values([value for _, value in values])

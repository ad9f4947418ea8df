"""Values of literals according to rdflib: the datatypes that contain a value, and the literals that are equal.

This module verifies `cep.knowledge.reasoning`, so it shares no code with that package.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from rdflib import Literal, URIRef
from rdflib.namespace import XSD
from rdflib.term import Node

LEAST_AND_MOST: dict[Node, tuple[int | None, int | None]] = {
    XSD.integer: (None, None),
    XSD.long: (-(2**63), 2**63 - 1),
    XSD.int: (-(2**31), 2**31 - 1),
    XSD.short: (-(2**15), 2**15 - 1),
    XSD.byte: (-128, 127),
    XSD.nonNegativeInteger: (0, None),
    XSD.positiveInteger: (1, None),
    XSD.nonPositiveInteger: (None, 0),
    XSD.negativeInteger: (None, -1),
    XSD.unsignedLong: (0, 2**64 - 1),
    XSD.unsignedInt: (0, 2**32 - 1),
    XSD.unsignedShort: (0, 2**16 - 1),
    XSD.unsignedByte: (0, 255),
}
"""The integer datatypes, with their minimum and maximum."""

_OTHERS = (XSD.double, XSD.float, XSD.boolean, XSD.date, XSD.time, XSD.dateTime, XSD.hexBinary, XSD.base64Binary)


def datatype_contains(datatype: Node, literal: Literal) -> bool:
    """Return True if the datatype contains a literal's value, or if this is unknown."""
    value = literal.value
    number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if datatype in LEAST_AND_MOST:
        least, most = LEAST_AND_MOST[datatype]
        return number and value == int(value) and (least is None or least <= value) and (most is None or value <= most)
    if datatype == XSD.decimal:
        return number
    if datatype in _OTHERS:
        return value is not None and (_space(literal) == datatype or _space(literal) not in _OTHERS)
    return datatype != XSD.string or (isinstance(value, str) and literal.datatype == XSD.string)


def values_differ(x: Literal, y: Literal) -> bool:
    sorts = [(XSD.decimal if datatype_contains(XSD.decimal, term) else term.datatype, term.language) for term in (x, y)]
    return sorts[0] != sorts[1] or x.value != y.value


def representative(term: Node) -> Node:
    """Return the same term for all literals of equal value. Another term represents itself."""
    if not isinstance(term, Literal) or term.value is None or isinstance(term.value, str):
        return term
    if isinstance(term.value, int | Decimal) and not isinstance(term.value, bool):
        value = Decimal(term.value)
        whole = value == value.to_integral_value()
        return Literal(str(int(value)), datatype=XSD.integer) if whole else Literal(value.normalize())
    space = _space(term)
    if space not in _OTHERS:
        return term
    text = str(np.float32(term.value) if space == XSD.float else term.value)
    return Literal(text.lower(), datatype=space)


def _space(literal: Literal) -> URIRef | None:
    return XSD.dateTime if literal.datatype == XSD.dateTimeStamp else literal.datatype

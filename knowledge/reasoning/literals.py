"""Literals and datatypes: ill-formed literals, the datatypes that contain a value, and literals of different values.

These are the dt- rules of OWL 2 RL/RDF, table 8. The known datatypes are the datatypes of XML Schema that this module
lists, rdf:PlainLiteral, rdf:langString and rdfs:Literal. Literals of other datatypes are equal if their texts are.
"""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import polars as pl

from cep.core.values import Ints
from cep.knowledge.rdf.namespaces import RDF, RDFS, XSD
from cep.knowledge.rdf.terms import LITERAL, Sort, Terms
from cep.knowledge.rdf.values import READ, Bools

_NAME = r"[\p{L}_][\p{L}\p{M}\p{N}._\-]*"
_TOKEN = r"^(?:[^\s]+(?: [^\s]+)*)?$"
_ZONE = r"(?:Z|[+-][0-9]{2}:[0-9]{2})"
_CLOCK = r"(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?|24:00:00(?:\.0+)?)"
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"

_TEXTS = {
    "normalizedString": r"^[^\r\n\t]*$",
    "token": _TOKEN,
    "language": r"^[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*$",
    "Name": rf"^(?:{_NAME}|:[\p{{L}}\p{{M}}\p{{N}}.:_\-]*|{_NAME}:[\p{{L}}\p{{M}}\p{{N}}.:_\-]*)$",
    "NCName": rf"^{_NAME}$",
    "NMTOKEN": r"^[\p{L}\p{M}\p{N}.:_\-]+$",
}
_FORMS = {
    **{XSD + name: form for name, form in _TEXTS.items()},
    XSD + "hexBinary": r"^(?:[0-9A-Fa-f]{2})*$",
    XSD + "base64Binary": r"^(?:[A-Za-z0-9+/] ?)*(?:= ?){0,2}$",
    XSD + "time": rf"^{_CLOCK}{_ZONE}?$",
    XSD + "duration": rf"^-?P(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+D)?(?:T(?:[0-9]+H)?(?:[0-9]+M)?(?:{_NUMBER}S)?)?$",
}
"""Patterns for the lexical forms of datatypes that `cep.knowledge.rdf.values` does not read."""

_BOUNDS: dict[str, tuple[int, int]] = {
    XSD + "long": (-(2**63), 2**63 - 1),
    XSD + "int": (-(2**31), 2**31 - 1),
    XSD + "short": (-(2**15), 2**15 - 1),
    XSD + "byte": (-128, 127),
    XSD + "nonNegativeInteger": (0, 2**127 - 1),
    XSD + "positiveInteger": (1, 2**127 - 1),
    XSD + "nonPositiveInteger": (-(2**127), 0),
    XSD + "negativeInteger": (-(2**127), -1),
    XSD + "unsignedLong": (0, 2**64 - 1),
    XSD + "unsignedInt": (0, 2**32 - 1),
    XSD + "unsignedShort": (0, 2**16 - 1),
    XSD + "unsignedByte": (0, 255),
}
"""The minimum and maximum of the datatypes derived from xsd:integer. A 128-bit limit means "no bound"."""

SPACES: dict[str, str] = {
    **dict.fromkeys([*_BOUNDS, XSD + "integer", XSD + "decimal"], "decimal"),
    **{XSD + name: "string" for name in ["string", *_TEXTS]},
    **{XSD + name: name for name in ("double", "float", "boolean", "anyURI", "date", "time")},
    **{XSD + name: name for name in ("hexBinary", "base64Binary")},
    **{XSD + name: "dateTime" for name in ("dateTime", "dateTimeStamp")},
    **{XSD + name: "duration" for name in ("duration", "dayTimeDuration")},
    RDF + "langString": "langString",
}
"""The primitive type of each known datatype. Datatypes that have different primitive types have no value in common."""

_UNIONS = {RDFS + "Literal": None, RDF + "PlainLiteral": ("string", "langString")}


KNOWN = (*SPACES, *_UNIONS)
"""All known datatypes."""


_FEW = 32  # the maximum number of texts that are tested one by one
PLAIN = {
    XSD + "integer": re.compile(r"-?[0-9]{1,18}"),
    XSD + "decimal": re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?"),
    XSD + "double": re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?"),
}
"""Patterns for texts that are certainly valid for their datatype."""


def well_formed(datatype: str, texts: pl.Series) -> Bools:
    """Return a mask of the texts that are valid for the datatype. All texts are valid for an unknown datatype."""
    good = np.ones(len(texts), dtype=np.bool_)
    if len(texts) <= _FEW and datatype in PLAIN and all(map(PLAIN[datatype].fullmatch, texts.to_list())):
        return good
    if datatype in READ and datatype not in _FORMS:
        good &= READ[datatype][1](texts)[0]
    if datatype in _BOUNDS:
        # A number of more than 128 bits exceeds every bound of its sign.
        huge = pl.when(texts.str.starts_with("-")).then(pl.lit(-(2**127), pl.Int128)).otherwise(pl.lit(2**127 - 1))
        numbers = pl.select(pl.coalesce(texts.cast(pl.Int128, strict=False), huge)).to_series()
        good &= numbers.is_between(*_BOUNDS[datatype]).to_numpy()
    if datatype in _FORMS:
        good &= texts.str.contains(_FORMS[datatype]).to_numpy()
    if datatype == XSD + "dateTimeStamp":
        good &= texts.str.contains(_ZONE + "$").to_numpy()
    if datatype == XSD + "duration":
        good &= ~texts.str.contains("[PT]$").to_numpy()
    return good


def ill_formed(terms: Terms, ids: Ints) -> Ints:
    """Return the ids of literals whose text is invalid for their datatype (rule dt-not-type), in ascending order."""
    wrong = [
        places[~well_formed(sort.datatype, terms.texts(ids[places]))]
        for sort, places in _by_sort(terms, ids)
        if sort.datatype in READ or sort.datatype in _FORMS
    ]
    return np.sort(ids[np.concatenate([np.empty(0, dtype=np.int64), *wrong])])


def inside(terms: Terms, ids: Ints, datatype: str) -> Bools:
    """Return a mask of the literals whose value is in the value space of `datatype` (rule dt-type2).

    All literals must be well-formed.
    """
    is_inside = np.zeros(len(ids), dtype=np.bool_)
    for sort, places in _by_sort(terms, ids):
        is_inside[places] = _inside(sort, terms.texts(ids[places]), datatype)
    return is_inside


def outside(terms: Terms, ids: Ints, datatype: str) -> Bools:
    """Return a mask of the literals whose value is certainly not in the value space of `datatype` (rule dt-not-type).

    All literals must be well-formed. Literals whose own datatype is unknown are not in the mask.
    """
    is_outside = np.zeros(len(ids), dtype=np.bool_)
    if datatype in KNOWN:
        for sort, places in _by_sort(terms, ids):
            if sort.datatype in SPACES:
                is_outside[places] = ~_inside(sort, terms.texts(ids[places]), datatype)
    return is_outside


def _inside(sort: Sort, texts: pl.Series, datatype: str) -> Bools:
    everything = np.ones(len(texts), dtype=np.bool_)
    space = SPACES.get(sort.datatype)
    if datatype in _UNIONS:
        union = _UNIONS[datatype]
        return everything if union is None or space in union else ~everything
    if datatype == sort.datatype:
        return everything
    if space is None or SPACES.get(datatype) != space:
        return ~everything
    if space == "decimal" and sort.datatype == XSD + "decimal":
        texts = texts.str.replace(r"\.0*$", "")  # 5.0 is the integer 5
    return well_formed(datatype, texts) if datatype != XSD + "decimal" else everything


def known_different(terms: Terms, first: int, second: int) -> bool:
    """Return True if two well-formed literals certainly have different values (rule dt-diff).

    Moments and durations are compared to the microsecond. For two times of day, the result is always False.
    """
    (a, x), (b, y) = (_written(terms, id) for id in (first, second))
    spaces = SPACES.get(a.datatype), SPACES.get(b.datatype)
    if None in spaces:
        return False
    return spaces[0] != spaces[1] or _value(a, x) != _value(b, y)


def _value(sort: Sort, text: str) -> object:
    """Return a key for the value of a literal. In a value space, values are different if their keys differ."""
    space = SPACES[sort.datatype]
    if space == "decimal":
        return Decimal(text)
    if space in ("double", "float"):
        number = float(text) if space == "double" else float(np.float32(text))
        return None if np.isnan(number) else number
    if space == "boolean":
        return text in ("true", "1")
    if space in ("dateTime", "date", "duration"):
        good, ticks = READ[sort.datatype][1](pl.Series([text]))
        return int(ticks[0]) if good[0] else None
    if space == "time":
        return None
    if space == "hexBinary":
        return text.upper()
    return text.replace(" ", "") if space == "base64Binary" else (text, sort.language)


def _written(terms: Terms, id: int) -> tuple[Sort, str]:
    ids = np.array([id])
    return terms.sorts[int(terms.sort_of(ids)[0])], str(terms.texts(ids)[0])


def _by_sort(terms: Terms, ids: Ints) -> list[tuple[Sort, Ints]]:
    sorts = terms.sort_of(ids)
    places_by_sort = [(terms.sorts[index], np.flatnonzero(sorts == index)) for index in np.unique(sorts).tolist()]
    return [(sort, places) for sort, places in places_by_sort if sort.kind == LITERAL]

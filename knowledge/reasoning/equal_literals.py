"""Literals of equal value (rule dt-eq). One literal represents all literals of the same value, and rules compare
literals by their representatives.

The rules dt-eq and eq-rep-o together would repeat each triple in every form of its literal. These triples are not
derived. Instead, each rule in which the same object occurs twice has a variant (`owl2rl.VALUES`) that compares the two
objects by value.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from cep.core.values import Ints
from cep.knowledge.rdf.canonical import CANONICAL, canonical_form
from cep.knowledge.rdf.namespaces import XSD
from cep.knowledge.rdf.relation import BinaryRelation, PredicateRelations, packed, sorted_distinct, unpacked
from cep.knowledge.rdf.terms import LITERAL, Terms
from cep.knowledge.rdf.values import Bools
from cep.knowledge.reasoning.literals import SPACES
from cep.knowledge.reasoning.rule import VALUE

_PLAIN = r"^(?:0|-?[1-9][0-9]*)$"
_OF_TIME = ("dateTime", "date", "time", "duration")


def literal_values(terms: Terms, asserted: PredicateRelations) -> PredicateRelations:
    """Return pairs of a literal in `asserted` and its representative, if the value occurs in several forms."""
    literals = _literals(terms, asserted)
    return _paired(literals, standing := standing_for(terms, literals), standing[standing != literals])


def more_values(
    terms: Terms, facts: PredicateRelations, asserted: PredicateRelations, more: PredicateRelations
) -> PredicateRelations:
    """Return the pairs (literal, representative) to add to `facts` when the triples `more` are asserted.

    `asserted`: all asserted triples, including `more`.
    """
    literals = _literals(terms, more)
    standing = standing_for(terms, literals)
    other = standing[standing != literals]
    known = _used(asserted, sorted_distinct(other))
    several = np.concatenate([other, facts[VALUE].objects])
    return facts.fresh(_paired(np.concatenate([literals, known]), np.concatenate([standing, known]), several))


def lost_values(
    terms: Terms, facts: PredicateRelations, asserted: PredicateRelations, less: PredicateRelations
) -> PredicateRelations:
    """Return the pairs (literal, representative) to remove from `facts` when the triples `less` are no longer asserted.

    `asserted`: the remaining asserted triples.
    """
    values = facts[VALUE].pairs
    literals = _literals(terms, less) if len(values) else values
    gone = literals[~np.isin(literals, _used(asserted, literals))]
    return PredicateRelations({VALUE: BinaryRelation.at(values[np.isin(values >> 32, gone)], 0)})


def _literals(terms: Terms, facts: PredicateRelations) -> Ints:
    columns = [unpacked(facts[predicate].pairs)[1] for predicate in facts if predicate >= 0]
    objects = sorted_distinct(np.concatenate([np.empty(0, dtype=np.int64), *columns]))
    literals: Ints = objects[terms.kinds(objects) == LITERAL]
    return literals


def _used(facts: PredicateRelations, literals: Ints) -> Ints:
    """Return the `literals` that are the object of at least one fact. This is fast for a few literals."""
    is_used = np.zeros(len(literals), dtype=np.bool_)
    for predicate in facts if len(literals) else ():
        within = facts[predicate].backward
        is_used |= np.searchsorted(within, literals << 32) < np.searchsorted(within, (literals + 1) << 32)
    return literals[is_used]


def _paired(literals: Ints, standing: Ints, several: Ints) -> PredicateRelations:
    """Return pairs of a literal and its representative. Leave out pairs whose representative is not in `several`.

    `standing`: the representative of each literal. `several`: the representatives of values that have several forms.
    """
    chosen = np.isin(standing, several)
    return PredicateRelations(
        {VALUE: BinaryRelation.at(sorted_distinct(packed(literals[chosen], standing[chosen])), 0)}
    )


def one_value(facts: PredicateRelations, pairs: Ints) -> Bools:
    """Return a mask that is True for those packed pairs that consist of two different literals of equal value."""
    first, second = unpacked(pairs)
    values = facts[VALUE].pairs
    same_value: Bools = (first != second) & (_standing(values, first) == _standing(values, second))
    return same_value


def _standing(values: Ints, ids: Ints) -> Ints:
    if not len(values):
        return ids
    places = np.minimum(np.searchsorted(values, ids << 32), len(values) - 1)
    literals, standing = unpacked(values[places])
    return np.where(literals == ids, standing, ids)


def standing_for(terms: Terms, ids: Ints) -> Ints:
    """Return the representative of each well-formed literal. A literal in its normal form represents itself.

    Values are equal if OWL 2 says that they are identical. There are three separate spaces of numbers: xsd:decimal with
    its subtypes, xsd:double, and xsd:float. Times in different time zones are different values, even at the same
    moment.
    """
    standing, sorts = ids.copy(), terms.sort_of(ids)
    for index in np.unique(sorts).tolist():
        sort, places = terms.sorts[index], np.flatnonzero(sorts == index)
        space = SPACES.get(sort.datatype, "")
        texts = terms.texts(ids[places])
        if space == "decimal":
            if sort.datatype == XSD + "integer":
                places = places[~texts.str.contains(_PLAIN).to_numpy()]
                texts = terms.texts(ids[places])
            whole, written = _decimals(texts)
            for is_whole, datatype in ((True, "integer"), (False, "decimal")):
                rows = np.flatnonzero(whole == is_whole)
                if sort.datatype == XSD + datatype:
                    rows = rows[(written.gather(rows) != texts.gather(rows)).to_numpy()]
                if not len(rows):
                    continue
                standing[places[rows]] = terms.literals(written.gather(rows), XSD + datatype)
        elif space in _OF_TIME:
            if sort.datatype in CANONICAL:
                rows = np.flatnonzero(~texts.str.contains(CANONICAL[sort.datatype]).to_numpy())
                places, texts = places[rows], texts.gather(rows)
            if len(places):
                back = canonical_form(sort.written(texts)).str.extract(r'^"([^"]*)"')
                standing[places] = terms.literals(back, XSD + space)
        elif (form := _written(space, texts)) is not None:
            standing[places] = terms.literals(form, XSD + space)
    return standing


def _written(space: str, texts: pl.Series) -> pl.Series | None:
    if space == "double":
        return texts.cast(pl.Float64).cast(pl.String)
    if space == "float":
        return texts.cast(pl.Float64).cast(pl.Float32).cast(pl.String)
    if space == "boolean":
        return texts.replace({"1": "true", "0": "false"})
    if space == "hexBinary":
        return texts.str.to_uppercase()
    if space == "base64Binary":
        return texts.str.replace_all(" ", "", literal=True)
    return texts if space == "string" else None


def _decimals(texts: pl.Series) -> tuple[Bools, pl.Series]:
    """Return a mask of the numbers that are whole, and the normal form of each number. The normal form has no
    superfluous signs and digits."""
    parts = texts.str.extract_groups(r"^(?<sign>[+-]?)0*(?<whole>[0-9]*)(?:\.(?<part>[0-9]*?)0*)?$").struct.unnest()
    part, whole = parts["part"].fill_null(""), parts["whole"].replace("", "0")
    nothing = (part == "") & (whole == "0")
    sign = pl.select(pl.when((parts["sign"] == "-") & ~nothing).then(pl.lit("-")).otherwise(pl.lit(""))).to_series()
    point = pl.select(pl.when(part != "").then(pl.lit(".")).otherwise(pl.lit(""))).to_series()
    return (part == "").to_numpy(), sign + whole + point + part

"""A dictionary of RDF terms: it maps IRIs, blank nodes and literals to dense int64 ids and back, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyoxigraph as ox
from numpy.typing import NDArray

from cep.core.hashtable import KeySet
from cep.core.values import Ints, Pool
from cep.knowledge.rdf.namespaces import XSD
from cep.knowledge.rdf.values import decoded_column, escaped, unescaped
from cep.rules.static.materialized import Column

IRI, BLANK, LITERAL = range(3)
"""The kinds of term."""

LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
NONE = -1
"""The id of unbound values, and of terms that a dictionary lacks."""

Term = ox.NamedNode | ox.BlankNode | ox.Literal
_SUFFIX = r'"(?:\^\^<(?<datatype>[^<>"]*)>|@(?<language>[A-Za-z0-9-]+))?$'


@dataclass(frozen=True, slots=True)
class Sort:
    """The sort of a term: its kind and, if it is a literal, the IRI of its datatype and its language in lower case."""

    kind: int
    datatype: str = ""
    language: str = ""

    def written(self, texts: pl.Series) -> pl.Series:
        """Return terms of this sort in N-Triples. `texts`: their IRIs, labels or lexical forms."""
        before, after = "_:" if self.kind == BLANK else "<", "" if self.kind == BLANK else ">"
        if self.kind == LITERAL:
            before, after, texts = (
                '"',
                '"' if self.datatype == XSD + "string" else f'"^^<{self.datatype}>',
                escaped(texts),
            )
        if self.language:
            after = f'"@{self.language}'
        return pl.select(pl.lit(before) + pl.lit(texts) + pl.lit(after)).to_series()


_MET = 1 << 14  # the maximum number of cached lookups of single terms
_IRIS, _BLANKS, _STRINGS = range(3)  # the sorts every dictionary has


class Terms:
    """A dictionary of distinct RDF terms. The id of a term is its position in the order of insertion.

    Terms are never removed. Terms are compared as in RDF: `"1"^^xsd:integer` and `"01"^^xsd:integer` are different
    terms, `"x"` and `"x"^^xsd:string` are the same. Texts are distinguished by two independent 64-bit hashes.
    """

    def __init__(self) -> None:
        self.sorts: list[Sort] = [Sort(IRI), Sort(BLANK), Sort(LITERAL, XSD + "string")]
        self._sort_ids: dict[Sort, int] = {sort: i for i, sort in enumerate(self.sorts)}
        self._keys = KeySet(2)
        self._sort: NDArray[np.int32] = np.empty(16, dtype=np.int32)
        self._texts = pl.Series(dtype=pl.String)  # the texts of the first terms
        self._tail = pl.Series(dtype=pl.String)  # the texts of the next terms; `_recent` has those of the last ones
        self._recent: list[pl.Series] = []
        self._met: dict[tuple[Sort, str], int] = {}  # the cached lookups of single terms

    def __len__(self) -> int:
        return self._keys.count

    @property
    def nbytes(self) -> int:
        """The approximate memory of the dictionary in bytes."""
        texts = sum(piece.estimated_size() for piece in (self._texts, self._tail, *self._recent))
        return int(self._keys.nbytes + self._sort.nbytes + texts + 16 * len(self))

    def copy(self) -> Terms:
        """Return a copy of the dictionary. Terms that are added to one of the two are not added to the other."""
        copied = copy(self)
        copied.sorts, copied._sort_ids, copied._met = list(self.sorts), dict(self._sort_ids), dict(self._met)
        copied._keys, copied._sort, copied._recent = self._keys.copy(), self._sort.copy(), list(self._recent)
        return copied

    def only(self, ids: Ints) -> Terms:
        """Return a dictionary that contains only the terms with these ids. `ids` must be in ascending order. The new
        ids are 0, 1, ..."""
        kept_terms = Terms()
        kept_terms.sorts, kept_terms._sort_ids = list(self.sorts), dict(self._sort_ids)
        kept_terms._insert(self.texts(ids), self._sort[ids].astype(np.int64))
        return kept_terms

    # --- columns of texts to ids; terms not met before are added ---

    def iris(self, texts: pl.Series) -> Ints:
        """Return the ids of IRIs. Unknown IRIs are added to the dictionary.

        `texts`: absolute IRIs without angle brackets, which are not validated.
        """
        return self._insert(texts, _IRIS)

    def literals(self, texts: pl.Series, datatype: str = XSD + "string", language: str = "") -> Ints:
        """Return the ids of literals with the same datatype or language. Unknown ones are added to the dictionary.

        `texts`: the lexical forms. `datatype`: a full IRI.
        """
        sort = Sort(LITERAL, LANG_STRING, language.lower()) if language else Sort(LITERAL, datatype)
        return self._insert(texts, self.sort_id(sort))

    def tokens(self, texts: pl.Series, add: bool = True) -> Ints:
        """Return the ids of terms that are written in N-Triples, as Oxigraph writes them. The id of null is NONE.

        Examples of `texts` are `<http://...>`, `_:b`, `"1"^^<http://...>` and `"x"@en`. `add`: True to add unknown
        terms to the dictionary. If it is False, the id of an unknown term is NONE.
        """
        ids: Ints = np.full(len(texts), NONE, dtype=np.int64)
        take = self._insert if add else self._find
        first = texts.str.head(1)
        rows = np.flatnonzero((first == "<").fill_null(False).to_numpy())
        if len(rows) == len(texts):
            return take(texts.str.slice(1).str.head(-1), _IRIS)
        ids[rows] = take(texts.gather(rows).str.slice(1).str.head(-1), _IRIS)
        rows = np.flatnonzero((first == "_").fill_null(False).to_numpy())
        ids[rows] = take(texts.gather(rows).str.slice(2), _BLANKS)
        rows = np.flatnonzero((first == '"').fill_null(False).to_numpy())
        literals = texts.gather(rows)
        plain = literals.str.ends_with('"').to_numpy()
        ids[rows[plain]] = take(unescaped(literals.filter(plain).str.slice(1).str.head(-1)), _STRINGS)
        rows, literals = rows[~plain], literals.filter(~plain)
        if len(rows):
            ids[rows] = take(*self._typed(literals))
        return ids

    def _typed(self, literals: pl.Series) -> tuple[pl.Series, Ints]:
        # Return the lexical forms and sorts of N-Triples literals with a datatype or a language.
        parts = literals.str.extract_groups(_SUFFIX).struct.unnest()
        endings = parts.with_columns(
            length=pl.when(pl.col("datatype").is_not_null())
            .then(pl.col("datatype").str.len_bytes() + 5)
            .otherwise(pl.col("language").str.len_bytes() + 2)
        )
        kinds = parts.unique(maintain_order=True)
        sorts = [
            self.sort_id(Sort(LITERAL, LANG_STRING, language.lower()) if language else Sort(LITERAL, datatype))
            for datatype, language in kinds.iter_rows()
        ]
        joined = parts.join(
            kinds.with_columns(sort=pl.Series(sorts, dtype=pl.Int64)),
            on=["datatype", "language"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        # Cut off the suffix. Its length is in bytes, because a datatype may contain any character.
        frame = endings.select("length").with_columns(text=literals)
        texts = frame.select(
            pl.col("text").cast(pl.Binary).bin.slice(1, pl.col("text").str.len_bytes() - pl.col("length") - 1)
        ).to_series()
        return unescaped(texts.cast(pl.String)), joined["sort"].to_numpy()

    # --- ids to what they stand for ---

    def kinds(self, ids: Ints) -> NDArray[np.int64]:
        """Return the kind of each term: IRI, BLANK or LITERAL. No id may be NONE."""
        return np.array([sort.kind for sort in self.sorts], dtype=np.int64)[self._sort[ids]]

    def sort_of(self, ids: Ints) -> NDArray[np.int32]:
        """Return, for each term, the index of its sort in the list `sorts`. No id may be NONE."""
        return self._sort[ids]

    def sort_id(self, sort: Sort) -> int:
        """Return the index of a sort in the list `sorts`. An unknown sort is added to the list."""
        if sort not in self._sort_ids:
            self._sort_ids[sort] = len(self.sorts)
            self.sorts.append(sort)
        return self._sort_ids[sort]

    def texts(self, ids: Ints) -> pl.Series:
        """Return the text of each term: an IRI without brackets, a label without `_:`, or a lexical form. The text of
        NONE is null."""
        self._settle()
        known = ids != NONE
        late = ids >= len(self._texts)
        if known.all() and not late.any():
            return self._texts.gather(ids)
        early = np.flatnonzero(known & ~late)
        rows = np.flatnonzero(late)
        parts = [self._texts.gather(ids[early]), self._tail.gather(ids[rows] - len(self._texts))]
        places: Ints = np.full(len(ids), len(early) + len(rows), dtype=np.int64)
        places[early] = np.arange(len(early))
        places[rows] = np.arange(len(early), len(early) + len(rows))
        texts: pl.Series = pl.concat([*parts, pl.Series([None], dtype=pl.String)]).gather(places)
        return texts

    def written(self, ids: Ints) -> pl.Series:
        """Return the text of terms in N-Triples, in the form that `tokens` reads. No id may be NONE."""
        distinct, index = np.unique(ids, return_inverse=True)
        sorts, texts = self._sort[distinct], self.texts(distinct)
        rows, parts = [], []
        for sort in np.unique(sorts).tolist():
            rows.append(np.flatnonzero(sorts == sort))
            parts.append(self.sorts[sort].written(texts.gather(rows[-1])))
        places: Ints = np.argsort(np.concatenate([*rows, np.empty(0, dtype=np.int64)]))[index]
        written: pl.Series = pl.concat([*parts, pl.Series(dtype=pl.String)]).gather(places)
        return written

    def columns(self, ids: Sequence[Ints], pool: Pool) -> tuple[tuple[str, ...], tuple[Column, ...]]:
        """Convert columns of ids to columns of the engine's values. Return the type and the values of each column.

        The id NONE becomes a missing value. IRIs and blank nodes (`_:label`) become `iri`. Numbers, booleans, times and
        durations of XML Schema keep their type. All other literals become strings. If all values have the same type, it
        is the type of the column. A mixture of `int` and `float` is `float` if that is lossless. Any other mixture is
        `any`.
        """
        decoded = [decoded_column(self, column, pool) for column in ids]
        return tuple(type for type, _ in decoded), tuple(column for _, column in decoded)

    # --- single terms, for the edges ---

    def iri(self, text: str) -> int:
        """Return the id of an IRI. An unknown IRI is added to the dictionary."""
        return int(self.iris(pl.Series([text]))[0])

    def id_of(self, term: Any) -> int:
        """Return the id of a term (of rdflib or pyoxigraph, or an IRI as text), or NONE if the dictionary lacks it."""
        sort, text = part = sort_and_text(term)
        id = self._met.get(part)
        if id is None:
            known = self._sort_ids.get(sort)
            id = NONE if known is None else int(self._find(pl.Series([text], dtype=pl.String), known)[0])
            if id != NONE:
                self._meet(part, id)
        return id

    def ids(self, terms: Sequence[Any]) -> Ints:
        """Return the ids of terms of rdflib or pyoxigraph. Unknown terms are added to the dictionary."""
        split = [sort_and_text(term) for term in terms]
        met = [self._met.get(part, NONE) for part in split]
        new = list(dict.fromkeys(part for part, id in zip(split, met) if id == NONE))
        if not new:
            return np.array(met, dtype=np.int64)
        sorts = np.fromiter((self.sort_id(sort) for sort, _ in new), dtype=np.int64, count=len(new))
        new_ids = dict(zip(new, self._insert(pl.Series([text for _, text in new], dtype=pl.String), sorts).tolist()))
        if len(new) <= _MET:
            for part, id in new_ids.items():
                self._meet(part, id)
        return np.array([new_ids[part] if id == NONE else id for part, id in zip(split, met)], dtype=np.int64)

    def term(self, id: int) -> Term:
        """Return the term that has this id, as a term of pyoxigraph."""
        sort, text = self.sorts[self._sort[id]], self.texts(np.array([id], dtype=np.int64))[0]
        if sort.kind == IRI:
            return ox.NamedNode(text)
        if sort.kind == BLANK:
            return ox.BlankNode(text)
        if not sort.language:
            return ox.Literal(text, datatype=ox.NamedNode(sort.datatype))
        language, _, direction = sort.language.partition("--")
        if direction:
            return ox.Literal(text, language=language, direction=ox.BaseDirection(direction))
        return ox.Literal(text, language=language)

    # --- the dictionary ---

    def _meet(self, part: tuple[Sort, str], id: int) -> None:
        if len(self._met) >= _MET:
            self._met.clear()
        self._met[part] = id

    def _insert(self, texts: pl.Series, sorts: Ints | int) -> Ints:
        ids, fresh = self._keys.insert(self._hashed(texts, sorts))
        if len(fresh):
            start, stop = self._keys.count - len(fresh), self._keys.count
            if stop > len(self._sort):
                grown: NDArray[np.int32] = np.empty(max(stop, 2 * len(self._sort)), dtype=np.int32)
                grown[:start] = self._sort[:start]
                self._sort = grown
            self._sort[start:stop] = sorts if isinstance(sorts, int) else sorts[fresh]
            self._recent.append(_compact(texts.gather(fresh)))
        return ids

    def _find(self, texts: pl.Series, sorts: Ints | int) -> Ints:
        return self._keys.find(self._hashed(texts, sorts))

    def _hashed(self, texts: pl.Series, sorts: Ints | int) -> Ints:
        assert not texts.null_count(), "a term has a text"
        keys: Ints = np.empty((len(texts), 2), dtype=np.int64)
        text = pl.col("text")
        hashed = pl.DataFrame({"text": texts}).select(text.hash(1).alias("1"), text.hash(2).alias("2"))
        keys[:, 0] = hashed["1"].to_numpy().view(np.int64)
        keys[:, 1] = hashed["2"].to_numpy().view(np.int64)
        keys[:, 1] ^= np.asarray(sorts, dtype=np.int64) * np.int64(0x1F83D9ABFB41BD6B)
        return keys

    def _settle(self) -> None:
        # Texts are in a long column and a short one after it, so that adding a few does not copy all.
        if self._recent:
            self._tail = pl.concat([self._tail, *self._recent])
            self._recent.clear()
            if len(self._tail) * 8 > len(self._texts):
                self._texts = _compact(pl.concat([self._texts, self._tail]))
                self._tail = self._tail.clear()


def sort_and_text(term: Any) -> tuple[Sort, str]:
    """Return the sort and the text of a term. `term`: a term of rdflib or pyoxigraph, or an IRI as a string."""
    if isinstance(term, ox.NamedNode):
        return Sort(IRI), term.value
    if isinstance(term, ox.BlankNode):
        return Sort(BLANK), term.value
    if isinstance(term, ox.Literal):
        if term.language:
            return Sort(LITERAL, LANG_STRING, _directed(term).lower()), term.value
        return Sort(LITERAL, term.datatype.value), term.value
    if type(term) is str:
        return Sort(IRI), term
    from rdflib.term import BNode, Literal, URIRef

    if isinstance(term, URIRef):
        return Sort(IRI), str(term)
    if isinstance(term, BNode):
        return Sort(BLANK), str(term)
    if isinstance(term, Literal):
        if term.language:
            return Sort(LITERAL, LANG_STRING, term.language.lower()), str(term)
        return Sort(LITERAL, str(term.datatype) if term.datatype is not None else XSD + "string"), str(term)
    raise TypeError(f"{term!r} is not an RDF term")


def _directed(literal: ox.Literal) -> str:
    direction = literal.direction
    return literal.language + (f"--{direction.value}" if direction is not None else "")  # type: ignore[operator]


def _compact(texts: pl.Series) -> pl.Series:
    # Return a copy that keeps only its own bytes alive; gathered views keep their source.
    return pl.Series(texts.to_arrow(compat_level=pl.CompatLevel.oldest()))

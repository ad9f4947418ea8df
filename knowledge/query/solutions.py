"""The solutions of SPARQL queries as columns of term ids."""

from __future__ import annotations

from typing import IO, cast

import numpy as np
import polars as pl
import pyoxigraph as ox

from cep.core.values import Ints
from cep.knowledge.rdf.namespaces import XSD
from cep.knowledge.rdf.terms import NONE, Terms

_NUMBERS = (
    (r"^[+-]?[0-9]+$", "integer"),
    (r"^[+-]?[0-9]*\.[0-9]+$", "decimal"),
    (r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+$", "double"),
    ("^(?:true|false)$", "boolean"),
)


_PIECE = 1 << 24  # bytes after which duplicates are removed


def solution_columns(solutions: ox.QuerySolutions) -> tuple[Terms, list[Ints]]:
    """Return a dictionary of the solutions' terms, and a column of ids per variable, with NONE if unbound.

    The dictionary is separate from that of the knowledge, because a query may compute terms that the knowledge lacks.
    """
    written = solutions.serialize(format=ox.QueryResultsFormat.TSV)
    assert written is not None, "without an output the text is given back"
    return _columns(_split(written).slice(1), len(solutions.variables))


class TooMany(Exception):
    """The error for a result that has too many rows. `rows`: the number of rows that were permitted."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.rows = rows


def distinct_solutions(solutions: ox.QuerySolutions, most: int, most_read: int) -> tuple[Terms, list[Ints]]:
    """Return the distinct solutions: a dictionary of their terms, and one column of ids per variable.

    Raises TooMany if there are more than `most` distinct rows, or more than `most_read` rows including duplicates.
    """
    rows = _SolutionRows(most, most_read)
    solutions.serialize(cast("IO[bytes]", rows), format=ox.QueryResultsFormat.TSV)
    return _columns(rows.close(), len(solutions.variables))


class _SolutionRows:
    """A file object that receives TSV text and collects its distinct lines, except the header.

    Duplicates are removed each time that the collected text has doubled in size, so they take little memory.
    """

    def __init__(self, most: int, most_read: int) -> None:
        self._most, self._most_read = most, most_read
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._different = pl.Series([], dtype=pl.String)
        self._enough = _PIECE
        self._read = -1  # the first line names the variables
        self._begun = False

    def write(self, piece: bytes) -> int:
        self._pieces.append(piece)
        self._bytes += len(piece)
        self._read += piece.count(b"\n")
        if self._read > self._most_read:
            raise TooMany(self._most_read)
        if self._bytes >= self._enough:
            self._settle()
        return len(piece)

    def flush(self) -> None:
        """Do nothing, because `write` does not buffer."""

    def close(self) -> pl.Series:
        self._settle()
        return self._different

    def _settle(self) -> None:
        text = b"".join(self._pieces)
        whole = text.rfind(b"\n") + 1
        begun = text[whole:]
        lines = _split(text[:whole])
        if whole and not self._begun:
            lines, self._begun = lines.slice(1), True
        self._different = pl.concat([self._different, lines]).unique(maintain_order=True)
        if len(self._different) > self._most:
            raise TooMany(self._most)
        self._pieces, self._bytes = [begun], len(begun)
        self._enough = max(_PIECE, int(self._different.str.len_bytes().sum()))


def _split(text: bytes) -> pl.Series:
    if not text:
        return pl.Series([], dtype=pl.String)
    return pl.Series([text.decode().removesuffix("\n")]).str.split("\n").explode()


def _columns(lines: pl.Series, width: int) -> tuple[Terms, list[Ints]]:
    terms = Terms()
    if width == 1:
        return terms, [_ids(lines, terms)]
    return terms, [_ids(field, terms) for field in lines.str.split_exact("\t", width - 1).struct.unnest()]


def _ids(tokens: pl.Series, terms: Terms) -> Ints:
    bound = tokens != ""
    ids: Ints = np.full(len(tokens), NONE, dtype=np.int64)
    ids[bound.to_numpy()] = terms.tokens(_in_full(tokens.filter(bound)))
    return ids


def _in_full(tokens: pl.Series) -> pl.Series:
    # TSV abbreviates numbers and booleans.
    if not tokens.str.contains(r'^[^<"_]').any():
        return tokens
    whole = pl.col("token")
    for form, name in _NUMBERS:
        typed = pl.format('"{}"^^<' + XSD + name + ">", pl.col("token"))
        whole = pl.when(pl.col("token").str.contains(form)).then(typed).otherwise(whole)
    return tokens.to_frame("token").select(whole).to_series()

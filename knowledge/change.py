"""Changes of the knowledge as bytes: sorted lines of N-Quads. `D ` precedes a removed quad, and `A ` an added quad."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyoxigraph as ox

from cep.core.errors import CepError
from cep.core.values import Ints
from cep.knowledge import load
from cep.knowledge.rdf import interop
from cep.knowledge.rdf.terms import NONE, Terms

_FEW = 1000  # the maximum number of quads whose terms are looked up one by one
_TRIPLE = re.compile(r'\S+ \S+ (?:<[^>]*>|_:\S+|"(?:[^"\\]|\\.)*"(?:\^\^<[^>]*>|@[A-Za-z0-9-]+)?)')


@dataclass(frozen=True, slots=True)
class Change:
    """A change as lines of N-Quads. The quads in `removed` are removed first, then the quads in `added` are added.

    A removed triple without the name of a graph is removed from every graph. A blank node is the node of the knowledge
    that has the same label. Blank nodes without a label get new labels, which depend only on the change.
    """

    removed: frozenset[str]
    added: frozenset[str]

    @classmethod
    def of(cls, add: Any, remove: Any) -> Change:
        """Build a change. Raises CepError if a source is invalid.

        A source is text (Turtle, TriG, N-Triples, N-Quads), a Path, an rdflib graph, or triples or quads of rdflib or
        pyoxigraph. A source that is None contains no triples.
        """
        return cls(_lines(remove, "what is removed"), _lines(add, "what is added"))

    @classmethod
    def read(cls, blob: bytes) -> Change:
        """Parse the bytes that `written` returns."""
        lines = blob.decode().split("\n")
        return cls(*(frozenset(line[2:] for line in lines if line.startswith(mark)) for mark in ("D ", "A ")))

    def written(self) -> bytes:
        lines = [*("D " + line for line in sorted(self.removed)), *("A " + line for line in sorted(self.added))]
        return "".join(line + "\n" for line in lines).encode()

    def parsed(self) -> tuple[list[ox.Quad], list[ox.Quad]]:
        """Return the removed quads and the added quads."""
        removed, added = (
            list(ox.parse("\n".join(sorted(lines)), ox.RdfFormat.N_QUADS)) for lines in (self.removed, self.added)
        )
        return removed, added

    def quads(self, terms: Terms) -> tuple[load.Quads, load.Quads]:
        """Return the removed quads and the added quads as columns of ids."""
        removed, added = self.parsed()
        if len(removed) + len(added) > _FEW:
            gone, new = (load.Quads.joined(list(load.triple_columns(quads, terms, None))) for quads in (removed, added))
            return gone, new
        every = _columns(removed + added, terms)
        return every.rows(slice(None, len(removed))), every.rows(slice(len(removed), None))


def parse_change(lines: Sequence[str], terms: Terms) -> load.Quads:
    """Convert N-Quads to columns of ids, in the same order."""
    return _columns(list(ox.parse("\n".join(lines), ox.RdfFormat.N_QUADS)), terms)


def _columns(quads: list[ox.Quad], terms: Terms) -> load.Quads:
    named = [i for i, q in enumerate(quads) if not isinstance(q.graph_name, ox.DefaultGraph)]
    ids = terms.ids([*(q.triple[place] for place in range(3) for q in quads), *(quads[i].graph_name for i in named)])
    s, p, o = ids[: 3 * len(quads)].reshape(3, -1)
    g: Ints = np.full(len(quads), NONE, dtype=np.int64)
    g[named] = ids[3 * len(quads) :]
    return load.Quads(s, p, o, g)


def merge(changes: Sequence[bytes]) -> bytes:
    """Combine changes into one change that has the same effect as all of them in order."""
    removed: set[str] = set()
    added: dict[str, set[str]] = {}  # by the line that removes them from every graph
    for blob in changes:
        change = Change.read(blob)
        for line in change.removed:
            added.pop(line, None)
            if (plain := unnamed(line)) in added:
                added[plain].discard(line)
        removed |= change.removed
        for line in change.added:
            added.setdefault(unnamed(line), set()).add(line)
    return Change(frozenset(removed), frozenset().union(*added.values())).written()


def unnamed(line: str) -> str:
    """Remove the name of the graph from a quad, which is a line of N-Quads."""
    match = _TRIPLE.match(line)
    assert match, "a change holds quads"
    return match[0] + " ."


def _lines(source: Any, name: str) -> frozenset[str]:
    if source is None:
        return frozenset()
    if isinstance(source, str):
        quads = labelled(load.quads_of(source, name))
    elif isinstance(source, Path):
        quads = labelled(load.read_quads(source))
    else:
        quads = list(interop.foreign_quads(source))
    return frozenset(_written(quads, name).split("\n")) - {""}


def _written(quads: list[ox.Quad], name: str) -> str:
    written = ox.serialize(quads, format=ox.RdfFormat.N_QUADS)
    assert written is not None, "without an output the text is given back"
    text = written.decode()
    if "> <<(" in text and any(isinstance(quad.object, ox.Triple) for quad in quads):
        raise CepError(f"{name}: {load.TripleTerm()}", code="knowledge")
    return text


def labelled(quads: list[ox.Quad]) -> list[ox.Quad]:
    """Replace the random labels that the parser gave to blank nodes. The new labels depend only on the quads."""
    nodes = [t for q in quads for t in (q.subject, q.object, q.graph_name) if isinstance(t, ox.BlankNode)]
    random = dict.fromkeys(node for node in nodes if load.GENERATED.fullmatch(node.value))
    if not random:
        return quads
    numbered = {node: ox.BlankNode(f"n{i}") for i, node in enumerate(random)}
    own = hashlib.blake2b(_written(_renamed(quads, numbered), "").encode(), digest_size=6).hexdigest()
    return _renamed(quads, {node: ox.BlankNode(f"c{own}n{i}") for i, node in enumerate(random)})


def _renamed(quads: list[ox.Quad], names: Mapping[Any, Any]) -> list[ox.Quad]:
    return [
        ox.Quad(*(names.get(term, term) for term in (q.subject, q.predicate, q.object, q.graph_name))) for q in quads
    ]

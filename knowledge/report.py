"""Reports on the knowledge: statistics, and proofs of triples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyoxigraph as ox

from cep.core.errors import CepError, Source, Span
from cep.core.values import Ints
from cep.knowledge.graph import Knowledge
from cep.knowledge.load import files, is_service
from cep.knowledge.places import attributions
from cep.knowledge.rdf.namespaces import RDF_TYPE
from cep.knowledge.rdf.prefixed_names import PrefixedNames
from cep.knowledge.rdf.terms import NONE
from cep.knowledge.rdf.triples import TripleSet

_PREFIX = re.compile(r"^\s*@?prefix\s+([^\s:]*):\s*<([^>]*)>", re.IGNORECASE | re.MULTILINE)
_DECLARED = 1 << 16  # characters of a file in which prefixes are searched


@dataclass(frozen=True, slots=True)
class TermCount:
    """A class or property, the number of triples that use it, and how many of them are inferred."""

    name: str
    triples: int
    inferred: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics of the knowledge: the number of asserted triples, inferred triples and terms.

    `classes`: the number of instances of each class. `properties`: the number of triples of each property. Both are
    sorted by this number, the highest first.
    """

    asserted: int
    inferred: int
    terms: int
    classes: list[TermCount]
    properties: list[TermCount]
    attributions: list[str]


def prefixes(sources: Iterable[str]) -> dict[str, str]:
    """Return the prefixes declared at the beginning of Turtle and TriG files. `sources`: as for `Knowledge.load`."""
    prefixes_by_name: dict[str, str] = {}
    for source in files(source for source in sources if not is_service(source)):
        path = Path(source)
        if path.suffix.lower() in (".ttl", ".trig") and path.is_file():
            with path.open(encoding="utf-8", errors="replace") as file:
                prefixes_by_name.update(_PREFIX.findall(file.read(_DECLARED)))
    return prefixes_by_name


def knowledge_stats(knowledge: Knowledge, prefixes: Mapping[str, str]) -> Stats:
    """Return statistics of the knowledge. `prefixes`: the prefixes that shorten the names of classes and properties."""
    names = PrefixedNames(knowledge.terms, prefixes)
    closed, asserted = knowledge.closed, knowledge.asserted
    kind = knowledge.terms.id_of(RDF_TYPE)
    nothing = TripleSet.empty().columns
    types, asserted_types = (triples.match(p=kind) if kind != NONE else nothing for triples in (closed, asserted))
    used = np.unique(np.concatenate(closed.columns))
    return Stats(
        len(asserted),
        len(closed) - len(asserted),
        len(used),
        _counts(names, types[2], asserted_types[2]),
        _counts(names, closed.p, asserted.p),
        attributions(knowledge),
    )


def _counts(names: PrefixedNames, closed: Ints, asserted: Ints) -> list[TermCount]:
    ids, every = np.unique(closed, return_counts=True)
    own, some = np.unique(asserted, return_counts=True)
    by_id = dict(zip(own.tolist(), some.tolist(), strict=True))
    counts = [
        TermCount(names.of(id), count, count - by_id.get(id, 0))
        for id, count in zip(ids.tolist(), every.tolist(), strict=True)
    ]
    return sorted(counts, key=lambda count: (-count.triples, count.name))


def proof_lines(knowledge: Knowledge, triple: str, prefixes: Mapping[str, str]) -> list[str]:
    """Return the lines of a triple's proof: one triple per line, with premises indented.

    `triple`: a triple in Turtle notation. Raises CepError if it is not a triple, or is neither asserted nor inferred.
    """
    names = PrefixedNames(knowledge.terms, prefixes) if knowledge.closure is None else knowledge.closure.names(prefixes)
    parsed = _triple(triple, names.prefixes)
    ids = [knowledge.terms.id_of(term) for term in (parsed.subject, parsed.predicate, parsed.object)]
    if knowledge.closure is None or NONE in ids:
        if NONE in ids or not len(knowledge.asserted.match(*ids)[0]):
            raise _unknown(triple, knowledge)
        return [f"{names.triple((ids[0], ids[1], ids[2]))}   asserted"]
    try:
        return knowledge.closure.proof(*ids).lines(names)
    except CepError:
        raise _unknown(triple, knowledge) from None


def _unknown(triple: str, knowledge: Knowledge) -> CepError:
    hint = f"the reasoning is `{knowledge.reasoning}`; `cep knowledge query` lists triples"
    return CepError(f"`{triple}` is neither asserted nor inferred", hint=hint, code="unknown-triple")


def _triple(text: str, prefixes: Mapping[str, str]) -> ox.Triple:
    declared = "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in prefixes.items())
    body = text.strip().removesuffix(".")
    hint = "a triple is written as in Turtle: `ex:gale a ex:Storm`; `--prefix ex=http://...` declares a prefix"
    try:
        triples: list[ox.Triple] = [quad.triple for quad in ox.parse(f"{declared}{body} .", ox.RdfFormat.TURTLE)]
    except SyntaxError as error:
        column = max(1, error.offset or 1)
        reason = re.sub(r"^Parser error .*?: ", "", error.msg)
        raise CepError(
            f"this is not a triple: {reason[:1].lower()}{reason[1:]}",
            Source(body, "triple"),
            Span(1, min(column, len(body)), 1, min(column, len(body)) + 1),
            hint,
            "option",
        ) from None
    if len(triples) != 1:
        raise CepError(f"expected one triple, found {len(triples)}", hint=hint, code="option")
    return triples[0]

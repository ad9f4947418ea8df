"""A sample of triples: the whole schema, and some connected subjects with all their triples.

The sample depends only on the knowledge and on its maximum size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cep.core.values import Ints
from cep.knowledge.rdf.namespaces import OWL, RDF, RDF_TYPE, RDFS
from cep.knowledge.rdf.terms import LITERAL, NONE, Terms
from cep.knowledge.rdf.triples import TripleSet

_ABOUT_THINGS = [
    *(OWL + name for name in ("sameAs", "differentFrom", "versionInfo", "versionIRI", "imports")),
    *(RDFS + name for name in ("label", "comment", "seeAlso", "isDefinedBy", "member")),
]
"""Properties of OWL and RDFS that any thing may have. A triple that uses one of them does not belong to the schema."""
_OF_THINGS = [OWL + "Thing", OWL + "NamedIndividual", RDFS + "Resource"]
"""Classes of OWL and RDFS to which any thing may belong, so that they do not make it part of the schema."""
_BACK = 3  # the maximum number of subjects to visit that refer to a subject


@dataclass(frozen=True, slots=True)
class TripleSample:
    """A sample of triples.

    - `schema`: the number of triples in the sample that belong to the schema.
    - `subjects`: the number of subjects in the sample that are not part of the schema.
    - `among`: the number of such subjects in all triples.
    """

    triples: TripleSet
    schema: int
    subjects: int
    among: int

    @property
    def whole(self) -> bool:
        return self.subjects == self.among


def sample(terms: Terms, triples: TripleSet, subjects: int) -> TripleSample:
    """Return the schema triples, and all triples of at most `subjects` subjects outside the schema.

    The sample starts from the first subject of each class and property, beginning with the rarest class or property.
    From there it follows references from and to the chosen subjects. "First" means first in the order of loading.
    """
    schema = _of_schema(terms, triples)
    facts = TripleSet(tuple(column[~schema] for column in triples.columns))  # type: ignore[arg-type]
    every = np.unique(facts.s)
    if len(every) <= subjects:
        return TripleSample(triples, int(schema.sum()), len(every), len(every))
    chosen = _connected(terms, facts, subjects)
    taken = schema | np.isin(triples.s, chosen)
    columns = tuple(column[taken] for column in triples.columns)
    return TripleSample(TripleSet(columns), int(schema.sum()), len(chosen), len(every))  # type: ignore[arg-type]


def _of_schema(terms: Terms, triples: TripleSet) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return a mask of the triples that belong to the schema: lists, and triples that use terms of RDFS and OWL."""
    predicates = np.unique(triples.p)
    texts = terms.texts(predicates)
    of_schema = (texts.str.starts_with(OWL) | texts.str.starts_with(RDFS)) & ~texts.is_in(_ABOUT_THINGS)
    of_schema |= texts.is_in([RDF + "first", RDF + "rest"])
    classes = np.unique(triples.o[triples.p == terms.id_of(RDF_TYPE)])
    names = terms.texts(classes)
    built_in = (names.str.starts_with(OWL) | names.str.starts_with(RDFS) | names.str.starts_with(RDF)) & ~names.is_in(
        _OF_THINGS
    )
    of_type = (triples.p == terms.id_of(RDF_TYPE)) & np.isin(triples.o, classes[built_in.to_numpy()])
    schema: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.isin(triples.p, predicates[of_schema.to_numpy()]) | of_type
    return schema


def _connected(terms: Terms, facts: TripleSet, most: int) -> Ints:
    """Choose `most` subjects, connected by triples as far as possible. Return them sorted."""
    subjects, last = np.unique(facts.s), NONE
    chosen: dict[int, None] = {}
    waiting = deque(_seeds(terms, facts))
    while len(chosen) < most:
        if not waiting:  # nothing else is connected, so take the next subject
            left = subjects[subjects > last]
            waiting.append(last := int(left[0]))
        node = waiting.popleft()
        if node in chosen or not facts.count(node):
            continue
        chosen[node] = None
        objects = facts.match(s=node)[2]
        waiting += objects[terms.kinds(objects) != LITERAL].tolist()
        waiting += facts.match(o=node)[0][:_BACK].tolist()
    return np.array(sorted(chosen), dtype=np.int64)


def _seeds(terms: Terms, facts: TripleSet) -> Iterator[int]:
    """Yield the first subject of each class and property, beginning with the rarest class or property."""
    kind = terms.id_of(RDF_TYPE)
    of_class = facts.match(p=kind) if kind != NONE else TripleSet.empty().columns
    groups: list[tuple[int, int]] = []
    for subjects, keys in ((of_class[0], of_class[2]), (facts.s, facts.p)):
        order = np.lexsort((subjects, keys))
        _, first, counts = np.unique(keys[order], return_index=True, return_counts=True)
        groups += zip(counts.tolist(), subjects[order][first].tolist())
    return (subject for _, subject in sorted(groups))

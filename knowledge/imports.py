"""A check for imported ontologies (owl:imports) that were not loaded. They are never downloaded."""

from __future__ import annotations

import numpy as np

from cep.core.errors import Warning
from cep.knowledge.graph import Knowledge
from cep.knowledge.rdf.namespaces import OWL, RDF_TYPE
from cep.knowledge.rdf.terms import IRI, NONE

_SHOWN = 3


def missing_imports(knowledge: Knowledge) -> list[str]:
    """Return the IRIs of imported ontologies that were not loaded.

    An import counts as loaded if its IRI is the name or the version of a loaded ontology.
    """
    triples, terms = knowledge.asserted, knowledge.terms
    imports, version, kind, ontology = (
        terms.id_of(iri) for iri in (OWL + "imports", OWL + "versionIRI", RDF_TYPE, OWL + "Ontology")
    )
    if imports == NONE:
        return []
    wanted = np.unique(triples.match(p=imports)[2])
    id_columns = [triples.match(p=version)[2]] if version != NONE else []
    if NONE not in (kind, ontology):
        id_columns.append(triples.match(p=kind, o=ontology)[0])
    wanted = wanted[terms.kinds(wanted) == IRI]
    for ids in id_columns:
        wanted = wanted[~np.isin(wanted, ids)]
    return sorted(terms.texts(wanted).to_list())


def import_warnings(knowledge: Knowledge) -> list[Warning]:
    """Return a list with one warning that names the missing imports. The list is empty if no import is missing."""
    missing = missing_imports(knowledge)
    if not missing:
        return []
    named = ", ".join(f"<{iri}>" for iri in missing[:_SHOWN])
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    hint = "load its file too, with `--knowledge FILE`: imports are not fetched from the network"
    what = "is imported (owl:imports) and was" if len(missing) == 1 else "are imported (owl:imports) and were"
    return [Warning(f"{named}{more} {what} not loaded", hint=hint, code="imports")]

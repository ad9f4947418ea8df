"""Prefixes of IRIs that need no declaration in rules, queries, shapes and questions."""

from __future__ import annotations

import re
from collections.abc import Mapping

PREFIXES: Mapping[str, str] = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "sosa": "http://www.w3.org/ns/sosa/",
    "ssn": "http://www.w3.org/ns/ssn/",
    "wgs84": "http://www.w3.org/2003/01/geo/wgs84_pos#",
    "gn": "http://www.geonames.org/ontology#",
    "time": "http://www.w3.org/2006/time#",
    "prov": "http://www.w3.org/ns/prov#",
    "qudt": "http://qudt.org/schema/qudt/",
    "unit": "http://qudt.org/vocab/unit/",
}
_NAME = re.compile(r"(\w[\w-]*):")


def namespace(prefix: str, declared: Mapping[str, str]) -> str | None:
    """Return the IRI for which a prefix stands, or None if the prefix is unknown. A declaration takes precedence over a
    built-in prefix."""
    return declared.get(prefix, PREFIXES.get(prefix))


def prefixes_of(text: str, declared: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the prefixes that a graph pattern needs: all declared ones, and the built-in ones that the text uses."""
    named = {name: PREFIXES[name] for name in dict.fromkeys(_NAME.findall(text)) if name in PREFIXES}
    return tuple({**named, **declared}.items())

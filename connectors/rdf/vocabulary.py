"""The vocabulary for derived occurrences in RDF: IRIs that a program declares with AS, IRIs of standards, and IRIs
under a base IRI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from cep.core.schema import Schema

BASE = "urn:semcep:"
DISTANCE = BASE + "distance"
"""The IRI of the SPARQL function that returns the distance between two places in metres.

Its arguments are latitude, longitude, latitude, longitude.
"""

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
XSD = "http://www.w3.org/2001/XMLSchema#"
TIME = "http://www.w3.org/2006/time#"
PROV = "http://www.w3.org/ns/prov#"
SOSA = "http://www.w3.org/ns/sosa/"
LDES = "https://w3id.org/ldes#"
TREE = "https://w3id.org/tree#"
AS = "https://www.w3.org/ns/activitystreams#"

PREFIXES: Mapping[str, str] = {"rdf": RDF, "xsd": XSD, "time": TIME, "prov": PROV, "sosa": SOSA}
"""The prefixes to declare in RDF that describes occurrences."""


@dataclass(frozen=True, slots=True)
class EventVocabulary:
    """The IRIs under a base IRI. `base` must end in `:`, `/` or `#`."""

    base: str = BASE

    def event(self, id: str = "") -> str:
        """Return the IRI of a derived occurrence. Without an id, return the common prefix of these IRIs."""
        return f"{self.base}event/{id}"

    def reading(self, id: str = "") -> str:
        """Return the IRI of an input record."""
        return f"{self.base}reading/{id}"

    def instant(self, time: str = "") -> str:
        """Return the IRI of an instant. `time`: its text in ISO 8601."""
        return f"{self.base}instant/{time}"

    def interval(self) -> str:
        """Return the common prefix of intervals' IRIs. The beginning, `/` and the end follow, in ISO 8601."""
        return f"{self.base}interval/"

    def hour(self, hour: str = "") -> str:
        """Return the IRI of a minute (`2013-02-08T21:05`), an hour (`2013-02-08T21`) or a day (`2013-02-08`)."""
        return f"{self.base}hour/{hour}"

    @property
    def days(self) -> str:
        """The IRI of the root of the time tree. The root contains all days on which occurrences begin or end."""
        return f"{self.base}days"

    def revision(self, name: str = "") -> str:
        """Return the IRI of the named graph that contains what a revision withdrew. `name`: the revision's name. If it
        is empty, return the common prefix of these IRIs."""
        return f"{self.base}revision/{name}"

    @property
    def position(self) -> str:
        """The IRI of a property of a change: a withdrawn result, or one that is added again later. Its value is the
        number of records that had arrived before this change."""
        return f"{self.base}position"

    def type(self, schema: Schema) -> str:
        """Return the IRI of the class for occurrences of an event type."""
        return schema.iri or f"{self.base}type/{quote(schema.name)}"

    def property(self, schema: Schema, number: int) -> str:
        """Return the IRI of the property for an attribute of an event type. `number`: the position of the attribute."""
        attribute = schema.attributes[number]
        return attribute.iri or f"{self.base}attribute/{quote(schema.name)}/{quote(attribute.name)}"

    def derivation(self, meaning: str = "", event: str = "", rules: Sequence[str] = ()) -> str:
        """Return the IRI of the activity that derives occurrences of an event type by some of its rules.

        `meaning`: the fingerprint of the event type's rules. `rules`: the names of the rules, or nothing if they are
        unknown. Without `event`, return the common prefix of these IRIs.
        """
        by = "/" + "+".join(map(quote, rules)) if rules else ""
        return f"{self.base}derivation/" + (f"{meaning}/{quote(event)}{by}" if event else "")

    def rule(self, meaning: str, event: str, name: str) -> str:
        """Return the IRI of a rule. `meaning`: the fingerprint of the event type's rules. `name`: the rule's name."""
        return f"{self.base}rule/{meaning}/{quote(event)}/{quote(name)}"

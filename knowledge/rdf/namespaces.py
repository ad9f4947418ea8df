"""The namespaces and prefixes that the knowledge uses."""

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
XSD = "http://www.w3.org/2001/XMLSchema#"
WGS84 = "http://www.w3.org/2003/01/geo/wgs84_pos#"
GEO = "http://www.opengis.net/ont/geosparql#"
GEOF = "http://www.opengis.net/def/function/geosparql/"
GN = "http://www.geonames.org/ontology#"
PROV = "http://www.w3.org/ns/prov#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
SCHEMA = ("http://schema.org/", "https://schema.org/")
OWN = "urn:semcep:"
DCTERMS = "http://purl.org/dc/terms/"

RDF_TYPE = RDF + "type"

PREFIXES = {"rdf": RDF, "rdfs": RDFS, "owl": OWL, "xsd": XSD}
"""The prefixes that rules need not declare."""

"""Background knowledge: RDF triples that are loaded, extended by reasoning, and queried as relations."""

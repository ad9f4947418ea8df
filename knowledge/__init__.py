"""Background knowledge as relations: the only place that knows rdflib."""

"""Background knowledge as relations. Only this package knows RDF."""

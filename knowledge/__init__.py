"""Background knowledge: RDF that is read, reasoned over and queried as relations."""

"""RDF as columns: terms as numbers, triples, and files."""

"""RDF as columns: terms by number, triples, files, what they say."""

"""RDF as columns: terms are numbers, and triples are columns of these numbers."""

"""Reasoning over triples: RDFS and OWL 2 RL, semi-naive, on columns."""

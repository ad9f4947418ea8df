"""Reasoning over triples: RDFS and OWL 2 RL, by semi-naive evaluation on columns."""

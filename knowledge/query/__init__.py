"""Evaluation of graph patterns and SPARQL queries: validation, joins, and tables of answers."""

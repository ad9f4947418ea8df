"""Evaluation of graph patterns and SPARQL: checks, answers, tables."""

"""Graph patterns and SPARQL: checked, answered, kept as tables."""

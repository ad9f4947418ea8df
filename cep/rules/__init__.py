"""What rules are made of besides patterns: expressions, conditions, static rules and the built-in functions."""

"""The parts of rules besides patterns: expressions, conditions, static rules and the built-in functions."""

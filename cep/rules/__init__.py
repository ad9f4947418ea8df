"""The parts of rules except patterns: expressions, conditions, static rules and built-in functions."""

"""The parts of rules other than patterns: expressions, conditions, static rules and built-in functions."""

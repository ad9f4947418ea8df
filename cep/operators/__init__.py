"""The operators of rules and formulas: one module per family, from the pattern to the running goal."""

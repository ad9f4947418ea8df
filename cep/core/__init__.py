"""The foundations of the engine: tables of occurrences, values, keys, names and files. Nothing here depends on
rules."""

"""Columns and their contents: occurrences, values, keys and names. Nothing here depends on rules."""

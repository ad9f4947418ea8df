"""Columns and what they hold: occurrences, values, keys, names; nothing here knows a rule."""

"""Data of a Python session: data frames, Arrow, arrays, objects."""

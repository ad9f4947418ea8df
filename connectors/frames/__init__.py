"""Readers of the data in a Python session: data frames, Arrow tables, arrays and objects."""

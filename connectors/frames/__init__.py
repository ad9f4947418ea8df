"""Readers for data of a Python session: data frames, Arrow tables, arrays and objects."""

"""Derived events as rows of a table with transactions: Delta, Iceberg."""

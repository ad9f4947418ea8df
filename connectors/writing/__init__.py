"""Derived events to files, tables and standard output."""

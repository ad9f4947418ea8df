"""Expressions: their types, checked, and their values on whole columns."""

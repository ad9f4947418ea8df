"""Expressions: their type checking, and their evaluation on whole columns."""

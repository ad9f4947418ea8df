"""Expressions: type checking, and evaluation on whole columns."""

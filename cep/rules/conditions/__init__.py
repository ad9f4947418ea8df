"""Conjunctions of conditions: their order, and their evaluation on whole columns."""

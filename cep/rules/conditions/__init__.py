"""Conjunctions of conditions: their order, and their answers for whole columns."""

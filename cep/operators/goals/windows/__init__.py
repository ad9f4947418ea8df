"""Aggregates over windows: their goals, and the kernels that keep the rows."""

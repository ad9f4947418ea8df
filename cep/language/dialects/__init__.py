"""Dialects. Each one turns a syntax tree into rules of the plan's algebra; none imports another."""

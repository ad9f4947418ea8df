"""Dialects. Each dialect turns a syntax tree into rules of the plan's algebra. No dialect imports another."""

"""Dialects: each turns a syntax tree into rules of the plan's algebra. No dialect knows another."""

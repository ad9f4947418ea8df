"""Compare the rules of two programs, and what they derive from the same records (docs/diff.md)."""

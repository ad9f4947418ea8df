"""Compare the rules of two programs, and the results that they derive from the same records (docs/diff.md)."""

"""Compare what two programs mean, and what they derive from the same records (docs/diff.md)."""

"""Explanations of derived and missing events, as JSON, text and PROV."""

"""Explanations of events that were derived or are missing, as JSON, text and PROV."""

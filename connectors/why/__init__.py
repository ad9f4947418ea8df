"""Explanations as JSON, text and PROV: why an event was derived, or why it was not."""

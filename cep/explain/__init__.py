"""Explain why an event was derived, or why it was not."""

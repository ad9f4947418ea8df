"""Feeds of alerts: documents that other systems read, and messages that are sent to receivers."""

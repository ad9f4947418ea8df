"""Feeds of alerts: documents for systems that read the outbox, and messages to receivers."""

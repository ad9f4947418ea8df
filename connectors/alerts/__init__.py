"""Alerts: their lifecycle in event time, and the outbox on disk from which feeds and receivers read."""

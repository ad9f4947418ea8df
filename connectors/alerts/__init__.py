"""Alerts: their life by event time, and the outbox on disk that feeds read."""

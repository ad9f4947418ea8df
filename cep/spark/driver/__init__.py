"""Spark in the driver: its session and log, and how to start, watch, stop and retry a query."""

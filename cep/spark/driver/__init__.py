"""Spark in the driver: its session and its log, and how a query is begun, watched, stopped and tried again."""

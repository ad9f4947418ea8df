"""Spark itself: its session, what it prints and tells, and how a query is begun, watched, stopped and tried again."""

"""The Spark driver: the session, its log, and the start, control and restart of a query."""

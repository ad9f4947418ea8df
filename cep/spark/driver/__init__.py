"""The driver's side of Spark: its session and log, and starting, watching, stopping and retrying a query."""

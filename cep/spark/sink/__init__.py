"""The sink of a query: files of derived events, the log of those that count, and their way to a broker."""

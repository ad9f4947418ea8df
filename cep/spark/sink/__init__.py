"""The sink of a query: files of derived events, the log of committed files, and forwarding to a broker."""

"""Output of derived events to tables with transactions: Delta and Iceberg."""

"""Writers of derived events to tables that have transactions: Delta and Iceberg."""

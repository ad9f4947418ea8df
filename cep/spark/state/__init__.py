"""The checkpoint of a query, the states of its buckets, and the migration of both to another program."""

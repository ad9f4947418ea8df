"""The source of a query: files, live inputs and changes of the knowledge, combined to one stream that can be
replayed."""

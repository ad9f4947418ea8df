"""The source of a query: files, live inputs and changes of the knowledge in one stream that can be replayed."""

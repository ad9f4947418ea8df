"""The source of a query. It combines files, live inputs and changes of the knowledge into one stream that can be
replayed."""

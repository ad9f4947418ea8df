"""The source of a query: files, live inputs and changes of the knowledge, as one stream that can be read again."""

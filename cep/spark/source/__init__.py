"""The source of a query: files, live inputs and changes of the knowledge, as one replayable stream."""

"""Writers of derived events to files, tables and standard output."""

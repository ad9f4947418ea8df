"""Write derived events to files, tables and standard output."""

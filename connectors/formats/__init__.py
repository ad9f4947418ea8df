"""Formats of records, one file for each: text and JSON, packs of sensors, Parquet, RDF, dialects; and their fast
readers."""

"""Formats of records, a file each: text and JSON, sensors' packs, Parquet, RDF, dialects; and their fast readers."""

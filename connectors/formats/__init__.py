"""Formats of records, with their fast readers: text tables, JSON, packs of sensor data, Parquet, RDF, and lines of
DatalogMTL and RTEC."""

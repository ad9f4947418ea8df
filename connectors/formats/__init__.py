"""Formats of records, one file for each, with their fast readers.

They are text and JSON formats, packs of sensor data, Parquet, RDF and the dialects.
"""

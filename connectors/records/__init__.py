"""Conversion of records of any format to columns: values, times, paths, tests, and batches of events."""

"""Inference of a declaration from the first records of a file."""

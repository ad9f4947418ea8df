"""Detect a fire and a wind within three hours. The ontology says which observations are about wind."""

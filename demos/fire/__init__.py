"""A fire and a wind within three hours: which observations are of wind, the ontology knows."""

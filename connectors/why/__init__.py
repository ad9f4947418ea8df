"""Why an event was derived, or was not: as JSON, as text, as PROV."""

"""Correction of results after input arrives late, is corrected or is withdrawn."""

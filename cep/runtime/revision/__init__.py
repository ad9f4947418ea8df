"""Correction of results if input arrives late, is corrected or is withdrawn."""

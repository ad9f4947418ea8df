"""Results that are put right when events come late, are corrected or withdrawn."""

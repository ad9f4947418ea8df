"""Winter storms at the three airports of New York in 2013, found in real hourly readings."""

"""Modes of writing the answers of fluents: what is written, and when."""

ALL, NEW, CHANGES, INTERVALS = "all", "new", "changes", "intervals"
MODES = (CHANGES, ALL, NEW, INTERVALS)
SIGNAL, CHANGE = "signal", "change"
"""When answers are written: at ticks with input, or at ticks with a change."""

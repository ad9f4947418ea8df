"""The values of `--output-mode`, which decide how the answers of fluents are written."""

ALL, NEW, CHANGES, INTERVALS = "all", "new", "changes", "intervals"
MODES = (CHANGES, ALL, NEW, INTERVALS)
SIGNAL, CHANGE = "signal", "change"
"""Values of `--output-every`: write answers at ticks with input (SIGNAL), or at ticks with a change (CHANGE)."""

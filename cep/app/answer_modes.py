"""The values of `--output-mode`, which determines how the answers of a LARS program are written."""

ALL, NEW, CHANGES, INTERVALS = "all", "new", "changes", "intervals"
MODES = (CHANGES, ALL, NEW, INTERVALS)
SIGNAL, CHANGE = "signal", "change"
"""The values of `--output-every`. With SIGNAL, answers are written at ticks that have input. With CHANGE, they are
written at ticks at which an answer changes."""

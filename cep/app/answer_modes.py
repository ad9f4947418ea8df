"""The values of `--output-mode`, which decides how the answers of fluents are written."""

ALL, NEW, CHANGES, INTERVALS = "all", "new", "changes", "intervals"
MODES = (CHANGES, ALL, NEW, INTERVALS)
SIGNAL, CHANGE = "signal", "change"
"""Values of `--output-every`. SIGNAL: write answers at ticks that have input. CHANGE: write them at ticks at which an
answer changes."""

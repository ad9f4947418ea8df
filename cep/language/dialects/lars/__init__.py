"""LARS, as Ticker and Laser write it: rules over windows of a stream, evaluated afresh at every tick."""

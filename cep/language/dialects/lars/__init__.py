"""LARS in the syntax of Ticker and Laser: rules over windows of a stream, evaluated at every tick."""

"""Which way airplanes land at New York, by the wind: choices, defaults with exceptions and a constraint, in LARS."""

"""Choose the landing direction at New York's airports by the wind: choices, defaults with exceptions and a constraint,
in LARS."""

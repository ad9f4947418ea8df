"""Choose the landing direction at New York's airports by the wind, in LARS: choices, defaults and a constraint."""

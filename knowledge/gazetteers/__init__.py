"""Places of the world: dumps and registers as tables."""

"""Connect the engine with the world: sources and destinations of events."""

"""Inputs and outputs of the engine: the sources of events, and the destinations of results."""

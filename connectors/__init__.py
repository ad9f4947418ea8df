"""Inputs and outputs of the engine: sources of events, and destinations of results."""

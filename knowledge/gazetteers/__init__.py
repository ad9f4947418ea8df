"""Gazetteers: dumps and registers of the world's places as tables."""

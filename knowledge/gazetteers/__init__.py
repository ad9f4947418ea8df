"""Gazetteers: the world's places as tables, read from dumps and registers."""

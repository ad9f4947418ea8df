"""Warnings about code that is valid but hardly intended, one kind per module."""

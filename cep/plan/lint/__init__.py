"""Warnings about code that is valid but probably not intended. Each module has one kind of warning."""

"""Warnings about code that is valid but probably not intended; each module has one kind."""

"""Warnings about code that is valid but probably not intended. Each module finds one kind of mistake."""

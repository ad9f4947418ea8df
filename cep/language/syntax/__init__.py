"""Reading and printing of rule text. Only this package handles characters."""

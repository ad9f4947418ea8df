"""Static rules: closed into tables, or run on the values that they are called with."""

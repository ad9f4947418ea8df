"""Static rules. They are computed into tables, or evaluated at each call."""

"""Static rules. Their results are stored in tables, or the rules are evaluated at each call."""

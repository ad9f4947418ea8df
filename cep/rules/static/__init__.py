"""Static rules: computed into tables, or evaluated on call."""

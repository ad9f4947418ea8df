"""Reading and writing rule text: the only place that knows characters."""

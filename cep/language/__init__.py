"""From characters to the rules of the plan: the syntax, and one module for each dialect."""

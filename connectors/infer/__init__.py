"""From a file to the declaration that fits it: what its records look like, read from the first of them."""

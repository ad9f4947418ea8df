"""One binary node becomes a goal: kernels and columnar state, one operator family a module."""

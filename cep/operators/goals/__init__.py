"""Goals: running operators with their state, and the compiled kernels that they call."""

"""Goals: the running operators of a plan with their state, and the compiled kernels that they call."""

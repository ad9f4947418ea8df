"""Goals of aggregates over windows, and the kernels that maintain them."""

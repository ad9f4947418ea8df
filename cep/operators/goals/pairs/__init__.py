"""Goals with two inputs, which find partners or test absence, and their kernels."""

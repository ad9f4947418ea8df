"""Goals that find partners among two inputs, or test absence, and their kernels."""

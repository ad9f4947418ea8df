"""Goals that pair the rows of two inputs, or that test if a row has no partner, and the kernels of these goals."""

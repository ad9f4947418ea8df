"""Goals of two inputs: partners that are found, and absence; with their kernels."""

"""The runtime of a graph of goals: it takes batches and a watermark, and handles order, recursion and time."""

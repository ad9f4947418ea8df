"""The runtime of a graph of goals. It takes batches of events and a watermark, and handles order, recursion and
time."""

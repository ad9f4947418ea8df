"""Order, recursion and time over a graph of goals: batches and a watermark in, batches out."""

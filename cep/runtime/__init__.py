"""The runtime, which executes the goals of a plan. Its input is batches of events and a watermark. It handles the order
of events, recursion and deadlines."""

"""The cost of the engine, compared with hand-written Python for the same job: `python -m benchmarks`."""

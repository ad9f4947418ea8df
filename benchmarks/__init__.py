"""What the engine costs, beside hand-written Python doing the same job: `python -m benchmarks`."""

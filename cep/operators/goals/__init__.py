"""What runs: goals with memory, and the compiled kernels behind them."""

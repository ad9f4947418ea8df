"""Running operators: goals with their state, and the compiled kernels behind them."""

"""Backtests: what rules would have detected in a history, scored against labelled incidents (docs/backtest.md)."""

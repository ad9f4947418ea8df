"""Backtests: detections of rules in a recorded history, scored against labelled incidents (docs/backtest.md)."""

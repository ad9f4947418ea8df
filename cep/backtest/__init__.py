"""Backtests: run rules over a recorded history, and score their detections against labelled incidents
(docs/backtest.md)."""

"""The tests, the reference interpreter they hold the engine against, and the cases."""

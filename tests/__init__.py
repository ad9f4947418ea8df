"""The tests, the reference interpreter with which they compare the engine, and their cases."""

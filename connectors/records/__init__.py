"""Records to columns, whatever their format: values, times, paths, tests, and batches of what was read."""

"""The world and batches: where events come from and where they go."""

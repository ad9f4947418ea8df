"""The tuning demo: choose the limits of a storm warning by cancelled flights."""

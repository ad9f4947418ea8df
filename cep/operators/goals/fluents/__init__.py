"""Goals of what holds for a time: inertia, conditions on fluents, and formulas."""

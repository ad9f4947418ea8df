"""Goals of fluents: inertia, conditions on fluents, and formulas."""

"""Goals of fluents: inertia, tests of fluents in patterns, and formulas."""

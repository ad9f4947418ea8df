"""The planner: turn lowered rules into a plan of binary nodes that rules share, and report all static errors."""

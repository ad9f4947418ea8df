"""The planner: turn lowered rules into a plan of shared binary nodes, and report all static errors."""

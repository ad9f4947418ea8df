"""The planner. It turns lowered rules into a plan of binary nodes that several rules can share, and reports all static
errors."""

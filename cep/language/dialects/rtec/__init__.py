"""RTEC, the run-time event calculus: event descriptions in Prolog."""

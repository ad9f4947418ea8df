"""Tests of rules. A `*.test.yaml` file contains input, and the results that a program must derive from this input
(docs/testing.md)."""

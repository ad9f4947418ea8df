"""Tests of rules. A `*.test.yaml` file lists input and the results that a program must derive from it
(docs/testing.md)."""

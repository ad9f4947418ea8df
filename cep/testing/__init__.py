"""Tests of rules: `*.test.yaml` files say what comes in and what a program is to derive of it (docs/testing.md)."""

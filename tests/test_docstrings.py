"""Docstrings begin with a verb or a noun, as CONTRIBUTING.md asks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CLEAN = (
    "cep/app",
    "cep/backtest",
    "cep/compiled",
    "cep/core",
    "cep/diff",
    "cep/editor",
    "cep/explain",
    "cep/language",
    "cep/operators",
    "cep/plan",
    "cep/rules",
    "cep/runtime",
    "cep/server",
    "cep/spark",
    "cep/testing",
    "cep/workers",
    "connectors",
    "knowledge",
)
"""Packages whose docstrings have been rewritten; the others follow."""
_RIDDLE = re.compile(r'^\s*"""(?:What|Whether|Of|Where)\b.*', re.MULTILINE)


@pytest.mark.parametrize("folder", CLEAN)
def test_no_docstring_begins_with_a_relative_clause(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group().strip()}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for match in _RIDDLE.finditer(path.read_text())
    ]
    assert not found, "say what it does or is: `Return True if ...`, `The places of ...`"

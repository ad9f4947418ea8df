"""Docstrings begin with a verb or a noun, and names say what they hold, as CONTRIBUTING.md asks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("cep", "connectors", "knowledge")
_RIDDLE = re.compile(r'^\s*"""(?:What|Whether|Of|Where)\b.*', re.MULTILINE)
_VAGUE = {"found", "made", "each", "one", "given", "there", "came", "at", "on"}
_SEEN_BY_USERS = {
    ("connectors/serving/page.py", "at"),
    ("connectors/serving/why.py", "at"),
    ("cep/app/cli_explain.py", "at"),
    ("cep/app/cli_options.py", "on"),
}
"""Names that are parts of addresses or options: `?at=`, `--at`, `--on`."""


@pytest.mark.parametrize("package", PACKAGES)
def test_no_docstring_begins_with_a_relative_clause(package: str) -> None:
    riddles = [
        f"{path.relative_to(ROOT)}: {match.group().strip()}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for match in _RIDDLE.finditer(path.read_text())
    ]
    assert not riddles, "say what it does or is: `Return True if ...`, `The places of ...`"


@pytest.mark.parametrize("package", PACKAGES)
def test_bindings_are_named_after_what_they_hold(package: str) -> None:
    vague = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name, line in _bound(ast.parse(path.read_text()))
        if name in _VAGUE and (str(path.relative_to(ROOT)), name) not in _SEEN_BY_USERS
    ]
    assert not vague, "name them after what they hold: `matches`, `new_rows`, `rule`"


def _bound(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the variables, arguments and fields that a module binds, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name is not None:
            yield node.name, node.lineno

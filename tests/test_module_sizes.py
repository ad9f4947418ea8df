"""No module is longer than a reader takes in."""

from __future__ import annotations

from pathlib import Path

MOST = 800
"""Lines."""


def test_no_module_is_too_long() -> None:
    root = Path(__file__).parent.parent
    folders = ("cep", "knowledge", "connectors", "tests", "demos", "benchmarks")
    modules = [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]
    lines = {str(path.relative_to(root)): path.read_text(encoding="utf-8").count("\n") for path in modules}
    assert {name: number for name, number in lines.items() if number > MOST} == {}, "split it by what it is about"

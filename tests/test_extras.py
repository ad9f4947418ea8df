"""Hints that say how to install what an optional feature needs."""

from __future__ import annotations

import importlib.metadata
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from cep.core.extras import install_command

ROOT = Path(__file__).parent.parent


def test_the_command_installs_the_packages_of_the_extra() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, packages in declared.items():
        told = install_command(extra)
        assert told.startswith("pip install '") and told.count("'") == 2 * len(packages)
        assert all(f"'{package.split('>')[0]}" in told for package in packages), told


def test_without_metadata_the_command_installs_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    assert install_command("kafka") == "pip install '.[kafka]' in a clone of semcep"


def test_nothing_tells_people_to_install_semcep_by_name() -> None:
    """The name is not registered at any index, so a stranger could take it."""
    files = [path for folder in ("cep", "connectors", "knowledge", "demos") for path in (ROOT / folder).rglob("*.py")]
    files += [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    named = [str(path.relative_to(ROOT)) for path in files if "semcep[" in path.read_text()]
    named += [str(path.relative_to(ROOT)) for path in files if "install semcep" in path.read_text()]
    assert not named

"""Installation commands for the packages that optional features need.

semcep is on no package index. Hints must not name it to pip, because anyone could register the name there.
"""

from __future__ import annotations

import re

_REQUIREMENT = re.compile(r"""\s*([^;]+?)\s*;.*\bextra\s*==\s*["']([\w-]+)["']""")


def install_command(extra: str) -> str:
    """Return the `pip install` command for the packages of an optional feature. `extra`: the name of the feature in
    `pyproject.toml`."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        declared = [_REQUIREMENT.fullmatch(line) for line in requires("semcep") or ()]
    except PackageNotFoundError:
        declared = []
    packages = [matched[1] for matched in declared if matched is not None and matched[2] == extra]
    if not packages:
        return f"pip install '.[{extra}]' in a clone of semcep"
    return "pip install " + " ".join(f"'{package}'" for package in packages)

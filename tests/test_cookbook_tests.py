"""Each recipe of the cookbook has a test in the form of `cep test`, over the records that the page shows."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

import pytest

from cep.testing.rule_files import read_test_file
from cep.testing.session import Session
from tests.test_docs import COOKBOOK, Block, blocks

FOLDER = Path(__file__).parent / "cookbook"
TITLES = [
    (number, line[3:])
    for number, line in enumerate(COOKBOOK.read_text(encoding="utf-8").splitlines(), 1)
    if line.startswith("## ")
]


def title_of(block: Block) -> str:
    return next(title for line, title in reversed(TITLES) if line <= block.line)


RECIPES = {title: list(own) for title, own in groupby(blocks(COOKBOOK), title_of)}


def file_of(title: str) -> Path:
    name = re.sub(r"[^a-z0-9]+", "-", title.lower().replace("'", "")).strip("-")
    return FOLDER / f"{name}.yaml"


def write_recipe(title: str, folder: Path) -> Path:
    """Write the files of a recipe and its test; return the test file."""
    for block in RECIPES[title]:
        if block.name and block.kind in ("cep", "csv", "json", "turtle"):
            (folder / block.name).write_text(block.text, encoding="utf-8")
    file = folder / "recipe.test.yaml"
    file.write_text(file_of(title).read_text(encoding="utf-8"), encoding="utf-8")
    return file


@pytest.mark.parametrize("title", RECIPES)
def test_recipe(title: str, tmp_path: Path) -> None:
    session = Session()
    for test in read_test_file(write_recipe(title, tmp_path)).tests:
        result = session.run(test)
        assert result.passed, result.failures
        assert result.laws


def test_every_recipe_has_its_test() -> None:
    assert {file_of(title) for title in RECIPES} == set(FOLDER.iterdir())

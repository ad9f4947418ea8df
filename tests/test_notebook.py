"""The notebook runs, and shows what it shows: its outputs are those that its cells have now.

`python -m pytest tests/test_notebook.py --write` writes them anew.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests import notebooks

pytestmark = pytest.mark.xdist_group("notebook")  # what they share is made once

PATH = Path(__file__).parent.parent / "demos" / "first.ipynb"


@pytest.fixture(scope="module")
def made(pytestconfig: pytest.Config) -> dict[str, Any]:
    """The notebook as it is now."""
    found = notebooks.run(PATH)
    if pytestconfig.getoption("write"):
        PATH.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return found


def words(output: dict[str, Any]) -> list[str]:
    """What is written, without the frames of tables, which libraries draw in this way and that."""
    text = output.get("text") or output["data"]["text/plain"]
    return re.findall(r"[\w.:%°+-]*\w[\w.:%°+-]*", "".join(text))


def test_the_outputs_are_those_of_now(made: dict[str, Any]) -> None:
    kept = json.loads(PATH.read_text(encoding="utf-8"))
    for cell, now in zip(kept["cells"], made["cells"], strict=True):
        assert cell["source"] == now["source"]
        outputs, those = cell.get("outputs", []), now.get("outputs", [])
        assert [words(output) for output in outputs] == [words(output) for output in those], "".join(cell["source"])


def test_charts_are_drawn(made: dict[str, Any]) -> None:
    kept = json.loads(PATH.read_text(encoding="utf-8"))
    for notebook in (kept, made):
        images = [
            base64.b64decode(output["data"]["image/png"])
            for cell in notebook["cells"]
            for output in cell.get("outputs", [])
            if "image/png" in output.get("data", {})
        ]
        assert len(images) == 2 and all(image.startswith(b"\x89PNG") for image in images)
    assert PATH.stat().st_size < 200_000, "a notebook is small"


def test_it_is_a_notebook(made: dict[str, Any]) -> None:
    """By the rules of nbformat 4.5: https://nbformat.readthedocs.io."""
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in made["cells"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[a-zA-Z0-9-_]{1,64}", each) for each in ids)
    for cell in made["cells"]:
        keys = {"cell_type", "id", "metadata", "source"}
        assert cell.keys() == keys | ({"outputs", "execution_count"} if cell["cell_type"] == "code" else set())

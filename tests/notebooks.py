"""Execution of notebooks cell by cell, as in Jupyter: what a cell prints, its last value, and its figures."""

from __future__ import annotations

import ast
import base64
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

Output = dict[str, Any]


def run(path: Path) -> dict[str, Any]:
    """The notebook with the outputs that its cells have now."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    pyplot.close("all")
    with matplotlib.rc_context():
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                number += 1
                cell["execution_count"] = number
                cell["outputs"] = _outputs("".join(cell["source"]), names, f"{path.name}, cell {number}", number)
    return notebook


def _outputs(source: str, names: dict[str, Any], place: str, number: int) -> list[Output]:
    tree = ast.parse(source, place)
    last = None
    if isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, place, "exec"), names)
        value = None if last is None else eval(compile(last, place, "eval"), names)
    outputs: list[Output] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(True)
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    for figure in map(pyplot.figure, pyplot.get_fignums()):
        image = io.BytesIO()
        figure.savefig(image, format="png", metadata={"Software": None})
        width, height = (round(side * figure.dpi) for side in figure.get_size_inches())
        data = {"image/png": base64.b64encode(image.getvalue()).decode(), "text/plain": [f"<Figure {width}x{height}>"]}
        outputs.append({"data": data, "metadata": {}, "output_type": "display_data"})
    pyplot.close("all")
    return outputs

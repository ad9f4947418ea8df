"""Format the output of a demo as text: tables, in colour if standard output is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cep.connectors.writing.sinks import writing


def rendered(draw: Callable[[Console], None]) -> str:
    """Return the text that `draw` prints, without its final line break. It is 80 columns wide by default."""
    text = StringIO()
    colours = True if sys.stdout is not None and sys.stdout.isatty() else None
    draw(Console(file=text, highlight=False, force_terminal=colours))
    return text.getvalue().removesuffix("\n")


def illustrated(picture: Path | None, picture_of: Callable[[Path], object], draw: Callable[[Console], None]) -> str:
    """Return the text that `draw` prints. If a path is given, first call `picture_of` to draw the picture there. Raises
    CepError if the picture cannot be written."""
    if picture is not None:
        with writing(str(picture)):
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture_of(picture)
    return rendered(draw)


def table(title: str, left: str, right: str = "") -> Table:
    """Return an empty table. `left`, `right`: the names of its left-aligned and of its right-aligned columns, separated
    by spaces. A `_` in a name is printed as a space."""
    made = Table(title=title, box=SIMPLE_HEAD, title_style="bold", collapse_padding=True)
    for number, name in enumerate(left.split()):
        made.add_column(name.replace("_", " "), style="" if number else "bold", no_wrap=True, overflow="ellipsis")
    for name in right.split():
        made.add_column(name.replace("_", " "), justify="right", no_wrap=True)
    return made

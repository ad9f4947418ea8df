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
    """Return the text that `draw` prints, without its final line break. It is 80 columns wide unless the environment
    says otherwise."""
    text = StringIO()
    colours = True if sys.stdout is not None and sys.stdout.isatty() else None
    draw(Console(file=text, highlight=False, force_terminal=colours))
    return text.getvalue().removesuffix("\n")


def illustrated(picture: Path | None, picture_of: Callable[[Path], object], draw: Callable[[Console], None]) -> str:
    """Return the text that `draw` prints. First, `picture_of` draws the picture if a path is given. Raises CepError if
    it cannot be written."""
    if picture is not None:
        with writing(str(picture)):
            picture.parent.mkdir(parents=True, exist_ok=True)
            picture_of(picture)
    return rendered(draw)


def table(title: str, left: str, right: str = "") -> Table:
    """Return an empty table. `left`, `right`: the names of the columns with this alignment, separated by spaces. `_`
    stands for a space in a name."""
    made = Table(title=title, box=SIMPLE_HEAD, title_style="bold", collapse_padding=True)
    for number, name in enumerate(left.split()):
        made.add_column(name.replace("_", " "), style="" if number else "bold", no_wrap=True, overflow="ellipsis")
    for name in right.split():
        made.add_column(name.replace("_", " "), justify="right", no_wrap=True)
    return made

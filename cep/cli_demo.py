"""The commands `cep demo ...`: programs on real data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cep.terminal import compiles, say, settled

demos = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@demos.command()
def blizzard(
    noaa: Annotated[bool, typer.Option("--noaa", help="The official blizzard: 35 mph and a quarter mile.")] = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the storms into this PNG file.", show_default=False)
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the derived events to this file.", show_default=False)
    ] = None,
) -> None:
    """Find the storms of 2013 at the airports of New York.

    \b
      cep demo blizzard --picture storms.png
    """
    with settled():
        from demos.blizzard.demo import show

        compiles()
        say(show(noaa, picture, output))

